"""Runs judged whole, in memory: for properties that other plugins bring, and runs that no reduction fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.errors import CastbedError
from castbed_spark.checks.histories import VERDICT, Search, judging
from castbed_spark.checks.parts import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


EVENTS_MAX = 2_000_000
"""Of one run: a task holds them as objects of Python, in about two gigabytes."""


def whole_runs(lanes: DataFrame, identities: DataFrame, searches: dict[str, Search]) -> DataFrame:
    """The verdicts on each run in a task of its own, which has to hold the run; CastbedError if it is too large."""
    sizes = lanes.groupBy("run").agg(F.count(F.lit(1)).alias("size"))
    for row in sizes.filter(F.col("size") > EVENTS_MAX).limit(1).collect():
        raise CastbedError(
            f"{row['run']}: {', '.join(searches)} can only be judged in memory here, and {row['size']} events are more "
            f"than the {EVENTS_MAX} that one task may hold, so the verdict stays undecided"
        )
    return named(lanes, identities).groupBy("run").applyInArrow(judging(searches), VERDICT)
