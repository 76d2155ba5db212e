"""`explore`: searches for schedules that break what a protocol claims; scripts played again by `run`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from castbed.errors import ConfigurationError
from castbed.registry import load_registry
from castbed_testbed.cli import console
from castbed_testbed.explore.asking import make_request
from castbed_testbed.explore.campaign import Report, explore, parse_budget
from castbed_testbed.explore.engine import Finding
from castbed_testbed.explore.explored import code_of, extended, nothing_yet, record
from castbed_testbed.explore.menu import EXHAUSTIVE
from castbed_testbed.explore.script import SUFFIX, write
from castbed_testbed.explore.steps import SETTLED, words
from castbed_testbed.sweep_pool import cores

LINE_EVERY_S = 5.0
_OURS = re.compile(rf"\d\d+-\w+{re.escape(SUFFIX)}")  # the names of the scripts that we write


def explore_command(
    name: str,
    variant: str | None,
    properties: list[str],
    model: str | None,
    budget: str,
    jobs: int | None,
    seed: int,
    strategy: str,
    without: list[str],
    allow: list[str],
    out: Path | None,
    entry_in: Path | None,
    as_json: bool,
) -> int:
    registry = load_registry()
    request = make_request(registry, name, variant, properties, model, strategy, seed, without, allow)
    how_much = parse_budget(budget)
    if entry_in is not None and (properties or model or allow or not how_much.schedules):
        raise ConfigurationError("--record", "is for budgets in schedules, without --property, --model and --allow")
    report = explore(request, how_much, jobs=jobs or cores(), progress=_progress(name))
    if entry_in is not None:
        record(entry_in, extended(nothing_yet(request, code_of(registry, name, request.variant)), report))
    if not report.schedules:
        raise ConfigurationError("--budget", f"{budget} ended before a single schedule was explored")
    scripts = _written(report, out or Path("castbed-runs") / f"explore-{name}-{request.variant}")
    if as_json:
        console.print_json(_document(report, scripts))
    else:
        _tell(report, scripts)
    return 1 if report.findings else 0


def _progress(name: str) -> Callable[[int, int], None]:
    """A line on stderr now and then."""
    told = time.monotonic()

    def progress(schedules: int, kinds: int) -> None:
        nonlocal told
        if time.monotonic() - told >= LINE_EVERY_S:
            told = time.monotonic()
            print(f"{name}: {schedules} schedules, {kinds} kinds of violation", file=sys.stderr, flush=True)

    return progress


def _written(report: Report, directory: Path) -> list[Path]:
    """One script per finding; those that an earlier exploration left in the same place are gone."""
    paths: list[Path] = []
    try:
        for old in directory.glob(f"*{SUFFIX}"):
            if _OURS.fullmatch(old.name):
                old.unlink()
        if report.findings:
            directory.mkdir(parents=True, exist_ok=True)
        for number, finding in enumerate(report.findings, start=1):
            path = directory / f"{number:02}-{finding.property}{SUFFIX}"
            path.write_text(f"# {finding.kind}\n# {finding.witness}\n{write(finding.script)}", encoding="utf-8")
            paths.append(path)
    except OSError as error:
        raise ConfigurationError(str(directory), f"cannot be written ({error.strerror})") from None
    return paths


def _document(report: Report, scripts: list[Path]) -> dict[str, Any]:
    return {
        "protocol": report.request.protocol,
        "variant": report.request.variant,
        "schedules": report.schedules,
        "wall_s": round(report.wall_s, 3),
        "networks": report.networks,
        "exhausted": report.exhausted,
        "violations": [_violation(finding, path) for finding, path in zip(report.findings, scripts, strict=True)],
    }


def _violation(finding: Finding, path: Path) -> dict[str, Any]:
    return {
        "property": finding.property,
        "kind": finding.kind,
        "steps": len(finding.script.steps),
        "needs": list(finding.needs),
        "after": finding.after,
        "finished": finding.finished,
        "script": str(path),
        "witness": finding.witness,
    }


def _tell(report: Report, scripts: list[Path]) -> None:
    screen = console.out()
    title = f"[bold]{report.request.protocol}[/bold] ({report.request.variant})"
    screen.print(f"{title}: {report.schedules} schedules in {report.wall_s:.1f} s")
    if report.request.strategy == EXHAUSTIVE:
        screen.print(f"{report.exhausted} of {report.networks} networks exhausted: they have no other schedules")
    if not report.findings:
        screen.print("[green]✓[/green] nothing that it guarantees was violated")
    for finding, path in zip(report.findings, scripts, strict=True):
        screen.print(f"[red]✗[/red] [bold]{finding.property}[/bold]: {finding.kind}")
        screen.print(f"    {finding.witness} {'; '.join(finding.needs)}", markup=False)
        lines = [words(step) for step in finding.script.steps] + [SETTLED] * finding.script.settles
        for line in lines:
            screen.print(f"      {line}", markup=False)
        if not finding.finished:
            screen.print("    perhaps not the smallest: the time for shrinking was up", markup=False)
        screen.print(f"    castbed run {path}", markup=False)
