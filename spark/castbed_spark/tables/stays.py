"""Stays: a crash, or leaving the group, ends what a node held back. There are few of these, so they are sent around."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.history import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def with_stay(events: DataFrame) -> DataFrame:
    """Add `stay`, how many ends of stays came before the event, and `ended`, the place and time of the next one.

    What ends a stay is a crash of the node, or that it leaves the group of the event.
    """
    ends = (
        events.filter(F.col("kind").isin(int(Kind.CRASH), int(Kind.LEAVE)))
        .groupBy("run", "node")
        .agg(F.sort_array(F.collect_list(F.struct("place", "at", "group"))).alias("ends"))
    )
    mine = F.filter("ends", lambda end: (end["group"] == 0) | (end["group"] == F.col("group")))
    stay = F.coalesce(F.size(F.filter(mine, lambda end: end["place"] < F.col("place"))), F.lit(0))
    stay = F.when(F.col("ends").isNull(), 0).otherwise(stay)
    following = F.get(F.filter(mine, lambda end: end["place"] > F.col("place")), F.lit(0))
    return events.join(F.broadcast(ends), ["run", "node"], "left").select(
        *events.columns, stay.alias("stay"), _place_and_time(following).alias("ended")
    )


def _place_and_time(end: Column) -> Column:
    return F.when(end.isNotNull(), F.struct(end["place"].alias("place"), end["at"].alias("at")))
