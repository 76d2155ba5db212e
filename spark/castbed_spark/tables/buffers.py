"""Buffers: how much of something was in use, from each change on. Protocols gauge theirs; holds are counted here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.tables.columns import BUFFERS, MESSAGE, names
from castbed_spark.tables.stays import with_stay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HELD = "held"
_KINDS = (Kind.HOLD, Kind.DELIVER, Kind.CRASH, Kind.LEAVE)


def buffers(events: DataFrame) -> DataFrame:
    """The table `buffers`."""
    gauges = events.filter(F.col("kind") == int(Kind.GAUGE)).select(
        "run", "node", F.coalesce("text", F.lit("")).alias("what"), "at", F.col("number").alias("value"), "place"
    )
    return gauges.select(*names(BUFFERS)).unionByName(_held(events).select(*names(BUFFERS)))


def _held(events: DataFrame) -> DataFrame:
    """How many messages a node holds back: one more at a hold, one less at its delivery or the end of the stay."""
    delivered, held = F.col("kind") == int(Kind.DELIVER), F.col("kind") == int(Kind.HOLD)
    waits = (
        with_stay(events.filter(F.col("kind").isin([int(kind) for kind in _KINDS])))
        .filter(delivered | held)
        .groupBy(*MESSAGE, "node", "stay")
        .agg(
            F.min(F.when(held, F.struct("place", "at"))).alias("start"),
            F.min(F.when(delivered, F.struct("place", "at"))).alias("end"),
            F.min("ended").alias("ended"),
        )
        .filter("start is not null and (end is null or end.place > start.place)")
    )
    more = waits.select("run", "node", "start.*", F.lit(1).alias("change"))
    less = waits.withColumn("end", F.coalesce("end", "ended")).filter("end is not null")
    changes = more.unionByName(less.select("run", "node", "end.*", F.lit(-1).alias("change")))
    at_once = changes.groupBy("run", "node", "place", "at").agg(F.sum("change").alias("change"))
    lane = Window.partitionBy("run", "node").orderBy("place")
    return at_once.withColumns({"what": F.lit(HELD), "value": F.sum("change").over(lane)})
