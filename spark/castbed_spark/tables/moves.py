"""Handoffs and views: how nodes moved, and who was a member when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.tables.columns import HANDOFFS, VIEWS, names
from castbed_spark.tables.stays import with_stay

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def handoffs(events: DataFrame) -> DataFrame:
    """The table `handoffs`: one row per attachment."""
    lane = Window.partitionBy("run", "node").orderBy("place")
    before = lane.rowsBetween(Window.unboundedPreceding, -1)
    moves = events.filter(_is(Kind.ATTACH, Kind.DETACH)).select("run", "node", "place", "at", "kind", "peer")
    attached = moves.withColumns(
        {
            "moved": F.row_number().over(lane),
            "from_station": F.last(F.when(_is(Kind.ATTACH), F.col("peer")), ignorenulls=True).over(before),
            "detached_at": F.when(F.lag("kind").over(lane) == int(Kind.DETACH), F.lag("at").over(lane)),
        }
    ).filter(_is(Kind.ATTACH))
    return (
        attached.join(_first_deliveries(events), ["run", "node", "moved"], "left")
        .withColumnsRenamed({"peer": "to_station", "at": "attached_at"})
        .withColumn("gap_ns", F.col("attached_at") - F.col("detached_at"))
        .withColumn("silence_ns", F.col("first_delivery_at") - F.col("attached_at"))
        .select(*names(HANDOFFS))
    )


def _first_deliveries(events: DataFrame) -> DataFrame:
    """By how often the node had moved, when it delivered first."""
    lane = Window.partitionBy("run", "node").orderBy("place")
    steps = events.filter(_is(Kind.ATTACH, Kind.DETACH, Kind.DELIVER)).select("run", "node", "place", "at", "kind")
    moved = F.sum((F.col("kind") != int(Kind.DELIVER)).cast("int")).over(lane)
    return (
        steps.withColumn("moved", moved)
        .filter(_is(Kind.DELIVER))
        .groupBy("run", "node", "moved")
        .agg(F.min("at").alias("first_delivery_at"))
    )


def views(events: DataFrame) -> DataFrame:
    """The table `views`: one row per installed view and node."""
    lane = Window.partitionBy("run", "node", "group").orderBy("place")
    ended = with_stay(events).filter(_is(Kind.VIEW)).withColumn("next_at", F.lead("at").over(lane))
    return (
        ended.withColumn("until", F.least(F.col("next_at"), F.col("ended.at")))
        .withColumn("local", F.coalesce("local", F.lit(False)))
        .withColumnRenamed("at", "installed_at")
        .select(*names(VIEWS))
    )


def _is(*kinds: Kind) -> Column:
    return F.col("kind").isin([int(kind) for kind in kinds])
