"""Messages: one row per submission, with what it cost on the media."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.tables.columns import MESSAGE, MESSAGES, names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def messages(events: DataFrame, frames: DataFrame) -> DataFrame:
    """The table `messages`. A message that was submitted twice under one identity appears as it was the first time."""
    submitted = (
        events.filter(F.col("kind") == int(Kind.SUBMIT))
        .select(*MESSAGE, F.struct("place", "node", "at", "size", *_PARENT, "to").alias("submission"))
        .groupBy(*MESSAGE)
        .agg(F.min_by("submission", F.struct("submission.at", "submission.place")).alias("submission"))
        .select(*MESSAGE, "submission.*")
        .withColumnRenamed("at", "submitted_at")
    )
    carrying = _carrying(frames, submitted.select(*MESSAGE))
    return submitted.join(_cost(carrying), list(MESSAGE), "left").na.fill(0, _COUNTS).select(*names(MESSAGES))


_PARENT = ("parent_origin", "parent_seqno", "parent_incarnation")
_IDENTITY = ("origin", "seqno", "incarnation")
_COUNTS = ["frames", "frames_control_bytes"]


def _carrying(frames: DataFrame, known: DataFrame) -> DataFrame:
    """The frames that were sent with an identity; some, like acknowledgements, name no group."""
    sent = frames.filter("outgoing and origin is not null").select(*MESSAGE, "sender", "place", "control_bytes")
    of_groups = known.filter(F.col("group") != 0)
    unnamed = sent.filter(F.col("group") == 0).drop("group").join(of_groups, ["run", *_IDENTITY])
    return sent.unionByName(unnamed)


def _cost(carrying: DataFrame) -> DataFrame:
    first = F.when(F.col("sender") == F.col("origin"), F.struct("place", "control_bytes"))
    return carrying.groupBy(*MESSAGE).agg(
        F.min(first)["control_bytes"].alias("control_bytes"),
        F.count(F.lit(1)).alias("frames"),
        F.sum("control_bytes").alias("frames_control_bytes"),
    )
