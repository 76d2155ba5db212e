"""Positions and range in metres: who is further away does not hear, whether members stand or move."""

from __future__ import annotations

from math import dist
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from testbed_support import probe, refusal, registry, say, script, simulated

from castbed.errors import ConfigurationError
from castbed.units import show_duration
from castbed_testbed.experiment import TIME_MAX, load, load_file
from castbed_testbed.networks import build_topology
from castbed_testbed.paths import read_points
from castbed_testbed.ranges import RANGE, Apart, spans_apart
from castbed_testbed.runner import EXPERIMENT, run_experiment

SECOND = 1_000_000_000
MEMBERS = ["A", "B", "C"]
LINE = {"A": [0, 0], "B": [80, 0], "C": [160, 0]}


def street(positions: dict[str, Any] | None = LINE, range_m: Any = 100, **changes: Any) -> dict[str, Any]:
    topology: dict[str, Any] = {"kind": "broadcast", "members": MEMBERS, "air": {}}
    if positions is not None:
        topology["positions"] = positions
    if range_m is not None:
        topology["air"]["range_m"] = range_m
    return probe(topology=topology, **changes)


def points(*passed: tuple[str, str, float, float]) -> dict[str, Any]:
    return {"kind": "trace", "points": [{"node": node, "at": at, "x": x, "y": y} for node, at, x, y in passed]}


def apart(data: dict[str, Any]) -> list[Apart]:
    experiment = load(data).experiment
    return spans_apart(experiment, build_topology(experiment.topology))


def test_who_is_further_away_than_the_range_does_not_hear() -> None:
    seen = simulated(street(workload=script(say("A", "0s"), say("B", "100ms"), say("C", "200ms"))))
    assert [seen.delivered(name) for name in MEMBERS] == [["B1"], ["A1", "C1"], ["B1"]]
    assert seen.report.effects == {RANGE: 2}


def test_who_stands_at_the_very_edge_hears() -> None:
    assert apart(street({"A": [0, 0], "B": [60, 80], "C": [0, 100.001]})) == [Apart(1, 3, 0, TIME_MAX, RANGE)]


def test_a_member_that_moves_is_heard_while_it_is_in_range() -> None:
    walk = points(("C", "1s", 80, 0), ("C", "2s", 200, 0))
    lines = [say("A", at) for at in ("0s", "900ms", "1s", "1900ms")]
    seen = simulated(street(duration="2s", mobility=walk, workload=script(*lines)))
    assert seen.delivered("C") == ["A2", "A3"]
    assert seen.report.effects == {"mobility": 2}


def test_times_at_which_members_get_out_of_range_are_exact() -> None:
    walk = points(("B", "0s", 0, 0), ("B", "4s", 400, 0), ("B", "5s", 400, 0), ("B", "9s", 0, 0))
    data = street({"A": [0, 0], "C": [0, 1]}, mobility=walk)
    assert [span[:4] for span in apart(data) if span[:2] == (1, 2)] == [(1, 2, SECOND, 8 * SECOND)]


def test_members_that_only_pass_by_each_other_meet_for_a_while() -> None:
    walk = points(("A", "0s", -200, 0), ("A", "4s", 200, 0), ("B", "0s", 200, 60), ("B", "4s", -200, 60))
    data = street({"C": [0, 30]}, mobility=walk)
    spans = [span[2:4] for span in apart(data) if span[:2] == (1, 2)]
    assert spans == [(0, 1.6 * SECOND), (2.4 * SECOND, TIME_MAX)]  # 80 m apart along the street


@given(st.lists(st.tuples(*(st.integers(-300, 300),) * 4), min_size=1, max_size=4), st.integers(1, 400))
def test_spans_agree_with_distances_at_any_time(steps: list[tuple[int, int, int, int]], range_m: int) -> None:
    passed = [("A", f"{at}s", x, y) for at, (x, y, _, _) in enumerate(steps)]
    passed += [("B", f"{at}s", x, y) for at, (_, _, x, y) in enumerate(steps)]
    spans = [span for span in apart(street({"C": [0, 0]}, range_m, mobility=points(*passed))) if span[:2] == (1, 2)]
    for at, (one, other) in enumerate(zip(steps, [*steps[1:], steps[-1]], strict=True)):
        for part in (0.0, 0.25, 0.5, 0.75):
            ax, ay, bx, by = (before + (after - before) * part for before, after in zip(one, other, strict=True))
            metres, now = dist((ax, ay), (bx, by)), (at + part) * SECOND
            if abs(metres - range_m) > 1e-3:
                assert any(span.start <= now < span.end for span in spans) is (metres > range_m)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (street(range_m=None), "topology.air.range_m: positions mean nothing without it"),
        (street(range_m=0), "topology.air.range_m: is in metres"),
        (street({"A": [0, 0], "B": [0, 0]}), "topology.positions: does not say where 'C' is"),
        (street({**LINE, "D": [0, 0]}), "topology.positions.D: there is no node 'D'"),
        (street({**LINE, "A": [1e12, 0]}), "topology.positions.A: is further away"),
        (street(mobility=points(("D", "0s", 0, 0))), "mobility.points[0].node: there is no node 'D'"),
        (street(mobility=points(("A", "1s", 0, 0), ("A", "1s", 1, 0))), "mobility.points: 'A' is at two places"),
        (street(mobility=[points(("A", "1s", 0, 0))] * 2), "mobility[1].points: 'A' is moved by mobility[0]"),
        (street(mobility={**points(("A", "1s", 0, 0)), "hosts": ["B"]}), "mobility.points[0].node: 'A' is none"),
        (street(mobility={"kind": "trace", "moves": []}), "mobility.moves: a trace on a broadcast topology has points"),
        (street(mobility={"dwell": "1s"}), "mobility: a broadcast topology has no cells"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_key(data: dict[str, Any], words: str) -> None:
    assert refusal(data).startswith(words)


def test_cells_have_no_range_of_their_own() -> None:
    data = {**probe(), "protocol": {"name": "cells"}}
    data["topology"] = {"kind": "cellular", "stations": 1, "hosts": 1, "air": {"range_m": 10}}
    assert refusal(data).startswith("topology.air.range_m: is for a broadcast topology")


def test_a_protocol_that_needs_a_reliable_air_is_refused_unless_all_hear_each_other() -> None:
    needy = {"protocol": {"name": "probe", "variant": "needs-reliable_air"}}
    assert "topology.air.range_m" in refusal(street(**needy))
    assert simulated(street(range_m=1000, **needy)).report.effects == {}


# --- files -----------------------------------------------------------------------------------------------------------

CSV = "time_s,node,x_m,y_m\n0,C,160,0\n1,C,80,-0.5\n"
NS2 = '$node_(2) set X_ 0\n$node_(2) set Y_ 9\n$ns_ at 1.0 "$node_(2) setdest 30 49 25"\n'


def read(folder: Path, text: str, form: str = "csv") -> list[tuple[str, float, float, float]]:
    (folder / "walk").write_text(text, encoding="utf-8")
    return [(p.node, p.at / SECOND, p.x, p.y) for p in read_points(folder / "walk", form, MEMBERS, "mobility")]


def test_files_become_points(tmp_path: Path) -> None:
    assert read(tmp_path, CSV) == [("C", 0, 160, 0), ("C", 1, 80, -0.5)]
    assert read(tmp_path, NS2, "ns2") == [("C", 0, 0, 9), ("C", 1, 0, 9), ("C", 3, 30, 49)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time_s,host,station\n", "line 1: expected the header"),
        (CSV + "1,C,0,0\n", "line 4: 'C' has a place at this time already"),
        (CSV + "2,D,0,0\n", "line 4: there is no member 'D'"),
        (CSV + "2,C,east,0\n", "line 4: 'east' is no number"),
        (CSV + "2,C,0\n", "line 4: expected"),
        (CSV + "soon,C,0,0\n", "line 4: 'soon' is no time"),
        (CSV + "2,C,1e12,0\n", "line 4: 1e12 is not from"),
        ("time_s,node,x_m,y_m\n", "says nothing about anybody"),
    ],
)
def test_a_mistake_in_a_file_is_refused_with_its_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^mobility\.file: ") as raised:
        read(tmp_path, text)
    assert words in str(raised.value)


def test_a_run_keeps_the_points_and_runs_again_without_the_file(tmp_path: Path) -> None:
    (tmp_path / "walk.csv").write_text(CSV, encoding="utf-8")
    data = street(mobility={"kind": "trace", "file": "walk.csv"}, workload=script(say("A", "0s"), say("A", "900ms")))
    path = tmp_path / "walk.toml"
    path.write_text(tomli_w.dumps(data), encoding="utf-8")
    first = run_experiment(load_file(path), registry(), tmp_path / "run")
    (tmp_path / "walk.csv").unlink()
    again = load_file(tmp_path / "run" / EXPERIMENT)
    assert again.data["mobility"]["points"][1] == {"node": "C", "at": show_duration(SECOND), "x": 80.0, "y": -0.5}
    second = run_experiment(again, registry(), tmp_path / "again")
    assert first.summary["faults"] == second.summary["faults"] == {"mobility": 1}
