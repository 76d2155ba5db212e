"""`sweep`: many runs, with progress; a table of what they say together."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from rich.markup import escape
from rich.table import Table

from castbed_testbed.cli import console
from castbed_testbed.sweep import Sweep, check_points, load_sweep, shown
from castbed_testbed.sweep_figures import Estimate, PointFigures, figures_of
from castbed_testbed.sweep_pool import Result, Task, cores, results_of
from castbed_testbed.sweep_pool import carry_out as carry_out_task
from castbed_testbed.sweep_results import RESULTS, TABLE, SweepResults, default_directory, opened
from castbed_testbed.sweep_run import failures, installed

ON_SPARK = "castbed_spark.executing:results_on"  # loaded only when it is asked for
OnSpark = Callable[[str, Callable[[Task], Result], list[Task], int | None], Generator[Result, None, None]]
LINE_EVERY_S = 5.0
ERRORS_SHOWN = 3


def sweep_command(
    path: Path, out: Path | None, jobs: int | None, fresh: bool, as_json: bool, master: str | None = None
) -> int:
    sweep = load_sweep(path)
    check_points(sweep, installed())
    with opened(out or default_directory(sweep), sweep, fresh) as results:
        carry_out(sweep.name, results, list(results.missing(sweep)), jobs, master)
        results.write_table()
        rows = figures_of(sweep.points, results.finished)
        if as_json:
            console.print_json(_document(sweep, results, rows))
        else:
            _tell(sweep, results, rows)
    return 1 if any(row.failed for row in rows) else 0


def carry_out(
    name: str, results: SweepResults, missing: list[Task], jobs: int | None, master: str | None = None
) -> None:
    """Do the runs that are missing, here or on a Spark master, with progress; an interruption says how to go on."""
    if not missing:
        return
    total = len(results.finished) + len(missing)
    if results.finished:
        _say(f"{name}: {len(results.finished)} of {total} runs are there, {len(missing)} are left")
    try:
        _run(name, total, results, _arriving(missing, jobs, master))
    except KeyboardInterrupt:
        _say(f"{name}: {len(results.finished)} of {total} runs are done; the same command continues")
        raise


def _arriving(missing: list[Task], jobs: int | None, master: str | None) -> Generator[Result, None, None]:
    if master is None:
        return results_of(missing, min(jobs or cores(), len(missing)))
    module, _, name = ON_SPARK.partition(":")
    on_spark: OnSpark = getattr(import_module(module), name)
    return on_spark(master, carry_out_task, missing, jobs)


def _run(name: str, total: int, results: SweepResults, results_arriving: Generator[Result, None, None]) -> None:
    with _progress(name, total) as progress, closing(results_arriving) as arriving:
        progress(len(results.finished))
        for result in arriving:
            results.add(result)
            progress(len(results.finished))


@contextmanager
def _progress(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, else a line now and then."""
    with console.progress_bar(name, total) as bar:
        yield bar if sys.stderr.isatty() else _lines(name, total)


def _lines(name: str, total: int) -> Callable[[int], None]:
    told = time.monotonic()

    def progress(done: int) -> None:
        nonlocal told
        if time.monotonic() - told >= LINE_EVERY_S:
            told = time.monotonic()
            _say(f"{name}: {done} of {total} runs")

    return progress


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _document(sweep: Sweep, results: SweepResults, rows: list[PointFigures]) -> dict[str, Any]:
    return {
        "sweep": sweep.name,
        "directory": str(results.directory),
        "seeds": list(sweep.seeds),
        "runs": sweep.runs,
        "failed": sum(row.failed for row in rows),
        "points": msgspec.to_builtins(rows),
    }


# --- words -----------------------------------------------------------------------------------------------------------


def _tell(sweep: Sweep, results: SweepResults, rows: list[PointFigures]) -> None:
    screen = console.out()
    size = f"{_count(len(rows), 'point')}, {_count(len(sweep.seeds), 'seed')}"
    screen.print(f"[bold]{sweep.name}[/bold]: {size}; means over the seeds, ± 95 % confidence")
    screen.print(_table(rows))
    errors = [result for result in results.finished if "error" in result]
    for result in sorted(errors, key=lambda r: (r["number"], r["seed"]))[:ERRORS_SHOWN]:
        what = f"point {result['number']}, seed {result['seed']}: {failures(result)[0]}"
        screen.print(what, markup=False, soft_wrap=True)
    screen.print(f"Left in [bold]{results.directory}[/bold]: {RESULTS}, {TABLE}", soft_wrap=True)


def _table(rows: list[PointFigures]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    keys = list(dict.fromkeys(key for row in rows for key in row.point))
    for title in ("point", *keys, "runs", "properties", "delivered/owed", "p50 ms", "p99 ms", "control bytes"):
        table.add_column(escape(title), overflow="fold")
    for row in rows:
        settings = (escape(shown(row.point[key])) if key in row.point else "" for key in keys)
        estimates = (*row.latency_ms.values(), row.control_bytes)
        owed = f"{row.delivered}/{row.expected}"
        table.add_row(str(row.number), *settings, str(row.runs), _verdict(row), owed, *map(_within, estimates))
    return table


def _verdict(row: PointFigures) -> str:
    """Violations of each property, faults that never took effect, runs that raised; or that all is well."""
    wrong = [f"{name}: {count} in {_count(row.violated[name], 'run')}" for name, count in row.violations.items()]
    wrong += [f"no {name} in {_count(count, 'run')}" for name, count in row.vacuous.items()]
    wrong += [f"{_count(row.errors, 'run')} raised"] if row.errors else []
    return f"[red]{', '.join(wrong)}[/red]" if wrong else "[green]all hold[/green]"


def _count(number: int, what: str) -> str:
    return f"{number} {what if number == 1 else what + 's'}"


def _within(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    return _number(estimate.mean) + ("" if estimate.ci95 is None else f" ± {_number(estimate.ci95)}")


def _number(value: float) -> str:
    """Three digits, and all that are before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
