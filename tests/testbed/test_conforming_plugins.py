"""Every installed protocol goes through the conformance kit: ours and, in tox, that of a third party."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from castbed.registry import load_registry
from castbed_testbed.conformance import conform

REFUTED = {
    ("eomp", "published"): {"no_duplication", "exactly_once"},
    ("m2mc", "published"): {"no_duplication", "convergent_views"},
    ("relm", "published"): {"exactly_once", "agreement"},
}
INSTALLED = [(p.name, variant) for p in load_registry().protocols for variant in p.variants]


@pytest.mark.parametrize(("name", "variant"), [pair for pair in INSTALLED if pair not in REFUTED])
def test_every_installed_protocol_conforms(castbed_conform: Callable[..., None], name: str, variant: str) -> None:
    castbed_conform(name, variant)


@pytest.mark.parametrize(("name", "variant"), sorted(REFUTED))
def test_what_is_refuted_does_not_conform(name: str, variant: str) -> None:
    report = conform(load_registry(), name, variant, runs=5)
    assert report.failures
    assert report.failed_trial is not None
    assert set(report.failed_trial.failed) >= REFUTED[name, variant]
