"""The directory of a sweep: what was asked for, and one line per finished run, readable whenever the sweep is stopped.

`results.jsonl` only grows, by one whole line at a time. A line that a killed process left unfinished is cut off when
the sweep goes on, and its run is done again.
"""

from __future__ import annotations

import csv
import fcntl
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from castbed.errors import ConfigurationError
from castbed_testbed.experiment import read_toml
from castbed_testbed.runner import MANIFEST, RUNS
from castbed_testbed.sweep import Sweep
from castbed_testbed.sweep_pool import Result, Task

SWEEP = "sweep.toml"
RESULTS = "results.jsonl"
TABLE = "results.csv"
CAPTURED = "runs"
UNFINISHED = ".sweep.toml"
ELSEWHERE = "choose another directory with --out"


class SweepResults:
    """The results in a directory: those that were there, and those that are added."""

    def __init__(self, directory: Path, lines: int) -> None:
        self.directory = directory
        self._lines = lines
        self.finished = _read(directory / RESULTS, lines)

    def missing(self, sweep: Sweep) -> Iterator[Task]:
        """What is left to do: all points with the first seed, then with the second, and so on."""
        done = {(result["number"], result["seed"]) for result in self.finished}
        folder = (self.directory / CAPTURED).resolve()
        for seed in sweep.seeds:
            for point in sweep.points:
                if (point.number, seed) not in done:
                    directory = str(folder / f"{point.number}-{seed}") if sweep.captures else None
                    yield Task(point.number, point.values, point.data, seed, directory)

    def add(self, result: Result) -> None:
        """Keep one result; it is in the file when this returns."""
        os.write(self._lines, json.dumps(result, default=str).encode() + b"\n")
        self.finished.append(result)

    def write_table(self) -> None:
        """All results as rows with flat columns, in the order of points and seeds."""
        rows = [_row(result) for result in sorted(self.finished, key=lambda r: (r["number"], r["seed"]))]
        columns = list(dict.fromkeys(column for row in rows for column in row if column != "error"))
        with (self.directory / TABLE).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*columns, "error"])
            writer.writeheader()
            writer.writerows(rows)


def default_directory(sweep: Sweep) -> Path:
    return Path(RUNS) / f"sweep-{sweep.name}"


@contextmanager
def opened(directory: Path, sweep: Sweep, fresh: bool = False) -> Iterator[SweepResults]:
    """The results of this sweep in `directory`, which nobody else may work on meanwhile; `fresh` forgets old ones."""
    try:
        _make(directory)
        lines = os.open(directory / RESULTS, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise ConfigurationError(str(directory), f"cannot be written ({error.strerror})") from None
    try:
        _lock(lines, directory)
        if fresh or not (directory / SWEEP).exists():
            _begin(directory, sweep, lines)
        elif read_toml(directory / SWEEP) != sweep.resolved:
            problem = "holds another sweep, or this one before it was changed"
            raise ConfigurationError(str(directory), f"{problem}; {ELSEWHERE}, or begin anew with --fresh")
        yield SweepResults(directory, lines)
    finally:
        os.close(lines)


def _make(directory: Path) -> None:
    """An empty directory, or one that holds a sweep: anything else is somebody's and stays."""
    directory.mkdir(parents=True, exist_ok=True)
    foreign = any(path.name != RESULTS or path.stat().st_size for path in directory.iterdir())
    if foreign and not _is_sweep(directory):
        raise ConfigurationError(str(directory), f"exists and is not a sweep; {ELSEWHERE}")


def _is_sweep(directory: Path) -> bool:
    try:
        return "sweep" in json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _lock(lines: int, directory: Path) -> None:
    try:
        fcntl.flock(lines, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigurationError(str(directory), f"another sweep is at work here; {ELSEWHERE}") from None


def _begin(directory: Path, sweep: Sweep, lines: int) -> None:
    """An empty sweep. The manifest comes first, because it says whose directory this is; `sweep.toml` completes it."""
    (directory / MANIFEST).write_text(json.dumps(_manifest(sweep), indent=2) + "\n", encoding="utf-8")
    for old in (SWEEP, TABLE):
        (directory / old).unlink(missing_ok=True)
    shutil.rmtree(directory / CAPTURED, ignore_errors=True)
    os.ftruncate(lines, 0)
    unfinished = directory / UNFINISHED
    unfinished.write_text(tomli_w.dumps(sweep.resolved), encoding="utf-8")
    unfinished.replace(directory / SWEEP)


def _manifest(sweep: Sweep) -> dict[str, Any]:
    return {
        "sweep": sweep.name,
        "points": len(sweep.points),
        "seeds": len(sweep.seeds),
        "versions": {name: version(name) for name in ("castbed", "msgspec")} | {"python": platform.python_version()},
        "platform": platform.platform(),
        "host": platform.node(),
        "argv": sys.argv[1:],
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _read(path: Path, lines: int) -> list[Result]:
    """All whole lines; half a line at the end is cut off."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.ftruncate(lines, whole)
    return [_result(line, path, number) for number, line in enumerate(data[:whole].splitlines(), start=1)]


def _result(line: bytes, path: Path, number: int) -> Result:
    try:
        result: Result = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        result = {}
    if not result.keys() >= {"number", "point", "seed"}:
        raise ConfigurationError(str(path), f"line {number} is no result; begin anew with --fresh")
    return result


def _row(result: Result) -> dict[str, Any]:
    """The result with one column per figure; of a property, how often it was violated."""
    row: dict[str, Any] = {}
    for name, value in result.items():
        if name == "point":
            row |= {f"point.{key}": _cell(setting) for key, setting in value.items()}
        elif name == "properties":
            row |= {f"violations.{key}": verdict["violations"] for key, verdict in value.items()}
        elif isinstance(value, dict):
            row |= {f"{name}.{key}": figure for key, figure in value.items()}
        else:
            row[name] = _cell(value)
    return row


def _cell(value: Any) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(part, str) for part in value):
        return " ".join(value)
    return json.dumps(value, default=str) if isinstance(value, dict | list | bool) else value
