"""`explore`: searches for schedules that break what a protocol claims; scripts played again by `run`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from castbed.assembly import variant_name
from castbed.errors import ConfigurationError
from castbed.registry import Registry, load_registry
from castbed_testbed.cli import console
from castbed_testbed.explore.campaign import Report, explore, parse_budget
from castbed_testbed.explore.configurations import parse_model
from castbed_testbed.explore.engine import Finding, Request
from castbed_testbed.explore.explored import code_of, extended, nothing_yet, record
from castbed_testbed.explore.freedoms import check_freedom
from castbed_testbed.explore.menu import check_strategy
from castbed_testbed.explore.script import SUFFIX, write
from castbed_testbed.explore.steps import SETTLED, words
from castbed_testbed.sweep_pool import cores

LINE_EVERY_S = 5.0


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
    request = _request(registry, name, variant, properties, model, seed, strategy, without, allow)
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


def _request(
    registry: Registry,
    name: str,
    variant: str | None,
    properties: list[str],
    model: str | None,
    seed: int,
    strategy: str,
    without: list[str],
    allow: list[str],
) -> Request:
    protocol = registry.protocols.get(name, "PROTOCOL")
    chosen = variant_name(protocol, variant, "--variant")
    for wanted in properties:
        registry.checks.get(wanted, "--property")
    sizes = parse_model(model, protocol, chosen)
    avoided = tuple(check_freedom(freedom, "--without") for freedom in without)
    allowed = tuple(check_freedom(freedom, "--allow") for freedom in allow)
    return Request(name, chosen, tuple(properties), sizes, check_strategy(strategy), seed, avoided, allowed)


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
    """One script per finding; scripts of an earlier exploration in the same place are replaced."""
    if not report.findings:
        return []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.glob(f"*{SUFFIX}"):
            old.unlink()
        paths = []
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
        "violations": [_violation(finding, path) for finding, path in zip(report.findings, scripts, strict=True)],
    }


def _violation(finding: Finding, path: Path) -> dict[str, Any]:
    return {
        "property": finding.property,
        "kind": finding.kind,
        "steps": len(finding.script.steps),
        "needs": list(finding.needs),
        "script": str(path),
        "witness": finding.witness,
    }


def _tell(report: Report, scripts: list[Path]) -> None:
    screen = console.out()
    title = f"[bold]{report.request.protocol}[/bold] ({report.request.variant})"
    screen.print(f"{title}: {report.schedules} schedules in {report.wall_s:.1f} s")
    if not report.findings:
        screen.print("[green]✓[/green] nothing that it guarantees was violated")
    for finding, path in zip(report.findings, scripts, strict=True):
        screen.print(f"[red]✗[/red] [bold]{finding.property}[/bold]: {finding.kind}")
        screen.print(f"    {finding.witness} {'; '.join(finding.needs)}", markup=False)
        lines = [words(step) for step in finding.script.steps] + [SETTLED] * finding.script.settles
        for line in lines:
            screen.print(f"      {line}", markup=False)
        screen.print(f"    castbed run {path}", markup=False)
