"""What changed over time: submissions, deliveries and buffers, each in a bounded number of stretches."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.report.document import Buffer, OverTime
from castbed_spark.report.timeline import SECOND, Cast, Timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

STRETCHES = 50
BUFFER_STRETCHES = 300
BUFFERS_MAX = 6  # the fullest: more curves cannot be told apart


def over_time(events: DataFrame, timelines: dict[str, Timeline]) -> dict[str, OverTime]:
    """Submissions and deliveries of each run, up to the last of them."""
    kinds = (Kind.SUBMIT, Kind.DELIVER)
    timelines = {run: one.until(*kinds) for run, one in timelines.items()}
    counted = (
        _in_stretches(events.filter(F.col("kind").isin([int(kind) for kind in kinds])), timelines, STRETCHES)
        .groupBy("run", "kind", "stretch")
        .count()
    )
    found = {run: {kind: [0] * STRETCHES for kind in kinds} for run in timelines}
    for row in counted.collect():
        found[row["run"]][Kind(row["kind"])][row["stretch"]] = row["count"]
    return {
        run: OverTime(timelines[run].span / SECOND / STRETCHES, counts[Kind.SUBMIT], counts[Kind.DELIVER])
        for run, counts in found.items()
    }


def _in_stretches(table: DataFrame, timelines: dict[str, Timeline], stretches: int) -> DataFrame:
    """With the column `stretch`: in which of so many equal parts of its run a row lies."""
    rows = [(run, one.start, one.span) for run, one in timelines.items()]
    spans = table.sparkSession.createDataFrame(rows, "run string, start bigint, span bigint")
    stretch = F.floor((F.col("at") - F.col("start")) * stretches / F.col("span"))
    within = F.greatest(F.lit(0), F.least(stretch, F.lit(stretches - 1))).cast("int")
    return table.join(F.broadcast(spans), "run").withColumn("stretch", within).drop("start", "span")


def buffers(table: DataFrame, timelines: dict[str, Timeline], casts: dict[str, Cast]) -> dict[str, list[Buffer]]:
    """The fullest buffers of each run, the fullest first, up to the last change of any."""
    timelines = {run: one.until(Kind.SUBMIT, Kind.HOLD, Kind.DELIVER, Kind.GAUGE) for run, one in timelines.items()}
    fullest = _fullest(table)
    if not fullest:
        return {}
    keys = [(row["run"], row["node"], row["what"]) for row in fullest]
    wanted = table.sparkSession.createDataFrame(keys, "run string, node int, what string")
    chosen = table.join(F.broadcast(wanted), ["run", "node", "what"])
    changes = _in_stretches(chosen, timelines, BUFFER_STRETCHES).groupBy("run", "node", "what", "stretch").agg(
        F.max_by(F.struct("at", "value"), F.struct("value", "place")).alias("most"),
        F.max_by(F.struct("at", "value"), "place").alias("last"),
    )  # fmt: skip
    points: dict[tuple[str, int, str], list[tuple[float, float]]] = defaultdict(list)
    for row in changes.orderBy("stretch").collect():
        points[row["run"], row["node"], row["what"]] += _points(row, timelines[row["run"]])
    found: dict[str, list[Buffer]] = defaultdict(list)
    for run, node, what in keys:
        found[run].append(Buffer(casts[run].name(node), what, _to_the_end(points[run, node, what], timelines[run])))
    return dict(found)


def _fullest(table: DataFrame) -> list[Row]:
    """Node and name of the fullest buffers, per run; those that were never used are none."""
    rows = table.groupBy("run", "node", "what").agg(F.max("value").alias("most")).filter("most > 0").collect()
    ranked: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (-row["most"], row["what"], row["node"])):
        ranked[row["run"]].append(row)
    return [row for of_run in ranked.values() for row in of_run[:BUFFERS_MAX]]


def _points(row: Row, timeline: Timeline) -> list[tuple[float, float]]:
    """The fullest moment of a stretch, and how it ended."""
    most, last = row["most"], row["last"]
    points = [(timeline.at(most["at"]), float(most["value"])), (timeline.at(last["at"]), float(last["value"]))]
    return points if points[0] != points[1] else points[:1]


def _to_the_end(points: list[tuple[float, float]], timeline: Timeline) -> list[tuple[float, float]]:
    return [(0.0, 0.0), *points, (timeline.seconds, points[-1][1])]
