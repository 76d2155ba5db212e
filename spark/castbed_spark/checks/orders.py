"""Orders that each node keeps for itself, and that need no past: `fifo` and `semantic`.

Both return, for each run that violates them, how often, and where the events of the first violation are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.checks.lanes import MESSAGE, PARENT, first_deliveries, first_submissions, is_kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LANE = ("run", "node", "memory")


def fifo(lanes: DataFrame) -> DataFrame:
    """A delivery violates it if one of the same submitter, of a later submission, came before it."""
    known = first_deliveries(lanes).join(first_submissions(lanes), list(MESSAGE))
    before = (
        Window.partitionBy(*_LANE, "s_node", "s_memory", "group")
        .orderBy("place")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    latest = F.max(F.struct("s_place", "place")).over(before)
    late = known.withColumn("overtaker", latest).filter("s_place < overtaker.s_place")
    shown = F.array(
        event("s_node", "s_place"), event("s_node", "overtaker.s_place"), event("node", "overtaker.place"),
        event("node", "place"),
    )  # fmt: skip
    return counted(late, "fifo", shown, F.struct("node", "memory", "place"))


def semantic(lanes: DataFrame) -> DataFrame:
    """A delivery violates it if the message that it answers was not delivered before, in the same memory."""
    delivered = first_deliveries(lanes)
    answers = lanes.filter(is_kind(Kind.DELIVER)).select("run", "node", "place", *PARENT)
    parents = delivered.select(
        *_LANE, "group", *(F.col(name.removeprefix("parent_")).alias(name) for name in PARENT),
        F.col("place").alias("parent_place"),
    )  # fmt: skip
    children = delivered.join(answers.filter("parent_origin is not null"), ["run", "node", "place"])
    orphans = children.join(parents, [*_LANE, "group", *PARENT], "left").filter(
        "parent_place is null or parent_place > place"
    )
    sources = orphans.join(first_submissions(lanes), list(MESSAGE), "left")
    shown = F.array(event("s_node", "s_place"), event("node", "place"), event("node", "parent_place"))
    return counted(sources, "semantic", shown, F.struct("node", "memory", "place"))


def event(node: str, place: str) -> Column:
    """Where an event is; null if there is none."""
    where = F.struct(F.col(node).alias("node"), F.col(place).alias("place"))
    return F.when(F.col(place).isNotNull(), where)


def counted(violations: DataFrame, name: str, shown: Column, order: Column) -> DataFrame:
    """By run, how many violations there are, and the events of the first in this order."""
    return violations.groupBy("run").agg(
        F.lit(name).alias("property"),
        F.count(F.lit(1)).alias("violations"),
        F.min_by(F.array_compact(shown), order).alias("shown"),
    )
