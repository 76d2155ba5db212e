"""Lanes: each node's events in their order, with what the order of a whole history needs to know of each.

The history of a run is ordered by `stamp`, node and place (`castbed.capture.merged`): the stamp of an event is the
latest time that its node has seen, because a clock that was set back must not reorder a node's events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from castbed.history import Kind
from castbed.properties.reading import OF_THE_START

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MID = ("origin", "seqno", "incarnation")
MESSAGE = ("run", "group", *MID)
PARENT = ("parent_origin", "parent_seqno", "parent_incarnation")
EVENT_COLUMNS = (
    "run", "node", "place", "at", "kind", "group", *MID, *PARENT,
    "number", "size", "digest", "waiting_for", "members", "to", "local",
)  # fmt: skip
"""What the properties look at."""

OF_MESSAGES = (Kind.SUBMIT, Kind.HOLD, Kind.DELIVER)
CONTROLS = (
    Kind.START, Kind.CRASH, Kind.RESTART, Kind.JOIN, Kind.LEAVE, Kind.ATTACH, Kind.DETACH, Kind.VIEW
)  # fmt: skip
"""The events that say who is where. There are few of them, so every part of a history gets them all.

Of those that say in which cell a node is, only the last matters (`Facts.away`): a mobile node has one for each cell.
"""

MOVES = (Kind.ATTACH, Kind.DETACH)


def is_kind(*kinds: Kind) -> Column:
    return F.col("kind").isin([int(kind) for kind in kinds])


def laned(events: DataFrame) -> DataFrame:
    """Add `stamp`, `memory` (how often the node had lost its storage) and `opened`.

    `opened` marks the event that ends what a node does in the moment of its START; groups joined later do not count as
    joined from the start (`castbed.properties.reading`).
    """
    lane = Window.partitionBy("run", "node").orderBy("place")
    so_far = lane.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = lane.rowsBetween(Window.unboundedPreceding, -1)
    forgot = is_kind(Kind.RESTART) & (F.col("number") != 1)
    moved = F.coalesce(F.lag("at").over(lane) != F.col("at"), F.lit(True))
    counted = events.withColumns(
        {
            "stamp": F.max("at").over(so_far),
            "memory": F.sum(forgot.cast("int")).over(so_far).cast("int"),
            "breaks": F.when(~is_kind(*OF_THE_START) | moved, F.col("kind")),
        }
    )
    last_break = F.last("breaks", ignorenulls=True).over(before)
    opened = (last_break == int(Kind.START)) & ~is_kind(*OF_THE_START)
    return counted.withColumn("opened", F.coalesce(opened, F.lit(False))).drop("breaks")


def controls(lanes: DataFrame) -> DataFrame:
    """The events that say who is where, with a mark (a DROP, which says nothing) where a node's start was over."""
    marks = lanes.filter(F.col("opened") & ~is_kind(*CONTROLS)).withColumn("kind", F.lit(int(Kind.DROP)))
    stays = lanes.filter(is_kind(*CONTROLS) & ~is_kind(*MOVES))
    latest = Window.partitionBy("run", "node").orderBy(F.desc("place"))
    moves = lanes.filter(is_kind(*MOVES)).withColumn("latest", F.row_number().over(latest)).filter("latest = 1")
    return stays.unionByName(moves.drop("latest")).unionByName(marks)


def first_submissions(lanes: DataFrame) -> DataFrame:
    """By message, where it was submitted first: `s_node`, `s_memory`, `s_place`."""
    place = F.min(F.struct("stamp", "node", "place", "memory")).alias("first")
    return (
        lanes.filter(is_kind(Kind.SUBMIT))
        .groupBy(*MESSAGE)
        .agg(place)
        .select(
            *MESSAGE,
            F.col("first.node").alias("s_node"),
            F.col("first.memory").alias("s_memory"),
            F.col("first.place").alias("s_place"),
        )
    )


def first_deliveries(lanes: DataFrame) -> DataFrame:
    """By message, node and memory, where it was delivered first: `place`, `stamp`."""
    once = F.min(F.struct("place", "stamp")).alias("first")
    grouped = lanes.filter(is_kind(Kind.DELIVER)).groupBy(*MESSAGE, "node", "memory").agg(once)
    return grouped.select(*MESSAGE, "node", "memory", "first.place", "first.stamp")
