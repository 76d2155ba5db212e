"""Deliveries: one row per message and receiver, with its latency and how long it was held back.

All events of one message meet in one partition; submissions are joined there without moving the deliveries again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.tables.columns import DELIVERIES, MESSAGE, names
from castbed_spark.tables.stays import with_stay
from castbed_spark.tables.waiting import needless_waits

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EVENT_COLUMNS = (
    "run", "node", "place", "at", "kind", "group", "origin", "seqno", "incarnation",
    "parent_origin", "parent_seqno", "parent_incarnation", "number",
)  # fmt: skip
"""What `deliveries` needs of `events`."""
_PARENT = ("parent_origin", "parent_seqno", "parent_incarnation")


def deliveries(events: DataFrame, nodes: DataFrame) -> DataFrame:
    """The table `deliveries`. Put `events` on one timeline first (`clocks.align`) if nodes have clocks of their own."""
    received = _received(events)
    waits = needless_waits(received, events, nodes)
    keys = [*MESSAGE, "node", "stay"]
    needless = F.coalesce(F.col("needless_ns"), F.lit(0)).alias("needless_ns")
    columns = [needless if name == "needless_ns" else name for name in names(DELIVERIES)]
    return received.join(waits, keys, "left").select(*columns)


def received_only(events: DataFrame) -> DataFrame:
    """Deliveries without `needless_ns`: for those who only want latencies, at a fraction of the cost."""
    wanted = [name for name in names(DELIVERIES) if name != "needless_ns"]
    return _received(events).select(*wanted)


def _received(events: DataFrame) -> DataFrame:
    here = with_stay(events.select(*EVENT_COLUMNS)).filter(_kind(Kind.HOLD, Kind.DELIVER)).repartition(*MESSAGE)
    delivered, held = _kind(Kind.DELIVER), _kind(Kind.HOLD)
    once = here.groupBy(*MESSAGE, "node", "stay").agg(  # plain numbers, because only these are aggregated by hashing
        F.min(F.when(delivered, F.col("place"))).alias("place"),
        F.min(F.when(delivered, F.col("at"))).alias("delivered_at"),
        F.min(F.when(held, F.col("place"))).alias("held_place"),
        F.min(F.when(held, F.col("at"))).alias("held_at"),
        F.count(F.when(delivered, True)).alias("copies"),
        *[F.max(name).alias(name) for name in _PARENT],
    )
    waited = F.col("held_place") < F.col("place")
    return (
        once.filter("place is not null")
        .join(_submitted(events), list(MESSAGE), "left")
        .withColumn("held_at", F.when(waited, F.col("held_at")))
        .withColumn("latency_ns", F.col("delivered_at") - F.col("submitted_at"))
        .withColumn("hold_ns", F.coalesce(F.col("delivered_at") - F.col("held_at"), F.lit(0)))
    )


def _submitted(events: DataFrame) -> DataFrame:
    """The first submission of each message; all of them are at its writer."""
    return (
        events.filter(_kind(Kind.SUBMIT))
        .groupBy(*MESSAGE)
        .agg(
            F.min("at").alias("submitted_at"),
            F.min("place").alias("submitted_place"),
            F.min("node").alias("submitted_by"),
        )
    )


def _kind(*kinds: Kind) -> Column:
    return F.col("kind").isin([int(kind) for kind in kinds])
