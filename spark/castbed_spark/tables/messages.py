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
    return submitted.join(_cost(frames), list(MESSAGE), "left").na.fill(0, _COUNTS).select(*names(MESSAGES))


_PARENT = ("parent_origin", "parent_seqno", "parent_incarnation")
_COUNTS = ["frames", "frames_control_bytes"]


def _cost(frames: DataFrame) -> DataFrame:
    first = F.when(F.col("sender") == F.col("origin"), F.struct("place", "control_bytes"))
    return (
        frames.filter("outgoing and origin is not null")
        .groupBy(*MESSAGE)
        .agg(
            F.min(first)["control_bytes"].alias("control_bytes"),
            F.count(F.lit(1)).alias("frames"),
            F.sum("control_bytes").alias("frames_control_bytes"),
        )
    )
