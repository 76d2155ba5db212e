"""`conform`: the conformance kit on the command line."""

from __future__ import annotations

from pathlib import Path

from castbed.diagram import explain
from castbed.registry import load_registry
from castbed_testbed.attack import script_text
from castbed_testbed.cli import console
from castbed_testbed.conformance import ConformanceReport, Trial, conform
from castbed_testbed.explore.engine import Finding
from castbed_testbed.explore.script import SUFFIX


def conform_command(name: str, variant: str | None, runs: int, schedules: int, seed: int, as_json: bool) -> int:
    with console.progress_bar(f"conform {name}", runs) as progress:
        report = conform(load_registry(), name, variant, runs, seed, progress, schedules)
    if as_json:
        console.print_json(_document(report))
    else:
        _tell(report)
    return 1 if report.failures else 0


def _document(report: ConformanceReport) -> dict[str, object]:
    document: dict[str, object] = {
        "conforms": not report.failures,
        "protocol": report.protocol,
        "variant": report.variant,
        "trials": report.trials,
        "deliveries": report.deliveries,
        "schedules": report.schedules,
        "failures": report.failures,
    }
    if report.finding is not None:
        document["script"] = script_text(report.finding)
    if report.failed_trial is not None:
        document["experiment"] = report.failed_trial.loaded.data
        document["violations"] = {
            name: [violation.words for violation in found[:1]]
            for name, found in report.failed_trial.violations.items()
            if found
        }
    return document


def _tell(report: ConformanceReport) -> None:
    screen = console.out()
    what = f"{report.protocol} ({report.variant})"
    if not report.failures:
        done = f"{report.trials} runs, {report.deliveries} deliveries"
        done += f", {report.schedules} schedules explored" if report.schedules else ""
        screen.print(f"[green]✓[/green] {what} conforms: {done}")
        return
    screen.print(f"[red]✗[/red] {what} does not conform, found in {report.trials} runs:")
    for failure in report.failures:
        screen.print(f"  {failure}", markup=False, soft_wrap=True)
    if report.failed_trial is not None:
        _tell_trial(report.failed_trial)
    if report.finding is not None:
        _tell_finding(report.protocol, report.finding)


def _tell_trial(trial: Trial) -> None:
    screen = console.out()
    for found in trial.violations.values():
        for violation in found[:1]:
            screen.print(explain(trial.history, violation), markup=False)
    experiment = trial.loaded.experiment
    path = Path(f"{experiment.name}-{experiment.seed}.toml")
    path.write_text(trial.loaded.toml(), encoding="utf-8")
    screen.print(f"The experiment is in [bold]{path}[/bold]; repeat it with: castbed run {path}")


def _tell_finding(protocol: str, finding: Finding) -> None:
    screen = console.out()
    text = script_text(finding)
    screen.print(text, markup=False, soft_wrap=True)
    path = Path(f"conform-{protocol}-{finding.property}{SUFFIX}")
    path.write_text(text, encoding="utf-8")
    screen.print(f"The script is in [bold]{path}[/bold]; play it with: castbed run {path}")
