"""Thousands of seeds for every repaired variant, and the published M2MC on some of them (`tox run -e sim`).

Repeat one that fails with `castbed run examples/m2mc-churn.toml --seed N`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from castbed.registry import Registry, load_registry
from castbed_testbed.conformance import Trial, conform, run_trial
from castbed_testbed.experiment import load_file

CHURN = Path(__file__).parents[2] / "examples" / "m2mc-churn.toml"
BLOCK = 100
SAME_SEEDS = range(1, 21)
MORE = (
    [],
    ["faults.loss=0.1", "faults.duplication=0.05"],
    ["faults.random_crashes={count = 2, down = '500ms'}"],
    ["faults.loss=0.1", "faults.random_crashes={count = 2, down = '500ms', storage = false}"],
)
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def trial(registry: Registry, seed: int, variant: str, more: list[str] = []) -> Trial:  # noqa: B006 (never changed)
    return run_trial(registry, load_file(CHURN, [f"protocol.variant={variant}", *more], seed))


@pytest.mark.parametrize("seed", SAME_SEEDS)
def test_the_published_m2mc_breaks_its_promises_and_the_repaired_one_keeps_them(registry: Registry, seed: int) -> None:
    broken = trial(registry, seed, "published").failed
    assert {"no_duplication", "integrity", "convergent_views"} & set(broken)
    assert trial(registry, seed, "repaired").failed == []


@pytest.mark.parametrize("first", range(1000, 3000, BLOCK))
def test_the_repaired_m2mc_holds_on_two_thousand_more_seeds(registry: Registry, first: int) -> None:
    for seed in range(first, first + BLOCK):
        assert trial(registry, seed, "repaired", MORE[seed % len(MORE)]).failed == [], f"seed {seed}"


@pytest.mark.parametrize(("name", "variant"), [("sb", "published"), ("sb", "repaired"), ("m2mc", "repaired")])
@pytest.mark.parametrize("first", range(10_000, 11_000, 250))
def test_it_conforms_on_a_thousand_random_experiments(registry: Registry, name: str, variant: str, first: int) -> None:
    report = conform(registry, name, variant, runs=250, seed=first)
    assert report.failures == []
