"""Runs judged whole, in memory: for properties that other plugins bring, and runs that no reduction fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from castbed_spark.checks.histories import VERDICT, Search, judging
from castbed_spark.checks.parts import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def whole_runs(lanes: DataFrame, identities: DataFrame, searches: dict[str, Search]) -> DataFrame:
    """The verdicts on each run in a task of its own, which has to hold the run."""
    return named(lanes, identities).groupBy("run").applyInArrow(judging(searches), VERDICT)
