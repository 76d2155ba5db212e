"""Properties over histories larger than memory: the verdicts and witnesses of `castbed.properties`, by Spark."""

from castbed_spark.checks.judging import CHECKED, judge

__all__ = ["CHECKED", "judge"]
