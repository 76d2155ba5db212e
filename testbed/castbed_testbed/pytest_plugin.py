"""The pytest plugin that comes with Castbed: the conformance kit and exploration, for everybody's plugins.

def test_it_keeps_its_promises(castbed_conform):
    castbed_conform("my-protocol")

def test_no_schedule_breaks_its_promises(castbed_explore):
    castbed_explore("my-protocol")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

RUNS = 25
SCHEDULES = 1_000  # about a second for a protocol on one shared air
Conform = Callable[..., None]
Explore = Callable[..., None]


@pytest.fixture
def castbed_conform() -> Conform:
    """Fails the test unless the named protocol (and variant) conforms; `runs` and `seed` choose the trials."""
    from castbed.diagram import explain
    from castbed.registry import load_registry
    from castbed_testbed.conformance import conform

    def conforms(protocol: str, variant: str | None = None, runs: int = RUNS, seed: int = 1) -> None:
        report = conform(load_registry(), protocol, variant, runs, seed)
        if not report.failures:
            return
        words = list(report.failures)
        if report.failed_trial is not None:
            trial = report.failed_trial
            words += [explain(trial.history, found[0]) for found in trial.violations.values() if found]
            words += ["The experiment:", trial.loaded.toml()]
        pytest.fail("\n".join(words), pytrace=False)

    return conforms


@pytest.fixture
def castbed_explore() -> Explore:
    """Fails the test with a script when one of the explored `schedules` breaks a promise of the named protocol.

    `properties`, `model`, `strategy` and `allow` are the options of `castbed explore`: names of properties to look at
    instead of the promised ones, sizes or an experiment file, how to choose, and freedoms beyond the model.
    """
    from castbed.registry import load_registry
    from castbed_testbed.attack import attack, script_text, smallest

    def survives(
        protocol: str,
        variant: str | None = None,
        schedules: int = SCHEDULES,
        seed: int = 1,
        properties: Iterable[str] = (),
        model: str | None = None,
        strategy: str = "mix",
        allow: Iterable[str] = (),
    ) -> None:
        report = attack(load_registry(), protocol, variant, schedules, seed, properties, model, strategy, allow)
        found = smallest(report)
        if found is not None:
            pytest.fail(script_text(found), pytrace=False)

    return survives
