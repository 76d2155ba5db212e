"""`evaluate`: the tables and figures of a paper again, beside what it prints, with a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.markup import escape
from rich.table import Table

from castbed.errors import ConfigurationError
from castbed_testbed.cli import console
from castbed_testbed.cli.sweeping import carry_out
from castbed_testbed.evaluation.accepting import Verdict, verdicts
from castbed_testbed.evaluation.files import Evaluation, load_evaluation
from castbed_testbed.evaluation.outcomes import Outcomes
from castbed_testbed.evaluation.plotting import plot_svg
from castbed_testbed.evaluation.writing import CSV, HEADS, MARKDOWN, PARQUET, cells, markdown, put_into, write_figures
from castbed_testbed.runner import RUNS
from castbed_testbed.sweep import check_points
from castbed_testbed.sweep_pool import Task, cores
from castbed_testbed.sweep_results import SweepResults, opened
from castbed_testbed.sweep_run import failures, installed

EVALUATIONS = "evaluations"
ERRORS_SHOWN = 3


class Wanted(msgspec.Struct, frozen=True):
    """How to evaluate: everything that the command line says."""

    seeds: int | None = None
    quick: bool = False
    jobs: int | None = None
    out: Path | None = None
    figures: Path | None = None
    page: Path | None = None
    fresh: bool = False


def evaluate_command(paths: Sequence[Path], wanted: Wanted, as_json: bool) -> int:
    """All evaluations are read and planned before the first run, so that every mistake shows at once."""
    evaluations = [_load(path, wanted) for path in _files(paths)]
    for evaluation in evaluations:
        check_points(evaluation.sweep, installed())
    documents, failed = [], False
    for evaluation in evaluations:
        outcomes, judged, document = _evaluate(evaluation, wanted)
        documents.append(document)
        failed = failed or bool(outcomes.errors) or not all(verdict.holds for verdict in judged)
        if not as_json:
            _tell(outcomes, judged, document)
    if as_json:
        console.print_json(documents)
    return 1 if failed else 0


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """Files as they are given, and of folders all TOML files in order."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(path.glob("*.toml"))
        if not found:
            raise ConfigurationError(str(path), "holds no evaluation")
        yield from found


def _load(path: Path, wanted: Wanted) -> Evaluation:
    try:
        return load_evaluation(path, wanted.seeds, wanted.quick)
    except ConfigurationError as error:
        if error.path == str(path):  # of the file itself, not of a key in it
            raise
        raise ConfigurationError(f"{path}: {error.path}", error.problem) from None


def _evaluate(evaluation: Evaluation, wanted: Wanted) -> tuple[Outcomes, list[Verdict], dict[str, Any]]:
    base = wanted.out or Path(RUNS) / EVALUATIONS
    with opened(base / evaluation.runs, evaluation.sweep, wanted.fresh) as results:
        missing = list(_missing(evaluation, results))
        carry_out(evaluation.written.name, results, missing, wanted.jobs or cores())
        results.write_table()
        outcomes = Outcomes(evaluation, results.finished)
    judged = verdicts(outcomes)
    if wanted.page is not None:
        put_into(wanted.page, evaluation.written.name, markdown(outcomes, judged))
    return outcomes, judged, _written(outcomes, judged, _folder(base, evaluation), wanted.figures)


def _folder(base: Path, evaluation: Evaluation) -> Path:
    """Where the figures go: beside the runs, under the name of the evaluation, for several may share them."""
    folder = base / evaluation.runs / "figures" / evaluation.written.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _missing(evaluation: Evaluation, results: SweepResults) -> Iterator[Task]:
    """What is left to do: all places with the first seed, then with the second, and so on."""
    done = {(result["number"], result["seed"]) for result in results.finished}
    points = {point.number: point for point in evaluation.sweep.points}
    for seed in evaluation.sweep.seeds:
        for place in evaluation.places:
            if seed in place.seeds and (place.number, seed) not in done:
                point = points[place.number]
                yield Task(point.number, point.values, point.data, seed, measuring=place.measuring)


def _written(outcomes: Outcomes, judged: list[Verdict], folder: Path, figures: Path | None) -> dict[str, Any]:
    """Write everything that is left, and say it as plain data."""
    written, shown = outcomes.evaluation.written, outcomes.all_figures()
    lacking = write_figures(folder, shown)
    (folder / MARKDOWN).write_text(markdown(outcomes, judged), encoding="utf-8")
    files = [folder / CSV, folder / MARKDOWN] + ([] if lacking else [folder / PARQUET])
    for plot in written.plots:
        svg = plot_svg(outcomes, plot)
        for place in filter(None, (folder, figures)):
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{plot.file}.svg").write_text(svg, encoding="utf-8")
            files.append(place / f"{plot.file}.svg")
    return {
        "evaluation": written.name,
        "figures": [msgspec.to_builtins(figure) | {"note": figure.note} for figure in shown],
        "accept": msgspec.to_builtins(judged),
        "errors": [f"point {r['number']}, seed {r['seed']}: {failures(r)[0]}" for r in outcomes.errors],
        "lacking": lacking,
        "files": [str(path) for path in files],
    }


# --- words -----------------------------------------------------------------------------------------------------------


def _tell(outcomes: Outcomes, judged: list[Verdict], document: dict[str, Any]) -> None:
    screen, written = console.out(), outcomes.evaluation.written
    screen.print(f"\n[bold]{escape(written.title)}[/bold]")
    if written.about:
        screen.print(escape(written.about))
    for shown in written.tables:
        screen.print(f"\n{escape(shown.title)}: means over the seeds, ± 95 % confidence")
        screen.print(_table(outcomes, shown.measure, outcomes.evaluation.names(shown.series)))
    for error in document["errors"][:ERRORS_SHOWN]:
        screen.print(error, markup=False, soft_wrap=True)
    for verdict in judged:
        mark = "[green]holds[/green]" if verdict.holds else "[red]fails[/red]"
        screen.print(f"{mark}  {escape(verdict.name)}: {escape(verdict.said)}", soft_wrap=True)
    if document["lacking"]:
        screen.print(document["lacking"], markup=False, soft_wrap=True)
    screen.print(f"Left: {', '.join(document['files'])}", soft_wrap=True)


def _table(outcomes: Outcomes, measure: str, names: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in (outcomes.evaluation.written.x.label, *HEADS):
        table.add_column(escape(title), overflow="fold")
    for name in names:
        for figure in outcomes.figures(measure, name):
            table.add_row(*map(escape, cells(figure)))
    return table
