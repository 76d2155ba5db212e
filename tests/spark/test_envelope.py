"""How two clocks relate, from synthetic frames with known truth."""

from __future__ import annotations

import random

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
    assert found is not None
    for t in (0, 30 * SECOND, 60 * SECOND):
        wrong = abs(found.offset_ns + found.drift * t - (offset + drift * t))
        assert wrong <= found.error_ns + 1
    assert found.error_ns < 1_000_000


def test_the_error_is_about_the_quickest_way() -> None:
    found = relation(*exchanged(1, 5e9, 1e-5, quickest=50_000, frames=5_000))
    assert found is not None
    assert 50_000 <= found.error_ns < 150_000
    assert abs(found.drift - 1e-5) < 1e-8


def test_one_clock_comes_out_as_exactly_one_clock() -> None:
    found = relation(*exchanged(1, 0.0, 0.0, quickest=1_000))
    assert found is not None
    assert (found.offset_ns, found.drift) == (0.0, 0.0)
    assert found.error_ns > 0


def test_a_clock_that_jumps_is_not_explained_by_a_line() -> None:
    early, late = exchanged(1, 0.0, 0.0, 1_000), exchanged(2, 5e9, 0.0, 1_000)
    later = [points + np.array([60 * SECOND, 0]) for points in late]  # type: ignore[operator]
    assert relation(np.vstack((early[0], later[0])), np.vstack((early[1], later[1]))) is None
