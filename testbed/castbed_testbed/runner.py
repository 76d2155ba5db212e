"""Runs experiments: makes the run directory, has the transport do the work, judges the captures, keeps the summary."""

from __future__ import annotations

import importlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from castbed.capture import Capture, frame_statistics, merged, read_captures
from castbed.errors import ConfigurationError
from castbed.history import History, Kind
from castbed.properties import Violation
from castbed.registry import Registry
from castbed_testbed.experiment import Loaded
from castbed_testbed.plan import Plan, make_plan
from castbed_testbed.report import HostReport
from castbed_testbed.summary import history_figures, property_figures, report_figures

RUNS = "castbed-runs"
MANIFEST = "manifest.json"
SUMMARY = "summary.json"
EXPERIMENT = "experiment.toml"
CAPTURES = "captures"
LATEST = "latest"

Progress = Callable[[int], None]


class Outcome(msgspec.Struct, frozen=True):
    """A finished run: its directory (None: nothing was written), its figures, and what was violated."""

    directory: Path | None
    summary: dict[str, Any]
    violations: dict[str, list[Violation]]
    history: History | None = None

    @property
    def failures(self) -> list[str]:
        """Why the run failed, in words; empty when all is well."""
        broken = [f"{name} is violated" for name, found in self.violations.items() if found]
        vacuous = [f"the fault {name!r} was asked for and never took effect" for name in self.summary["vacuous"]]
        return broken + vacuous


def run_experiment(
    loaded: Loaded, registry: Registry, out: Path | None = None, captures: bool = True, progress: Progress | None = None
) -> Outcome:
    """Carry the experiment out and judge it. Without captures there are counters only, and no verdicts."""
    plan = make_plan(loaded.experiment, registry)
    if not captures:
        report, wall_s = _timed(plan, None, progress)
        return Outcome(None, _bare_summary(plan, report, wall_s), {})
    directory = prepare(out or Path(RUNS) / f"{plan.experiment.name}-{plan.experiment.seed}")
    (directory / EXPERIMENT).write_text(loaded.toml(), encoding="utf-8")
    write_json(directory / MANIFEST, manifest_of(plan))
    report, wall_s = _timed(plan, directory / CAPTURES, progress)
    outcome = judged(plan, directory, registry, report, wall_s)
    write_json(directory / SUMMARY, outcome.summary)
    if out is None:
        point_latest(directory)
    return outcome


def judge(directory: Path, registry: Registry, properties: list[str] | None = None) -> tuple[Outcome, list[str]]:
    """Judge captures that exist; returns the outcome and what was wrong with the files."""
    captures = read_captures(directory)
    history = merged(captures)
    names = list(history.identity.guarantees) if properties is None else properties
    violations = registry.violations(history, names, "--property")
    summary = history.summary_fields() | history_figures(history, frame_statistics(captures))
    summary |= {"properties": property_figures(violations), "vacuous": []}
    return Outcome(directory, summary, violations, history), _problems(captures, history)


def _problems(captures: list[Capture], history: History) -> list[str]:
    """What is missing or damaged, so that nobody takes a violation for the protocol's that is the files'."""
    there = {capture.node for capture in captures}
    problems = [f"{name}: no capture" for at, name in enumerate(history.identity.names, 1) if at not in there]
    for capture in captures:
        name, lane = history.name(capture.node), history.by_node.get(capture.node, [])
        problems += [f"{name}: {problem}" for problem in capture.problems]
        lived = [event.kind for event in lane if event.kind in (Kind.START, Kind.RESTART, Kind.CRASH, Kind.STOP)]
        if not lived or lived[-1] not in (Kind.CRASH, Kind.STOP):
            problems.append(f"{name}: the capture ends before the run did")
    return problems


def _timed(plan: Plan, captures: Path | None, progress: Progress | None) -> tuple[HostReport, float]:
    module, _, name = plan.transport.runner.partition(":")
    run = getattr(importlib.import_module(module), name)
    start = time.perf_counter()
    report: HostReport = run(plan, captures, progress)
    return report, time.perf_counter() - start


def judged(
    plan: Plan,
    directory: Path,
    registry: Registry,
    report: HostReport,
    wall_s: float,
    properties: list[str] | None = None,
) -> Outcome:
    """The outcome of a run whose captures are in the directory."""
    outcome, _ = judge(directory / CAPTURES, registry, properties)
    figures = outcome.summary | report_figures(report, plan.experiment, wall_s)
    return Outcome(directory, figures, outcome.violations, outcome.history)


def _bare_summary(plan: Plan, report: HostReport, wall_s: float) -> dict[str, Any]:
    named = History(plan.identity(), ()).summary_fields()
    counted = {"submitted": report.submitted, "delivered": report.delivered, "frames": report.frames}
    return named | counted | {"properties": {}} | report_figures(report, plan.experiment, wall_s)


def manifest_of(plan: Plan) -> dict[str, Any]:
    """What says where a run comes from."""
    return {
        "castbed": version("castbed"),
        "python": platform.python_version(),
        "msgspec": version("msgspec"),
        "platform": platform.platform(),
        "host": platform.node(),
        "argv": sys.argv[1:],
        "seed": plan.experiment.seed,
        "protocol": plan.chosen.protocol.name,
        "variant": plan.chosen.variant_name,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def prepare(directory: Path) -> Path:
    """An empty run directory with a place for captures; an earlier run of the same name is replaced."""
    directory = directory.resolve() if directory.is_symlink() else directory
    try:
        if directory.exists() and any(directory.iterdir()):
            if not is_run(directory):
                raise ConfigurationError(str(directory), "exists and is not a run; choose another directory with --out")
            shutil.rmtree(directory)
        (directory / CAPTURES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(str(directory), f"cannot be written ({error.strerror})") from None
    return directory


def is_run(directory: Path) -> bool:
    """Whether it holds what we wrote: other programs have files called manifest.json, too."""
    try:
        return "castbed" in json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def point_latest(directory: Path) -> None:
    """Have `latest` beside the directory point at it."""
    link = directory.parent / LATEST
    fresh = directory.parent / f".{LATEST}-{os.getpid()}"
    fresh.symlink_to(directory.name)
    fresh.replace(link)


def write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
