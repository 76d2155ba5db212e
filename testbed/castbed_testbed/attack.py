"""A short exploration, for the conformance kit and for tests: it ends with the batch in which it finds something."""

from __future__ import annotations

from collections.abc import Iterable

from castbed.registry import Registry
from castbed_testbed.explore.asking import make_request
from castbed_testbed.explore.campaign import Budget, Report, explore
from castbed_testbed.explore.engine import Finding
from castbed_testbed.explore.menu import MIX
from castbed_testbed.explore.script import write


def attack(
    registry: Registry,
    name: str,
    variant: str | None,
    schedules: int,
    seed: int = 1,
    properties: Iterable[str] = (),
    model: str | None = None,
    strategy: str = MIX,
    allow: Iterable[str] = (),
) -> Report:
    """Search so many schedules for one that breaks what the protocol guarantees; the rest as in `castbed explore`."""
    request = make_request(registry, name, variant, properties, model, strategy, seed, (), allow)
    return explore(request, Budget(schedules=schedules), registry, stop_at_first=True)


def smallest(report: Report) -> Finding | None:
    """The finding with the shortest script, if there is one."""
    return min(report.findings, key=lambda finding: len(finding.script.steps), default=None)


def script_text(finding: Finding) -> str:
    """The script as a file that `castbed run` plays, with what it shows as comments."""
    return f"# {finding.property}: {finding.kind}\n# {finding.witness}\n{write(finding.script)}"
