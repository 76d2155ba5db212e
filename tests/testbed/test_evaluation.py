"""Evaluations as values, what a meter measures, and when a condition holds."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest
from evaluation_files import SMALL, evaluation_data, evaluation_file

from castbed import ConfigurationError
from castbed.registry import load_registry
from castbed.units import Duration
from castbed_testbed.evaluation.accepting import verdicts
from castbed_testbed.evaluation.files import Evaluation, load_evaluation
from castbed_testbed.evaluation.measured import Measuring, run_measured
from castbed_testbed.evaluation.meter import Level, spread
from castbed_testbed.evaluation.outcomes import OVERLOAD, Outcomes
from castbed_testbed.evaluation.queues import Queues
from castbed_testbed.sweep_pool import Result

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
MEASURING = Measuring(Duration(200 * MILLISECOND), {"handoff": {"Greet": "GreetAck"}})


# --- files -----------------------------------------------------------------------------------------------------------


def test_every_series_has_its_own_values_and_seeds(tmp_path: Path) -> None:
    evaluation = load_evaluation(evaluation_file(tmp_path))
    places = [(place.series, place.x, len(place.seeds)) for place in evaluation.places]
    assert places == [("slow", 256, 1), ("plain", 256, 2), ("plain", 2048, 2)]
    assert evaluation.sweep.points[2].data["workload"]["size"] == "2048B"


def test_the_quick_version_has_runs_of_its_own(tmp_path: Path) -> None:
    evaluation = load_evaluation(evaluation_file(tmp_path), quick=True)
    assert [(place.series, place.x, len(place.seeds)) for place in evaluation.places] == [
        ("slow", 256, 1),
        ("plain", 256, 1),
    ]
    assert evaluation.runs == "small-quick"
    assert evaluation.sweep.points[0].data["duration"] == "400ms"


def test_an_evaluation_can_show_the_runs_of_another(tmp_path: Path) -> None:
    evaluation_file(tmp_path)
    other = tmp_path / "other.toml"
    other.write_text('name = "other"\ntitle = "Other"\nruns_of = "small.toml"\n', encoding="utf-8")
    first, second = load_evaluation(tmp_path / "small.toml"), load_evaluation(other)
    assert second.runs == "small"
    assert first.sweep.resolved == second.sweep.resolved


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"seed": 1}, "seed: "),
        ({"tables": [{"title": "t", "measure": "delay_ms.mean", "series": ["fast"]}]}, "tables[0].series: "),
        ({"paper": [{"measure": "delay_ms.mean", "series": ["plain"], "values": [1]}]}, "paper[0].values: "),
        ({"accept": [{"name": "a", "kind": "flat", "series": ["plain"]}]}, "accept[0].tolerance: "),
        ({"series": [{"name": "plain"}, {"name": "plain"}]}, "series: "),
        ({"x": {"key": "workload.size", "label": "size"}}, "x.values: "),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, changes: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_evaluation(evaluation_file(tmp_path, **changes))
    assert str(refused.value).startswith(key)


# --- measuring -------------------------------------------------------------------------------------------------------


def test_a_run_is_measured_from_the_end_of_its_warm_up() -> None:
    """Spec 7.4: delay, queueing and sojourn per role, buffers, copies, counts by tag and handoffs, after warm-up."""
    figures = run_measured(SMALL["experiment"], 1, MEASURING, load_registry())
    whole = run_measured(SMALL["experiment"], 1, Measuring(Duration(0)), load_registry())
    assert 0 < figures["messages"] < whole["messages"]
    assert figures["pairs"] == 8 * figures["messages"]
    assert figures["undelivered"] == 0
    assert 2 < figures["delay_ms"]["p50"] <= figures["delay_ms"]["p99"] <= figures["delay_ms"]["max"]
    assert figures["queue_ms"].keys() == figures["sojourn_ms"].keys() >= {"sequencer_wire", "coordinator_wire"}
    assert all(figures["sojourn_ms"][name] > waited for name, waited in figures["queue_ms"].items())
    assert figures["level"]["buffer"] > 0
    assert 1 <= figures["copies"]["mean"] < 2
    assert figures["sent"]["McastSeq"] == figures["sent"]["SyncSeq"] == figures["messages"]
    assert 1 < figures["answer_ms"]["handoff"]["mean"] < 10
    assert figures["overloaded"] == []


def test_measuring_does_not_change_the_run() -> None:
    first, second = (run_measured(SMALL["experiment"], 3, MEASURING, load_registry()) for _ in range(2))
    del first["wall_s"], second["wall_s"]
    assert first == second


def test_a_queue_that_is_offered_too_much_is_overloaded() -> None:
    data = evaluation_data()["experiment"]
    data["topology"]["air"]["rate"] = "20kbit/s"
    figures = run_measured(data, 1, MEASURING, load_registry())
    assert "station_air" in figures["overloaded"]
    assert figures["load"]["station_air"] > 1


def test_a_queue_that_grows_is_overloaded_before_it_is_full() -> None:
    queues, growing = Queues(0, SECOND), Queues(0, SECOND)
    for at in range(0, SECOND, MILLISECOND):
        queues.add("steady", "one", at, at + 20 * MILLISECOND, at + 20 * MILLISECOND + 1)
        growing.add("growing", "one", at, at + at // 10, at + at // 10 + 1)
    assert queues.figures()["overloaded"] == []
    assert growing.figures()["overloaded"] == ["growing"]


def test_a_level_is_averaged_over_time() -> None:
    level = Level(10, 30)
    level.changed(5, 4)
    level.changed(20, 8)
    assert level.mean() == 6


def test_quantiles_are_in_milliseconds_and_absent_where_nothing_was_measured() -> None:
    assert spread(array("q"))["mean"] is None
    said = spread(array("q", [MILLISECOND * number for number in range(1, 101)]))
    assert (said["mean"], said["p50"], said["p99"], said["max"]) == (50.5, 51, 100, 100)


# --- conditions ------------------------------------------------------------------------------------------------------


def outcomes(
    tmp_path: Path, conditions: list[dict[str, Any]], delays: dict[int, list[float]], load: int = 0
) -> Outcomes:
    """The evaluation with these conditions and, for each value of `plain`, these delays."""
    evaluation: Evaluation = load_evaluation(evaluation_file(tmp_path, accept=conditions))
    results: list[Result] = [
        {"number": place.number, "seed": seed, "delay_ms": {"mean": delay}, "overloaded": ["station_air"] * load}
        for place in evaluation.places
        if place.series == "plain"
        for seed, delay in enumerate(delays[int(place.x)], start=1)
    ]
    return Outcomes(evaluation, results)


def holds(tmp_path: Path, kind: str, delays: dict[int, list[float]], load: int = 0, **keys: Any) -> bool:
    condition = {"name": "c", "kind": kind, "series": ["plain"], **keys}
    (verdict,) = verdicts(outcomes(tmp_path, [condition], delays, load))
    return verdict.holds


def test_conditions_hold_where_the_figures_are_so(tmp_path: Path) -> None:
    rising, falling = {256: [1.0, 3.0], 2048: [4.0, 4.4]}, {256: [4.0, 4.4], 2048: [1.0, 3.0]}
    assert holds(tmp_path, "within", rising, low=2, high=4.3)
    assert not holds(tmp_path, "within", rising, low=2, high=4.1)
    assert holds(tmp_path, "rising", rising)
    assert not holds(tmp_path, "rising", falling)
    assert holds(tmp_path, "flat", {256: [10.0, 10.0], 2048: [11.9, 11.9]}, tolerance=0.2)
    assert not holds(tmp_path, "flat", {256: [10.0, 10.0], 2048: [12.2, 12.2]}, tolerance=0.2)
    assert not holds(tmp_path, "overload", rising)
    assert holds(tmp_path, "overload", rising, load=1)
    assert holds(tmp_path, "beside", rising)


def test_a_condition_about_nothing_does_not_hold(tmp_path: Path) -> None:
    assert not holds(tmp_path, "within", {256: [], 2048: []}, low=0, high=100)
    assert not holds(tmp_path, "ratio", {256: [1.0], 2048: [2.0]}, to="slow", low=0)
    assert not holds(tmp_path, "beside", {256: [], 2048: [1.0]})


def test_seeds_outside_the_bounds_are_named_even_where_the_median_is_within(tmp_path: Path) -> None:
    condition = {"name": "c", "kind": "within", "series": ["plain"], "statistic": "median", "low": 0, "high": 9}
    (verdict,) = verdicts(outcomes(tmp_path, [condition], {256: [1.0, 1.0], 2048: [1.0, 15.0]}))
    assert verdict.holds
    assert "at 2048 1 of 2 seeds outside (15 with seed 2)" in verdict.said


def test_figures_stand_beside_what_is_printed(tmp_path: Path) -> None:
    found = outcomes(tmp_path, [], {256: [3.0, 2.0], 2048: [4.0]}, load=1).figures("delay_ms.mean", "plain")
    assert [(figure.x, figure.mean, figure.paper, figure.deviation) for figure in found] == [
        (256, 2.5, 2.5, 0.0),
        (2048, 4.0, 5.0, pytest.approx(-0.2)),
    ]
    assert [figure.note for figure in found] == [OVERLOAD, OVERLOAD]


def test_a_measure_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="names no figure"):
        outcomes(tmp_path, [], {256: [1.0], 2048: [1.0]}).figures("delay_ms.mean.deep", "plain")
