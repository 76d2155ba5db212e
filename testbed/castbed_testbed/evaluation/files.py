"""An evaluation as a value: a sweep along one axis, in series, with what a paper prints and what has to come out.

Reading never runs anything. Every mistake is a ConfigurationError that names the key of the evaluation file. A file may
take its runs from another one (`runs_of`): then both share the results, and each shows what it likes of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from castbed.errors import ConfigurationError
from castbed.units import Duration, convert
from castbed_testbed.evaluation.measured import Measuring
from castbed_testbed.experiment import read_toml
from castbed_testbed.sweep import Sweep, make_sweep

Number = int | float
RUN_KEYS = ("experiment", "x", "series", "measure", "seeds", "quick")  # what `runs_of` takes from the other file


class Axis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key that changes: its values are numbers, written with `unit` where the experiment wants one."""

    key: str
    label: str
    values: list[Number]
    unit: str = ""

    def setting(self, value: Number) -> Any:
        return f"{value:g}{self.unit}" if self.unit else value


class Series(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One curve: the experiment with some keys `set`, at all values of the axis or at some, with seeds of its own.

    A series in overload may want a `warm_up` of its own: it has no steady state to wait for, and what is submitted late
    in such a run is never delivered.
    """

    name: str
    set: dict[str, Any] = {}
    values: list[Number] | None = None
    seeds: int | None = None
    warm_up: Duration | None = None
    quick_values: list[Number] | None = None


class Printed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the paper prints of a measure, one number for each value of the axis, for the series that mean the same."""

    measure: str
    series: list[str]
    values: list[Number]
    name: str = "paper"


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A measure of some series, or of all."""

    title: str
    measure: str
    series: list[str] | None = None


class Plot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure: `file` names it; `note` is said below the title."""

    file: str
    title: str
    measure: str
    label: str
    series: list[str] | None = None
    scale: Literal["linear", "log"] = "linear"
    across: Literal["linear", "log"] = "linear"
    note: str = ""


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What has to come out; which keys apply depends on `kind`.

    `within`: the statistic is from `low` to `high` at each value. `rising`: it never falls along the axis. `flat`: the
    largest is at most `tolerance` above the smallest. `ratio`: it is at least `low` times that of the series `to`.
    `overload`: the runs at these values are labelled so. `beside`: there is a figure for every number of the paper.
    """

    name: str
    kind: Literal["within", "rising", "flat", "ratio", "overload", "beside"]
    series: list[str]
    measure: str = "delay_ms.mean"
    statistic: Literal["mean", "median"] = "mean"
    at: list[Number] | None = None
    low: float | None = None
    high: float | None = None
    tolerance: float | None = None
    to: str | None = None


class Quick(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `--quick` does instead: fewer seeds and values, and keys of the experiment for shorter runs."""

    seeds: int = 2
    values: list[Number] | None = None
    set: dict[str, Any] = {}


class EvaluationFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An evaluation as it is written."""

    name: str
    title: str
    experiment: str | dict[str, Any]
    x: Axis
    series: list[Series]
    seeds: int = 10
    measure: Measuring = Measuring()
    quick: Quick = Quick()
    about: str = ""
    runs_of: str | None = None
    paper: list[Printed] = []
    tables: list[Table] = []
    plots: list[Plot] = []
    accept: list[Condition] = []


class Place(msgspec.Struct, frozen=True):
    """One value of the axis in one series: the point of the sweep that stands for it, its seeds, what to measure."""

    number: int
    series: str
    x: Number
    seeds: tuple[int, ...]
    measuring: Measuring


class Evaluation(msgspec.Struct, frozen=True):
    """Everything that determines an evaluation; `runs` names its results, which several evaluations may share."""

    written: EvaluationFile
    runs: str
    sweep: Sweep
    places: tuple[Place, ...]

    def printed(self, measure: str, series: str, x: Number) -> float | None:
        """What the paper says; None where it says nothing."""
        for said in self.written.paper:
            if said.measure == measure and series in said.series:
                return dict(zip(self.written.x.values, said.values, strict=True)).get(x)
        return None

    def names(self, wanted: Sequence[str] | None) -> list[str]:
        """The series of a table or plot: those named, or all."""
        return list(wanted) if wanted is not None else [series.name for series in self.written.series]


def load_evaluation(path: Path, seeds: int | None = None, quick: bool = False) -> Evaluation:
    """Read an evaluation file; files that it names are found from where it is."""
    data, folder = read_toml(path), path.parent
    runs = data.get("runs_of")
    below = data
    if isinstance(runs, str):
        below = read_toml(folder / runs)
        for key in RUN_KEYS:
            if key in data:
                raise ConfigurationError(key, f"is what {runs} says, whose runs these are")
        data |= {key: below[key] for key in RUN_KEYS if key in below}
    written = convert(data, EvaluationFile)
    _check_names(written)
    name = str(below["name"])
    return _made(written, f"{name}-quick" if quick else name, folder, seeds, quick)


def _made(written: EvaluationFile, runs: str, folder: Path, seeds: int | None, quick: bool) -> Evaluation:
    common = written.quick.set if quick else {}
    points, places = [], []
    for series in written.series:
        warm_up = written.measure.warm_up if series.warm_up is None else series.warm_up
        measuring = msgspec.structs.replace(written.measure, warm_up=warm_up)
        count = seeds or (written.quick.seeds if quick else series.seeds or written.seeds)
        for x in _values(written, series, quick):
            points.append({**series.set, **common, written.x.key: written.x.setting(x)})
            places.append(Place(len(points), series.name, x, tuple(range(1, count + 1)), measuring))
    most = max((len(place.seeds) for place in places), default=1)
    plain = {"name": runs, "experiment": written.experiment, "seeds": most, "points": points}
    sweep = make_sweep(plain, folder)
    kept = {key: value for key, value in sweep.resolved.items() if key != "seeds"}
    kept["measure"] = {
        "warm_up": [int(place.measuring.warm_up) for place in places],
        "answers": dict(written.measure.answers),
    }
    return Evaluation(written, runs, msgspec.structs.replace(sweep, resolved=kept), tuple(places))


def _values(written: EvaluationFile, series: Series, quick: bool) -> list[Number]:
    values = series.values or written.x.values
    if not quick:
        return values
    chosen = written.quick.values if series.quick_values is None else series.quick_values
    return [value for value in values if chosen is None or value in chosen]


def _check_names(written: EvaluationFile) -> None:
    """Whatever refers to a series or a value has to find it."""
    series = {one.name: one for one in written.series}
    if len(series) < len(written.series):
        raise ConfigurationError("series", "two have the same name")
    parts: Mapping[str, Sequence[Any]] = {
        "paper": written.paper, "tables": written.tables, "plots": written.plots, "accept": written.accept,
    }  # fmt: skip
    for key, entries in parts.items():
        for at, entry in enumerate(entries):
            for name in [*(entry.series or ()), *filter(None, [getattr(entry, "to", None)])]:
                if name not in series:
                    problem = f"there is no series {name!r} (there are: {', '.join(series)})"
                    raise ConfigurationError(f"{key}[{at}].series", problem)
    for at, said in enumerate(written.paper):
        if len(said.values) != len(written.x.values):
            raise ConfigurationError(f"paper[{at}].values", f"has to have {len(written.x.values)} numbers")
    for at, condition in enumerate(written.accept):
        for key in _NEEDED[condition.kind]:
            if getattr(condition, key) is None:
                raise ConfigurationError(f"accept[{at}].{key}", f"a condition of the kind {condition.kind!r} needs it")


_NEEDED: Mapping[str, tuple[str, ...]] = {
    "within": ("low", "high"), "rising": (), "flat": ("tolerance",), "ratio": ("to", "low"), "overload": (),
    "beside": (),
}  # fmt: skip
