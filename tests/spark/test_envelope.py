"""How two clocks relate, from synthetic frames with known truth."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

pytest.importorskip("numpy", reason="pip install 'castbed[spark]'")

import numpy as np

from castbed_spark.envelope import relation

SECOND = 10**9


def exchanged(seed: int, offset: float, drift: float, quickest: int, frames: int = 400) -> tuple[object, object]:
    """Points above and below theta(t) = offset + drift * t; delays are `quickest` and more, up to ten times that."""
    rng = random.Random(seed)
    above, below = [], []
    for _ in range(frames):
        t = rng.uniform(0, 60 * SECOND)
        theta = offset + drift * t
        above.append((t, theta + quickest * rng.uniform(1, 10)))
        below.append((t, theta - quickest * rng.uniform(1, 10)))
    return np.array(above), np.array(below)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("offset", "drift"), [(3.5e9, 2e-5), (-7e6, -8e-5), (1e12, 0.0)])
def test_the_truth_is_within_the_stated_error(seed: int, offset: float, drift: float) -> None:
    found = relation(*exchanged(seed, offset, drift, quickest=100_000))
    for t in (0, 30 * SECOND, 60 * SECOND):
        wrong = abs(found.offset_ns + found.drift * t - (offset + drift * t))
        assert wrong <= found.error_ns + 1
    assert found.error_ns < 1_000_000


def test_the_error_is_about_the_quickest_way() -> None:
    found = relation(*exchanged(1, 5e9, 1e-5, quickest=50_000, frames=5_000))
    assert 50_000 <= found.error_ns < 150_000
    assert abs(found.drift - 1e-5) < 1e-8


def test_one_clock_comes_out_as_exactly_one_clock() -> None:
    found = relation(*exchanged(1, 0.0, 0.0, quickest=1_000))
    assert (found.offset_ns, found.drift) == (0.0, 0.0)
    assert found.error_ns > 0


def bent(seed: int, theta: Callable[[float], float], quickest: int) -> tuple[object, object]:
    straight = exchanged(seed, 0.0, 0.0, quickest)
    return tuple(points + [[0.0, theta(t)] for t in points[:, 0]] for points in straight)  # type: ignore[index, return-value]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "theta",
    [
        lambda t: 5e9 if t > 25 * SECOND else 0.0,
        lambda t: -2e7 if t > 55 * SECOND else 3e6,
        lambda t: 1e6 + max(0.0, t - 20 * SECOND) * 5e-4,
        lambda t: 1e8 * np.sin(t / (5 * SECOND)),
    ],
)
def test_a_clock_that_was_set_is_within_an_error_that_says_so(seed: int, theta: Callable[[float], float]) -> None:
    """Set forwards, set back, slewed, and out of its mind."""
    found = relation(*bent(seed, theta, quickest=100_000))
    assert not found.straight
    times = np.linspace(1 * SECOND, 59 * SECOND, 500)
    wrong = max(abs(found.offset_ns + found.drift * t - theta(t)) for t in times)
    assert wrong <= found.error_ns
    assert found.error_ns < 5 * wrong


def test_a_straight_clock_is_known_to_be_one() -> None:
    assert relation(*exchanged(1, 5e9, 1e-5, quickest=50_000)).straight
