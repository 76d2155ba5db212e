"""Sweeps: what a sweep file means, what one run is, and what many runs say together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w
from testbed_command import EXAMPLES, LOSSY
from testbed_support import cells, post, registry, say, script

from castbed import ConfigurationError
from castbed_testbed.experiment import load, load_file
from castbed_testbed.runner import run_experiment
from castbed_testbed.sweep import RUNS_MAX, Point, SeedRange, Sweep, SweepFile, check_points, load_sweep, make_sweep
from castbed_testbed.sweep_figures import estimate, figures_of, student_quantile
from castbed_testbed.sweep_run import failures, run_captured, run_point

PAGE = Path(__file__).parents[2] / "docs" / "sweeps.md"
HERE = Path()


def sweep(**keys: Any) -> Sweep:
    return make_sweep({"name": "s", "experiment": LOSSY, "seeds": 2, **keys}, HERE)


def values(made: Sweep) -> list[dict[str, Any]]:
    return [point.values for point in made.points]


def refusal(**keys: Any) -> str:
    """What is said of a sweep that is wrong."""
    with pytest.raises(ConfigurationError) as raised:
        check_points(sweep(**keys), registry())
    return str(raised.value)


# --- points and seeds ------------------------------------------------------------------------------------------------


def test_a_grid_is_every_combination_and_the_last_key_changes_fastest() -> None:
    made = sweep(grid={"topology.members": [3, 4], "faults.loss": [0.1, 0.2]})
    assert [tuple(point.values.values()) for point in made.points] == [(3, 0.1), (3, 0.2), (4, 0.1), (4, 0.2)]
    assert [point.number for point in made.points] == [1, 2, 3, 4]
    assert made.runs == 8
    third = made.points[2].data
    assert (third["topology"]["members"], third["faults"]["loss"]) == (4, 0.1)
    assert third["topology"]["kind"] == "broadcast"
    assert LOSSY["faults"] == {"loss": 0.2}


def test_keys_may_be_quoted_or_not() -> None:
    nested = sweep(grid={"faults": {"loss": [0.1], "duplication": [0.5]}})
    assert values(nested) == values(sweep(grid={"faults.loss": [0.1], "faults.duplication": [0.5]}))


def test_listed_points_come_after_the_grid_or_stand_alone() -> None:
    listed = [{"faults": {"loss": 0.5}}, {"duration": "1s", "topology.air": {"delay": "5ms"}}]
    flat = [{"faults.loss": 0.5}, {"duration": "1s", "topology.air": {"delay": "5ms"}}]
    assert values(sweep(points=listed)) == flat
    assert values(sweep(points=listed, grid={"drain": ["1s"]})) == [{"drain": "1s"}, *flat]
    assert sweep(points=listed).points[1].data["topology"]["air"] == {"delay": "5ms"}


def test_a_sweep_without_points_is_the_experiment_with_many_seeds() -> None:
    made = sweep()
    assert values(made) == [{}]
    assert made.points[0].data == {key: value for key, value in LOSSY.items() if key != "seed"}


@pytest.mark.parametrize(
    ("written", "meant"), [(3, (1, 2, 3)), ([5, 2], (5, 2)), ({"first": 7, "count": 2}, (7, 8)), ({"count": 1}, (1,))]
)
def test_seeds_are_a_number_a_list_or_a_range(written: Any, meant: tuple[int, ...]) -> None:
    assert sweep(seeds=written).seeds == meant


def test_the_resolved_sweep_is_a_sweep_file_that_gives_the_same_sweep(tmp_path: Path) -> None:
    topology = tmp_path / "net.toml"
    topology.write_text(tomli_w.dumps(LOSSY["topology"]), encoding="utf-8")
    (tmp_path / "experiments").mkdir()
    inner = tmp_path / "experiments" / "lossy.toml"
    inner.write_text(tomli_w.dumps({**LOSSY, "topology": "../net.toml"}), encoding="utf-8")
    listed = [{"topology.air": {"delay": "5ms"}}]
    data = {"name": "s", "experiment": "experiments/lossy.toml", "grid": {"faults": {"loss": [0.1]}}, "points": listed}
    path = tmp_path / "sweep.toml"
    path.write_text(tomli_w.dumps(data), encoding="utf-8")
    made = load_sweep(path)
    assert made.points[0].data["topology"] == LOSSY["topology"]
    again = tmp_path / "elsewhere.toml"
    again.write_text(tomli_w.dumps(made.resolved), encoding="utf-8")
    assert load_sweep(again) == made


# --- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"name": "a/b"}, "name: use letters"),
        ({"colour": "red"}, "colour: unknown key"),
        ({"seeds": 0}, "seeds: has to be from 1"),
        ({"seeds": []}, "seeds: there is none"),
        ({"seeds": [1, 1]}, "seeds: one is there twice"),
        ({"seeds": [-1]}, "seeds: have to be numbers from 0"),
        ({"seeds": {"first": 2**63 - 1, "count": 2}}, "seeds: have to be numbers from 0"),
        ({"experiment": "nowhere.toml"}, "experiment: nowhere.toml: cannot be read"),
        ({"grid": {"faults.loss": 0.1}}, "grid.faults.loss: expected a list of values"),
        ({"grid": {"faults.loss": []}}, "grid.faults.loss: expected a list of values"),
        ({"grid": {"seed": [1]}}, "grid.seed: is not a key to change; `seeds` says"),
        ({"grid": {"faults..loss": [1]}}, "grid.faults..loss: is not a key to change"),
        ({"grid": {"duration.x": [1]}}, "grid.duration.x: 'duration' is not a table in the experiment"),
        ({"points": [{"drain": "1s"}, {"drain": "1s"}]}, "points.2: point 2 is point 1 again"),
        ({"grid": {"drain": ["1s"] * RUNS_MAX}}, f"grid: makes {2 * RUNS_MAX} runs"),
    ],
)
def test_a_mistake_in_the_file_is_named(keys: dict[str, Any], said: str) -> None:
    assert refusal(**keys).startswith(said)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"grid": {"faults.loss": [0.1, 7]}}, "grid.faults.loss: "),
        ({"grid": {"faults": {"los": [0.1]}}}, "grid.faults.los: unknown key"),
        ({"points": [{}, {"protocol.name": "nobody"}]}, "points.2.protocol.name: there is no protocol 'nobody'"),
        ({"grid": {"workload": {"kind": ["no"]}}}, "grid.workload.kind: there is no workload 'no'"),
        ({"points": [{"topology.air": {"rate": 5}}]}, "points.1.topology.air: topology.air.rate: expected a rate"),
        ({"grid": {"protocol.variant": ["published"]}}, "experiment.faults.loss: sb (published) needs"),
        ({"experiment": {**LOSSY, "duration": 5}}, "experiment.duration: expected a duration"),
    ],
)
def test_a_mistake_in_a_point_names_its_key_before_any_run(keys: dict[str, Any], said: str) -> None:
    assert refusal(**keys).startswith(said)


def test_a_mistake_in_a_point_says_which_point_it_is() -> None:
    said = refusal(grid={"drain": ["1s"], "faults.loss": [0.1, 7]})
    assert said.endswith("(point 2: drain = 1s, faults.loss = 7)")


# --- one run ---------------------------------------------------------------------------------------------------------

SITES = post(workload=script(say("A", "1ms"), say("B", "2ms", to=["A", "C"])))
CELLS = cells(workload=script(say("a", "1ms"), say("S1", "2ms"), say("c", "3ms")))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "data",
    [
        LOSSY,
        SITES,
        CELLS,
        *(load_file(EXAMPLES / f"{name}.toml").data for name in ("m2mc-churn", "absence-and-return")),
    ],
    ids=lambda data: data["name"] + data["topology"]["kind"],
)
def test_a_run_in_memory_has_the_summary_of_a_run_with_captures(
    data: dict[str, Any], seed: int, tmp_path: Path
) -> None:
    installed = registry()
    summary = run_experiment(load({**data, "seed": seed}), installed, tmp_path / "run").summary
    result = run_point(data, seed, installed)
    assert result.pop("wall_s") >= 0
    assert summary.pop("wall_s") >= 0
    assert result == summary
    assert result["frames"] > 0


def test_a_run_leaves_its_data_and_the_directory_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = msgspec.json.encode(LOSSY)
    assert failures(run_point(LOSSY, 1)) == []
    assert msgspec.json.encode(LOSSY) == before
    assert list(tmp_path.iterdir()) == []


def test_a_run_with_captures_replaces_what_an_interrupted_one_left(tmp_path: Path) -> None:
    half = tmp_path / "1-1" / "captures"
    half.mkdir(parents=True)
    (half / "Z.pcapng").touch()
    assert failures(run_captured(LOSSY, 1, tmp_path / "1-1")) == []
    assert sorted(path.stem for path in half.iterdir()) == ["A", "B", "C"]


def test_a_run_that_raises_has_an_error_instead_of_figures() -> None:
    data = {**SITES, "application": {"name": "sleepless"}}
    result = run_point(data, 3, registry())
    assert result.keys() == {"seed", "error"}
    assert result["error"].startswith("raises ContractError (an application on A wants to be woken in the past")
    assert failures(result) == [result["error"]]


def test_a_fault_that_never_took_effect_fails_the_run() -> None:
    crash = {"crashes": [{"node": "A", "at": "1h"}]}
    assert failures(run_point({**LOSSY, "faults": crash}, 1)) == [
        "the fault 'crashes' was asked for and never took effect"
    ]


# --- many runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (10, 2.2281), (29, 2.0452), (120, 1.9799)],
)
def test_the_quantiles_are_those_of_the_printed_tables(degrees: int, quantile: float) -> None:
    assert student_quantile(degrees) == pytest.approx(quantile, abs=5e-5)


def test_very_many_seeds_have_nearly_the_normal_quantile() -> None:
    assert student_quantile(10**6) == pytest.approx(1.959964, rel=2e-3)


def test_the_interval_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found is not None
    assert found.mean == 3
    assert found.ci95 == pytest.approx(1.96324, abs=1e-5)  # 2.7764 * 1.5811 / sqrt(5)
    assert estimate([7.0]).ci95 is None  # type: ignore[union-attr]
    assert estimate([]) is None


def result(number: int, seed: int, p50: float, delivered: int = 10, **more: Any) -> dict[str, Any]:
    latency = {"mean": p50, "p50": p50, "p99": 2 * p50}
    figures = {"delivered": delivered, "expected": 12, "latency_ms": latency, "frames": 5, "vacuous": []}
    figures |= {"control_bytes": {"mean": 4, "max": 5}, "properties": {"fifo": {"holds": True, "violations": 0}}}
    return {"number": number, "point": {}, "seed": seed, **figures, **more}


def test_the_figures_of_a_point_are_over_its_own_runs() -> None:
    points = [Point(number, "grid", {"faults.loss": number / 10}, {}) for number in (1, 2)]
    violated = {"fifo": {"holds": False, "violations": 4}}
    results = [
        result(1, 1, 10.0),
        result(2, 1, 99.0, properties=violated),
        result(1, 2, 20.0),
        result(2, 2, 0.0, delivered=0, properties=violated, vacuous=["loss"]),
        {"number": 2, "point": {}, "seed": 3, "error": "raises ValueError (no)"},
    ]
    one, two = figures_of(points, results)
    assert (one.runs, one.failed, one.violations, one.delivered, one.expected) == (2, 0, {}, 20, 24)
    assert one.latency_ms["p50"] == estimate([10.0, 20.0])
    assert one.latency_ms["p99"] == estimate([20.0, 40.0])
    assert (two.runs, two.failed, two.errors) == (3, 3, 1)
    assert (two.violated, two.violations, two.vacuous) == ({"fifo": 2}, {"fifo": 8}, {"loss": 1})
    assert two.latency_ms["p50"] == estimate([99.0]), "a run without deliveries has no latency"


def test_the_page_describes_every_key() -> None:
    described = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.M)
    assert described[: len(SweepFile.__struct_fields__)] == list(SweepFile.__struct_fields__)
    assert set(SeedRange.__struct_fields__) == {"first", "count"}
