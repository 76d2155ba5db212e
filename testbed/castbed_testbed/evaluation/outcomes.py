"""What the runs of an evaluation say: for each value of the axis, series and measure, a figure over the seeds."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

import msgspec

from castbed.errors import ConfigurationError
from castbed_testbed.evaluation.files import Evaluation, Number, Place, Plot, Table
from castbed_testbed.sweep_figures import estimate
from castbed_testbed.sweep_pool import Result

OVERLOAD = "overload, no steady state"


class Figure(msgspec.Struct, frozen=True):
    """One measure at one place; `values` are those of the seeds. `paper` is None where nothing is printed.

    Of an overloaded place the figure depends on how long the runs were: it says nothing else.
    """

    series: str
    x: Number
    measure: str
    values: dict[int, float]
    mean: float | None
    ci95: float | None
    median: float | None
    low: float | None
    high: float | None
    paper: float | None
    overloaded: int
    runs: int

    @property
    def is_overloaded(self) -> bool:
        """Most of the runs had queues that no steady state can have."""
        return 2 * self.overloaded > self.runs

    @property
    def deviation(self) -> float | None:
        """How far the mean is from what is printed, as a share of that."""
        return None if self.paper is None or self.mean is None else self.mean / self.paper - 1

    @property
    def note(self) -> str:
        if self.is_overloaded:
            return OVERLOAD
        return f"{self.overloaded} of {self.runs} runs in overload" if self.overloaded else ""


class Outcomes:
    """The results of all runs, by place."""

    def __init__(self, evaluation: Evaluation, results: Iterable[Result]) -> None:
        self.evaluation = evaluation
        self.errors: list[Result] = []
        self._by_point: dict[int, dict[int, Result]] = {}
        for result in results:
            if "error" in result:
                self.errors.append(result)
            else:
                self._by_point.setdefault(result["number"], {})[result["seed"]] = result

    def figures(self, measure: str, series: str) -> list[Figure]:
        """The figures of a series along the axis."""
        return [self._figure(measure, place) for place in self.evaluation.places if place.series == series]

    def _figure(self, measure: str, place: Place) -> Figure:
        there = self._by_point.get(place.number, {})
        results = {seed: there[seed] for seed in place.seeds if seed in there}
        found = {seed: look_up(result, measure) for seed, result in results.items()}
        values = {seed: value for seed, value in found.items() if value is not None}
        said = estimate(list(values.values()))
        return Figure(
            place.series,
            place.x,
            measure,
            values,
            said.mean if said else None,
            said.ci95 if said else None,
            median(values.values()) if values else None,
            min(values.values(), default=None),
            max(values.values(), default=None),
            self.evaluation.printed(measure, place.series, place.x),
            sum(bool(result["overloaded"]) for result in results.values()),
            len(results),
        )

    def all_figures(self) -> list[Figure]:
        """Everything that tables, plots and the paper name, each once."""
        written = self.evaluation.written
        parts: list[Table | Plot] = [*written.tables, *written.plots]
        wanted = [(part.measure, self.evaluation.names(part.series)) for part in parts]
        pairs = dict.fromkeys((measure, series) for measure, names in wanted for series in names)
        return [figure for measure, series in pairs for figure in self.figures(measure, series)]


def look_up(result: Result, path: str) -> float | None:
    """The figure at a path such as `queue_ms.station_air`; None where the run has none of it."""
    found: Any = result
    for step in path.split("."):
        if not isinstance(found, dict):
            raise ConfigurationError("measure", f"{path!r} names no figure of a run")
        found = found.get(step)
        if found is None:
            return None
    if isinstance(found, dict | list | str):
        raise ConfigurationError("measure", f"{path!r} is not a number")
    return float(found)
