"""Two thousand storms for repaired EOMP: handoffs, losses, absences, and crashes of every role (`tox run -e sim`).

Repeat one that fails with `violations(load_registry(), random_run(SEED))` of `eomp_storms`.
"""

from __future__ import annotations

import pytest

from castbed.registry import Registry, load_registry
from castbed_testbed.conformance import conform
from eomp_storms import random_run, violations

BLOCK = 100
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


@pytest.mark.parametrize("first", range(10_000, 12_000, BLOCK))
def test_the_repaired_eomp_holds_on_two_thousand_storms(registry: Registry, first: int) -> None:
    for seed in range(first, first + BLOCK):
        assert violations(registry, random_run(seed)) == {}, f"seed {seed}"


@pytest.mark.parametrize("first", range(10_000, 10_500, 250))
def test_it_conforms_on_random_experiments(registry: Registry, first: int) -> None:
    report = conform(registry, "eomp", "repaired", runs=250, seed=first)
    assert report.failures == []
