"""Holds: which message a node held back from where to where, as `castbed.properties.reading` pairs them.

A hold ends with the next delivery of the message there; a crash, or leaving the group, ends it without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.checks.lanes import MESSAGE, PARENT, is_kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HELD = (*MESSAGE, "node")


def released_holds(lanes: DataFrame) -> DataFrame:
    """One row per hold that a delivery ended: message, node, memory, parent, `hold_place`, `place` and `at` of that."""
    found = _stays(lanes)
    before = Window.partitionBy(*_HELD, "crashes", "leaves").orderBy("place").rowsBetween(Window.unboundedPreceding, -1)
    episode = F.coalesce(F.sum(is_kind(Kind.DELIVER).cast("int")).over(before), F.lit(0))
    hold = F.min(F.when(is_kind(Kind.HOLD), F.struct("place", *PARENT)))
    release = F.min(F.when(is_kind(Kind.DELIVER), F.struct("place", "at", "memory")))
    ended = found.withColumn("episode", episode).groupBy(*_HELD, "crashes", "leaves", "episode")
    both = ended.agg(hold.alias("hold"), release.alias("release")).filter("hold is not null and release is not null")
    return both.select(
        *_HELD, F.col("hold.place").alias("hold_place"), *(f"hold.{name}" for name in PARENT), "release.*"
    )


def _stays(lanes: DataFrame) -> DataFrame:
    """Holds, and deliveries of what was held, with how often the node had crashed and left the group before."""
    columns = (*_HELD, "place", "at", "memory", "kind", *PARENT)
    holds = lanes.filter(is_kind(Kind.HOLD)).select(*columns)
    deliveries = lanes.filter(is_kind(Kind.DELIVER)).select(*columns)
    held = deliveries.join(holds.select(*_HELD).distinct(), list(_HELD), "left_semi")
    ends = lanes.filter(is_kind(Kind.CRASH, Kind.LEAVE)).select(*columns)
    lane = Window.partitionBy("run", "node").orderBy("place").rowsBetween(Window.unboundedPreceding, 0)
    of_group = Window.partitionBy("run", "node", "group").orderBy("place").rowsBetween(Window.unboundedPreceding, 0)
    counted = holds.unionByName(held).unionByName(ends).withColumns(
        {
            "crashes": F.sum(is_kind(Kind.CRASH).cast("int")).over(lane),
            "leaves": F.sum(is_kind(Kind.LEAVE).cast("int")).over(of_group),
        }
    )  # fmt: skip
    return counted.filter(is_kind(Kind.HOLD, Kind.DELIVER))
