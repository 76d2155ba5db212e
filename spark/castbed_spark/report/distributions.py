"""How durations are distributed: all kinds of them, in all runs, in two passes over the tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F

from castbed_spark.report.document import Distribution

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

MILLISECOND = 1e6
BINS = 48
FAR = 8  # where the longest is more than so many times the median, bins grow by a constant factor
ROOM = 0.8  # where such bins begin, as a share of the shortest
CLOSE = (0.02, 0.4)  # bins begin at the shortest where durations differ by such a share of the longest, else at 0
DECADES = 4  # that the bins then span at most
QUANTILES = (0.5, 0.95, 0.99)
ACCURACY = 10_000
_SAME_RANK = 1e-9
"""Spark takes the value of rank ceil(n p), summaries that of rank floor(n p) + 1: a hair above p these are the same."""

Key = tuple[str, str]


def distributions(deliveries: DataFrame, handoffs: DataFrame) -> dict[Key, Distribution]:
    """By run and kind: `latency`, `holds`, `needless`, `gaps`, `silences`. What did not occur is not there."""
    durations = _durations(deliveries, handoffs)
    figures = {(row["run"], row["what"]): row for row in durations.groupBy("run", "what").agg(*_figures()).collect()}
    scales = {key: _scale(row) for key, row in figures.items()}
    counts = _counts(durations, scales)
    return {key: _distribution(row, scales[key], counts[key]) for key, row in figures.items()}


class Scale(msgspec.Struct, frozen=True):
    """The bins of a histogram, from `low` to `high` nanoseconds."""

    low: float
    high: float
    logarithmic: bool

    def edge(self, at: int) -> float:
        share = at / BINS
        if self.logarithmic:
            return float(self.low * (self.high / self.low) ** share) / MILLISECOND
        return (self.low + (self.high - self.low) * share) / MILLISECOND


def _durations(deliveries: DataFrame, handoffs: DataFrame) -> DataFrame:
    held = deliveries.filter("held_at is not null")
    moves = handoffs.filter("from_station is not null")
    return (
        _of(deliveries, "latency", "latency_ns")
        .unionByName(_of(held, "holds", "hold_ns"))
        .unionByName(_of(held.filter("needless_ns > 0"), "needless", "needless_ns"))
        .unionByName(_of(moves, "gaps", "gap_ns"))
        .unionByName(_of(moves, "silences", "silence_ns"))
    )


def _of(table: DataFrame, what: str, column: str) -> DataFrame:
    return table.filter(F.col(column).isNotNull()).select("run", F.lit(what).alias("what"), F.col(column).alias("ns"))


def _figures() -> list[Column]:
    shares = [share + _SAME_RANK for share in QUANTILES]
    return [
        F.count(F.lit(1)).alias("count"),
        F.avg("ns").alias("mean"),
        F.min("ns").alias("least"),
        F.max("ns").alias("most"),
        F.percentile_approx("ns", shares, ACCURACY).alias("quantiles"),
    ]


def _scale(row: Row) -> Scale:
    """From 0, or from the shortest where all are long, to the longest."""
    least, most, median = float(row["least"]), float(row["most"]), row["quantiles"][0]
    if most > FAR * max(median, 0):
        return Scale(max(ROOM * least, most / 10**DECADES, 1.0), max(most, 2.0), True)
    close = CLOSE[0] * most < most - least < CLOSE[1] * most
    low = least if least < 0 or close else 0.0
    return Scale(low, max(most, low + BINS), False)


def _counts(durations: DataFrame, scales: dict[Key, Scale]) -> dict[Key, Counter[int]]:
    found: dict[Key, Counter[int]] = {key: Counter() for key in scales}
    if not scales:
        return found
    rows = [(run, what, scale.low, scale.high, scale.logarithmic) for (run, what), scale in scales.items()]
    schema = "run string, what string, low double, high double, logarithmic boolean"
    table = durations.sparkSession.createDataFrame(rows, schema)
    binned = durations.join(F.broadcast(table), ["run", "what"]).groupBy("run", "what", _bin().alias("bin"))
    for row in binned.count().collect():
        found[row["run"], row["what"]][row["bin"]] = row["count"]
    return found


def _bin() -> Column:
    linear = (F.col("ns") - F.col("low")) / (F.col("high") - F.col("low"))
    grown = F.log(F.greatest(F.col("ns"), F.col("low")) / F.col("low")) / F.log(F.col("high") / F.col("low"))
    place = F.floor(F.when(F.col("logarithmic"), grown).otherwise(linear) * BINS)
    return F.least(F.greatest(place, F.lit(0)), F.lit(BINS - 1)).cast("int")


def _distribution(row: Row, scale: Scale, counts: Counter[int]) -> Distribution:
    p50, p95, p99 = (value / MILLISECOND for value in row["quantiles"])
    return Distribution(
        row["count"],
        row["mean"] / MILLISECOND,
        p50,
        p95,
        p99,
        row["most"] / MILLISECOND,
        tuple(scale.edge(at) for at in range(BINS + 1)),
        tuple(counts[at] for at in range(BINS)),
        scale.logarithmic,
    )
