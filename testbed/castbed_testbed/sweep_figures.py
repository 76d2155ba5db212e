"""What the runs of each point say together: sums, and means with the interval in which the true mean is.

The interval is Student's, at 95 %: it takes the seeds for independent samples of a quantity that is about normal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from math import atan, cos, pi, sin, sqrt
from statistics import fmean, stdev
from typing import Any

import msgspec

from castbed_testbed.sweep import Point
from castbed_testbed.sweep_pool import Result
from castbed_testbed.sweep_run import failures

CONFIDENCE = 0.95
DEGREES_MAX = 1000  # from here on the quantile differs from its limit by less than two in a thousand
HALVINGS = 60  # of an interval of length 16: down to what a float tells apart
QUANTILE_MAX = 16.0  # more than the quantile of one degree of freedom, 12.7


class Estimate(msgspec.Struct, frozen=True):
    """A mean over `runs`; it is within `ci95` of the true one, which takes two runs to say."""

    mean: float
    ci95: float | None
    runs: int


class PointFigures(msgspec.Struct, frozen=True):
    """One row of the table. Of violations the runs are counted and the violations; latency is of what was delivered."""

    number: int
    point: dict[str, Any]
    runs: int
    failed: int
    errors: int
    violated: dict[str, int]
    violations: dict[str, int]
    vacuous: dict[str, int]
    delivered: int
    expected: int
    latency_ms: dict[str, Estimate | None]
    control_bytes: Estimate | None


def figures_of(points: Sequence[Point], results: Iterable[Result]) -> list[PointFigures]:
    """The figures of each point, in order; a point without results has a row without figures."""
    by_point: dict[int, list[Result]] = {point.number: [] for point in points}
    for result in results:
        by_point[result["number"]].append(result)
    return [_figures(point, by_point[point.number]) for point in points]


def _figures(point: Point, results: list[Result]) -> PointFigures:
    ended = sorted((result for result in results if "error" not in result), key=lambda result: result["seed"])
    latencies = [result["latency_ms"] for result in ended if result["delivered"]]
    return PointFigures(
        point.number,
        point.values,
        len(results),
        sum(bool(failures(result)) for result in results),
        len(results) - len(ended),
        _total(dict.fromkeys(_violations(result), 1) for result in ended),
        _total(_violations(result) for result in ended),
        _total(dict.fromkeys(result["vacuous"], 1) for result in ended),
        sum(result["delivered"] for result in ended),
        sum(result["expected"] for result in ended),
        {name: estimate([latency[name] for latency in latencies]) for name in ("p50", "p99")},
        estimate([result["control_bytes"]["mean"] for result in ended if result["frames"]]),
    )


def _violations(result: Result) -> dict[str, int]:
    verdicts = result["properties"].items()
    return {name: verdict["violations"] for name, verdict in verdicts if not verdict["holds"]}


def _total(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def estimate(samples: Sequence[float]) -> Estimate | None:
    """The mean of the samples with its interval; None where there are no samples."""
    if not samples:
        return None
    count, mean = len(samples), fmean(samples)
    if count == 1:
        return Estimate(mean, None, 1)
    return Estimate(mean, student_quantile(count - 1) * stdev(samples) / sqrt(count), count)


@cache
def student_quantile(degrees: int) -> float:
    """The t for which a Student variable is within -t and t with the probability CONFIDENCE."""
    low, high = 0.0, QUANTILE_MAX
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        inside = _within(middle, min(degrees, DEGREES_MAX))
        low, high = (middle, high) if inside < CONFIDENCE else (low, middle)
    return high


def _within(t: float, degrees: int) -> float:
    """The probability that a Student variable is within -t and t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = atan(t / sqrt(degrees))
    odd = degrees % 2
    term = cos(angle) if odd else 1.0
    total = 0.0 if degrees == 1 else term
    for power in range(2 + odd, degrees - 1, 2):
        term *= cos(angle) ** 2 * (power - 1) / power
        total += term
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
