"""A sweep as a value: one experiment, points that change keys of it, and seeds. Each point with each seed is one run.

Reading never runs anything. Every mistake is a ConfigurationError that names the key of the sweep file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from castbed.errors import ConfigurationError
from castbed.registry import Registry
from castbed.units import convert
from castbed_testbed.experiment import is_file_name, load, load_file, read_toml
from castbed_testbed.plan import make_plan

RUNS_MAX = 1_000_000  # the results of all are in memory when the table is made
SEED_END = 1 << 63
IN_MEMORY = "sim"  # the transport that needs no captures to be judged


class SeedRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`count` seeds in a row."""

    count: int
    first: int = 1


class SweepFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sweep as it is written."""

    name: str
    experiment: str | dict[str, Any]
    seeds: int | list[int] | SeedRange = 10
    grid: dict[str, Any] = {}
    points: list[dict[str, Any]] = []
    captures: bool = False


class Point(msgspec.Struct, frozen=True):
    """One setting of the keys: `data` is the whole experiment with `values` in it, `origin` where the file says so."""

    number: int
    origin: str
    values: dict[str, Any]
    data: dict[str, Any]

    def __str__(self) -> str:
        return ", ".join(f"{key} = {shown(value)}" for key, value in self.values.items())


class Sweep(msgspec.Struct, frozen=True):
    """Everything that determines a sweep; `resolved` is the plain data that gives the same sweep again."""

    name: str
    points: tuple[Point, ...]
    seeds: tuple[int, ...]
    captures: bool
    resolved: dict[str, Any]

    @property
    def runs(self) -> int:
        return len(self.points) * len(self.seeds)


def shown(value: Any) -> str:
    """A value of a key in words."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def load_sweep(path: Path) -> Sweep:
    """Read a sweep file; files that it names are found from where it is."""
    return make_sweep(read_toml(path), path.parent)


def make_sweep(data: dict[str, Any], folder: Path) -> Sweep:
    """Check plain data and make a sweep of it."""
    written = convert(data, SweepFile)
    if not is_file_name(written.name):
        raise ConfigurationError("name", "use letters, digits, '-', '_' and '.', because a directory is named after it")
    seeds, grid = _seeds(written.seeds), _grid(written.grid)
    listed = [_flat_point(table, f"points.{number}") for number, table in enumerate(written.points, start=1)]
    runs = (prod(map(len, grid.values())) + len(listed)) * len(seeds)
    if runs > RUNS_MAX:
        raise ConfigurationError("grid", f"makes {runs} runs; {RUNS_MAX} is the most")
    experiment = _experiment(written.experiment, folder)
    points = tuple(_points(experiment, grid, listed))
    resolved = {"name": written.name, "captures": written.captures, "seeds": list(seeds)}
    resolved |= {"experiment": experiment, "grid": grid, "points": listed}
    return Sweep(written.name, points, seeds, written.captures, resolved)


def check_points(sweep: Sweep, registry: Registry) -> None:
    """Plan every point, so that all mistakes show before the first run."""
    for point in sweep.points:
        try:
            plan = make_plan(load({**point.data, "seed": sweep.seeds[0]}).experiment, registry)
            if not sweep.captures and plan.transport.name != IN_MEMORY:
                raise ConfigurationError("transport.name", f"only {IN_MEMORY!r} needs no captures; set captures = true")
        except ConfigurationError as error:
            raise _blamed(point, error) from None


def _blamed(point: Point, error: ConfigurationError) -> ConfigurationError:
    """The same mistake as the sweep file has it: under the key of the point, where one leads to it."""
    key = next((key for key in point.values if _leads_to(key, error.path)), None)
    where = f"experiment.{error.path}" if key is None else f"{point.origin}.{key}"
    said = error.problem if key in (None, error.path) else f"{error.path}: {error.problem}"
    return ConfigurationError(where, f"{said} (point {point.number}: {point})" if point.values else said)


def _leads_to(key: str, path: str) -> bool:
    return path == key or path.startswith(f"{key}.") or key.startswith(f"{path}.")


# --- seeds and points ------------------------------------------------------------------------------------------------


def _seeds(written: int | list[int] | SeedRange) -> tuple[int, ...]:
    if isinstance(written, int):
        written = SeedRange(written)
    if isinstance(written, SeedRange):
        if not 0 < written.count <= RUNS_MAX:
            raise ConfigurationError("seeds", f"has to be from 1 to {RUNS_MAX}")
        written = list(range(written.first, written.first + written.count))
    if not written:
        raise ConfigurationError("seeds", "there is none")
    if min(written) < 0 or max(written) >= SEED_END:
        raise ConfigurationError("seeds", "have to be numbers from 0 to 2**63 - 1")
    if len(set(written)) < len(written):
        raise ConfigurationError("seeds", "one is there twice")
    return tuple(written)


def _experiment(written: str | dict[str, Any], folder: Path) -> dict[str, Any]:
    """The plain data, with every file that it names read in; its own seed gives way to the sweep's."""
    try:
        data = load_file(folder / written).data if isinstance(written, str) else written
    except ConfigurationError as error:
        raise ConfigurationError("experiment", str(error)) from None
    return {key: value for key, value in data.items() if key != "seed"}


def _grid(written: dict[str, Any]) -> dict[str, list[Any]]:
    grid = dict(_flat(written, "grid"))
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ConfigurationError(f"grid.{key}", "expected a list of values")
    return grid


def _flat_point(written: dict[str, Any], origin: str) -> dict[str, Any]:
    return dict(_flat(written, origin))


def _flat(table: dict[str, Any], origin: str, above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and what they are set to. A table under a quoted dotted key is a value, any other is a step."""
    for name, value in table.items():
        key = above + name
        if key == "seed" or not all(key.split(".")):
            raise ConfigurationError(f"{origin}.{key}", "is not a key to change; `seeds` says which seeds there are")
        if isinstance(value, dict) and "." not in name:
            yield from _flat(value, origin, f"{key}.")
        else:
            yield key, value


def _points(
    experiment: dict[str, Any], grid: dict[str, list[Any]], listed: Sequence[dict[str, Any]]
) -> Iterator[Point]:
    """All combinations of the grid in the order of the file (the last key changes fastest), then the listed points."""
    combined = product(*grid.values()) if grid or not listed else ()
    settings = [("grid", dict(zip(grid, values, strict=True))) for values in combined]
    settings += [(f"points.{number}", values) for number, values in enumerate(listed, start=1)]
    seen: dict[str, int] = {}
    for number, (origin, values) in enumerate(settings, start=1):
        same = seen.setdefault(json.dumps(values, sort_keys=True, default=str), number)
        if same != number:
            raise ConfigurationError(origin, f"point {number} is point {same} again")
        yield Point(number, origin, values, _changed(experiment, values, origin))


def _changed(experiment: dict[str, Any], values: dict[str, Any], origin: str) -> dict[str, Any]:
    for key, value in values.items():
        experiment = _with(experiment, key.split("."), value, f"{origin}.{key}")
    return experiment


def _with(table: dict[str, Any], steps: list[str], value: Any, path: str) -> dict[str, Any]:
    """A copy of the table in which the key at the end of `steps` is set."""
    first, *rest = steps
    if not rest:
        return {**table, first: value}
    below = table.get(first, {})
    if not isinstance(below, dict):
        raise ConfigurationError(path, f"{first!r} is not a table in the experiment")
    return {**table, first: _with(below, rest, value, path)}
