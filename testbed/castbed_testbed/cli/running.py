"""`run`, `rerun` and `check`: an experiment carried out, repeated, judged; told in words or as JSON."""

from __future__ import annotations

import filecmp
import json
from pathlib import Path
from typing import Any

from castbed.diagram import explain, space_time_svg
from castbed.errors import ConfigurationError
from castbed.properties import Violation
from castbed.registry import load_registry
from castbed_testbed.cli import console
from castbed_testbed.experiment import Loaded, load_file
from castbed_testbed.explore.playback import SCRIPT, judged_again, play
from castbed_testbed.explore.script import SUFFIX, read
from castbed_testbed.runner import CAPTURES, EXPERIMENT, MANIFEST, SUMMARY, Outcome, is_run, judge, run_experiment
from castbed_testbed.summary import lost_on_links

SHOWN_PER_PROPERTY = 1  # witnesses told in words; the run directory keeps more
SAVED_PER_PROPERTY = 3
WITNESSES = "witnesses"


def run_command(
    path: Path, seed: int | None, out: Path | None, settings: list[str], as_json: bool, captures: bool
) -> int:
    if path.suffix == SUFFIX:
        return run_script_command(path, seed, out, settings, as_json, captures)
    outcome = _carry_out(load_file(path, settings, seed), out, captures)
    _tell_all(outcome, as_json)
    return 1 if outcome.failures else 0


def _tell_all(outcome: Outcome, as_json: bool) -> None:
    _save_witnesses(outcome)
    _tell(outcome, as_json)
    if not as_json:
        _tell_what_is_left(outcome)


def run_script_command(
    path: Path, seed: int | None, out: Path | None, settings: list[str], as_json: bool, captures: bool
) -> int:
    """Play a script; one that expects a violation has to show it, and exits with 1 like any run that violates."""
    if seed is not None or settings or not captures:
        raise ConfigurationError(str(path), "is a script and says everything itself: no --seed, --set, --no-captures")
    played = play(read(path), load_registry(), path.stem, out)
    _tell_all(played.outcome, as_json)
    if not as_json:
        as_expected = "as the script expects" if played.as_expected else "not what the script expects"
        console.out().print(f"Violated: {', '.join(played.violated) or 'nothing'}; {as_expected}")
    return 1 if played.violated or not played.as_expected else 0


def rerun_command(directory: Path, out: Path | None, as_json: bool) -> int:
    source = next((path for path in (directory / EXPERIMENT, directory / SCRIPT) if path.exists()), None)
    if source is None or not is_run(directory):
        raise ConfigurationError(str(directory), f"is not a run directory, with {EXPERIMENT} and {MANIFEST}")
    there = directory.resolve()
    out = out or (directory if directory.name else there).with_name(there.name + "-rerun")
    if out.resolve() == there:
        raise ConfigurationError("--out", "is the run itself, which has to stay for the comparison")
    if source.name == SCRIPT:
        name = json.loads((directory / SUMMARY).read_text(encoding="utf-8"))["run"]
        outcome = play(read(source), load_registry(), name, out).outcome
    else:
        outcome = _carry_out(load_file(source), out, True)
    assert outcome.directory is not None
    if _is_in_real_time(outcome):
        different = _verdicts_that_differ(directory, outcome)
        alike = "every verdict is the same (in real time, the bytes differ)"
    else:
        different = _different(directory / CAPTURES, outcome.directory / CAPTURES)
        alike = "every capture is the same, byte for byte"
    outcome.summary["identical"] = not different
    _tell(outcome, as_json)
    if not as_json:
        _tell_what_is_left(outcome)
        same = alike if not different else f"different: {', '.join(different)}"
        console.out().print(f"Compared with {directory}: {same}")
    return 1 if outcome.failures or different or not outcome.summary.get("as_expected", True) else 0


def check_command(directory: Path, properties: list[str] | None, as_json: bool) -> int:
    outcome, problems = judge(directory, load_registry(), properties)
    outcome = judged_again(outcome, directory)
    outcome.summary["problems"] = problems
    _tell(outcome, as_json)
    if not as_json:
        for problem in problems:
            console.out().print(f"note: {problem}")
    return 1 if outcome.failures else 0


def _carry_out(loaded: Loaded, out: Path | None, captures: bool) -> Outcome:
    experiment = loaded.experiment
    with console.progress_bar(experiment.name, experiment.duration + experiment.drain) as progress:
        return run_experiment(loaded, load_registry(), out, captures, progress)


def _is_in_real_time(outcome: Outcome) -> bool:
    transport = load_registry().transports.get(outcome.summary["transport"], "transport.name")
    return bool(transport.network)


def _verdicts_that_differ(directory: Path, outcome: Outcome) -> list[str]:
    before, now = judge(directory, load_registry())[0].violations, outcome.violations
    return sorted(name for name in before.keys() | now.keys() if bool(before.get(name)) != bool(now.get(name)))


def _different(one: Path, other: Path) -> list[str]:
    names = sorted({path.name for side in (one, other) for path in side.glob("*.pcapng")})
    _, mismatch, missing = filecmp.cmpfiles(one, other, names, shallow=False)
    return sorted(mismatch + missing)


def _save_witnesses(outcome: Outcome) -> None:
    if outcome.directory is None or outcome.history is None:
        return
    folder = outcome.directory / WITNESSES
    for name, found in outcome.violations.items():
        for number, violation in enumerate(found[:SAVED_PER_PROPERTY], start=1):
            folder.mkdir(exist_ok=True)
            picture = space_time_svg(outcome.history, violation.events, f"{name} ({violation.kind})", violation.words)
            (folder / f"{name}-{number}.svg").write_text(picture, encoding="utf-8")


# --- words -----------------------------------------------------------------------------------------------------------


def _tell(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        console.print_json(outcome.summary | ({"directory": str(outcome.directory)} if outcome.directory else {}))
        return
    screen = console.out()
    for line in _headline(outcome.summary):
        screen.print(line)
    for name, found in outcome.violations.items():
        screen.print(_verdict(name, found))
        for violation in found[:SHOWN_PER_PROPERTY]:
            assert outcome.history is not None
            screen.print(_indented(explain(outcome.history, violation)), markup=False)
    for name in outcome.summary["vacuous"]:
        screen.print(f"[red]✗[/red] the fault [bold]{name}[/bold] was asked for and never took effect")


def _tell_what_is_left(outcome: Outcome) -> None:
    if outcome.directory is not None:
        witnesses = ", witnesses (SVG)" if any(outcome.violations.values()) else ""
        left = f"captures (pcapng, one per node), summary.json{witnesses}"
        console.out().print(f"Left in [bold]{outcome.directory}[/bold]: {left}", soft_wrap=True)


def _headline(summary: dict[str, Any]) -> list[str]:
    title = f"[bold]{summary['run']}[/bold]: {summary['protocol']} ({summary['variant']})"
    lines = [f"{title} on {summary['transport']}, seed {summary['seed']}"]
    lines.append(f"  {_count(summary['submitted'], 'message')} submitted, {_deliveries(summary)}")
    if "latency_ms" in summary:
        latency, control = summary["latency_ms"], summary["control_bytes"]
        spread = f"{latency['p50']:.4g} ms median, {latency['p99']:.4g} ms p99"
        lines.append(f"  latency {latency['mean']:.4g} ms on average, {spread}")
        lines.append(f"  control information {control['mean']:.3g} bytes per message, {control['max']} at most")
    if "virtual_s" in summary:
        lines.append(
            f"  {_count(summary['frames'], 'frame')} sent, {summary['virtual_s']:g} s of virtual time in "
            f"{summary['wall_s']:.2g} s"
        )
    if summary.get("faults"):
        lines.append("  faults that took effect: " + ", ".join(f"{k} {v}" for k, v in summary["faults"].items()))
    if lost := lost_on_links(summary.get("links", {})):
        listed = ", ".join(f"{reason} {count}" for reason, count in lost.items())
        lines.append(f"  [yellow]dropped on the links: {listed}[/yellow]")
    if summary.get("oversize"):
        lines.append(f"  [yellow]{_count(summary['oversize'], 'packet')} too large for a frame, dropped[/yellow]")
    return lines


def _deliveries(summary: dict[str, Any]) -> str:
    if "expected" not in summary:
        return f"{_count(summary['delivered'], 'delivery', 'deliveries')} (not checked: no captures)"
    duplicates = _count(summary["duplicates"], "duplicate") if summary["duplicates"] else "no duplicates"
    held = f"{summary['held_at_end']} held at the end" if summary["held_at_end"] else "nothing held at the end"
    owed = _count(summary["expected"], "delivery", "deliveries")
    return f"{summary['delivered']} delivered ({owed} owed), {duplicates}, {held}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _verdict(name: str, found: list[Violation]) -> str:
    if not found:
        return f"[green]✓[/green] {name}"
    return f"[red]✗[/red] [bold]{name}[/bold]: {_count(len(found), 'violation')}, for example"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
