"""Who moves where and when: drawn from the seed or listed, in any cell or the next, from sources that do not mix."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testbed_support import cells, changed, planned, refusal, registry, simulated

from castbed.history import Kind
from castbed.values import NOBODY
from castbed_testbed import mobility as mobility_module
from castbed_testbed.experiment import load
from castbed_testbed.mobility import Move, moves
from castbed_testbed.networks import LAYOUTS, build_topology
from castbed_testbed.runner import run_experiment
from castbed_testbed.schedule import MoveNode, TakeAway

SECOND = 1_000_000_000
EXPONENTIAL = {"kind": "exponential", "mean": "100ms"}


def drawn(data: dict[str, Any]) -> list[Move]:
    experiment = load(data).experiment
    return list(moves(experiment, build_topology(experiment.topology)))


def town(mobility: Any, stations: int = 9, hosts: Any = 2, seed: int = 1, **topology: Any) -> dict[str, Any]:
    """Many cells, and hosts that walk for 20 s."""
    network = {"kind": "cellular", "stations": stations, "hosts": hosts, **topology}
    return cells(topology=network, mobility=mobility, duration="20s", seed=seed)


def way(data: dict[str, Any], host: str) -> list[tuple[int, str]]:
    """The cells that a host enters, with their times."""
    topology = build_topology(load(data).experiment.topology)
    wanted = topology.number(host)
    return [(m.at, topology.name(m.station) if m.station else "") for m in drawn(data) if m.host == wanted]


# --- dwelling --------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_dwell_times_lie_where_they_are_drawn_from(seed: int) -> None:
    found = way(town({"dwell": {"kind": "uniform", "low": "40ms", "high": "60ms"}}, seed=seed), "h1")
    stays = [later - sooner for sooner, later in pairwise([0, *(at for at, _ in found)])]
    assert all(40_000_000 <= stay <= 60_000_000 for stay in stays)
    assert 48_000_000 < fmean(stays) < 52_000_000
    assert found[-1][0] < 20 * SECOND


def test_exponential_dwell_times_have_their_mean_and_no_memory() -> None:
    found = way(changed("duration", "500s", town({"dwell": EXPONENTIAL})), "h1")
    stays = [later - sooner for sooner, later in pairwise(at for at, _ in found)]
    assert len(stays) > 4000
    assert fmean(stays) == pytest.approx(100e6, rel=0.06)
    assert sum(stay > 100e6 for stay in stays) / len(stays) == pytest.approx(0.368, abs=0.03)


def test_fixed_dwell_times_are_a_clock() -> None:
    assert [at for at, _ in way(cells(mobility={"dwell": "300ms"}), "a")] == [300_000_000, 600_000_000, 900_000_000]


def test_uniform_cells_are_all_the_others_equally_often() -> None:
    found = way(changed("duration", "500s", town({"dwell": "50ms"}, stations=4)), "h1")
    steps = Counter(pairwise(cell for _, cell in found))
    assert len(steps) == 4 * 3
    assert max(steps.values()) < 1.25 * min(steps.values())


def test_moves_begin_and_end_when_they_are_told_to() -> None:
    data = cells(mobility={"dwell": "100ms", "start_after": "250ms", "until": "600ms"})
    assert [at for at, _ in way(data, "a")] == [350_000_000, 450_000_000, 550_000_000]
    later = changed("mobility.until", "1h", data)
    assert [at for at, _ in way(later, "a")][-1] == 1_950_000_000


def test_a_gap_comes_as_often_as_its_probability_says() -> None:
    gap = {"gap": "20ms", "gap_probability": 0.3}
    found = way(changed("duration", "500s", town({"dwell": EXPONENTIAL, **gap})), "h1")
    away = sum(cell == "" for _, cell in found)
    assert away / (len(found) - away) == pytest.approx(0.3, abs=0.04)
    back = [(later - sooner, after) for (sooner, cell), (later, after) in pairwise(found) if not cell]
    assert {stay for stay, _ in back} == {20_000_000}
    assert all(after for _, after in back)


@given(gap_probability=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_a_gap_comes_never_or_always_at_the_ends_of_the_scale(gap_probability: float, seed: int) -> None:
    mobility = {"dwell": EXPONENTIAL, "gap": "1ms", "gap_probability": gap_probability}
    found = [cell for _, cell in way(town(mobility, seed=seed), "h1")]
    assert found.count("") == len(found) / 2 * gap_probability


def test_a_gap_is_counted_once_and_both_are_happenings() -> None:
    plan = planned(cells(mobility={"dwell": "400ms", "gap": "50ms", "hosts": ["a"]}))
    seen = [(type(h), h.at // 1_000_000, h.fault) for h in plan.schedule.happenings]
    assert seen[:2] == [(TakeAway, 400, "mobility"), (MoveNode, 450, "")]


# --- the seed --------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_the_same_seed_gives_the_same_moves_and_another_gives_others(seed: int) -> None:
    mobility = {"dwell": EXPONENTIAL, "gap": "5ms", "gap_probability": 0.5}
    assert drawn(town(mobility, seed=seed)) == drawn(town(mobility, seed=seed))
    assert drawn(town(mobility, seed=seed)) != drawn(town(mobility, seed=seed + 1))


def test_what_a_host_does_depends_on_no_other_host() -> None:
    mobility = {"dwell": EXPONENTIAL}
    alone = way(town(mobility, hosts={"x": "S1"}), "x")
    among = way(town(mobility, hosts={"a": "S2", "b": "S3", "x": "S1", "y": "S1"}), "x")
    sources = [{"dwell": "1s", "hosts": ["a"]}, mobility | {"hosts": ["x"]}]
    apart = way(town(sources, hosts={"a": "S2", "x": "S1"}), "x")
    assert alone == among == apart
    crowd = town(mobility, hosts={"x": "S1", "y": "S1"})
    assert way(crowd, "x") != way(crowd, "y")


# --- neighbours ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@given(stations=st.integers(2, 12), seed=st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_a_host_enters_neighbouring_cells_only(layout: str, stations: int, seed: int) -> None:
    data = town({"dwell": "100ms", "cells": "neighbours"}, stations, hosts={"h": "S1"}, seed=seed, layout=layout)
    beside = neighbours(layout, stations)
    found = ["S1", *(cell for _, cell in way(data, "h"))]
    assert len(found) == 200
    assert all(after in beside[before] for before, after in pairwise(found))


def neighbours(layout: str, stations: int, **more: Any) -> dict[str, set[str]]:
    data = cells(topology={"kind": "cellular", "stations": stations, "hosts": 1, "layout": layout, **more})
    topology = build_topology(load(data).experiment.topology)
    return {topology.name(s): {topology.name(o) for o in others} for s, others in topology.neighbours.items()}


def test_a_line_has_ends_and_a_ring_has_none() -> None:
    assert neighbours("line", 3) == {"S1": {"S2"}, "S2": {"S1", "S3"}, "S3": {"S2"}}
    assert neighbours("ring", 4) == {"S1": {"S4", "S2"}, "S2": {"S1", "S3"}, "S3": {"S2", "S4"}, "S4": {"S3", "S1"}}
    assert neighbours("ring", 2) == neighbours("line", 2) == neighbours("grid", 2) == {"S1": {"S2"}, "S2": {"S1"}}
    assert neighbours("ring", 1) == neighbours("line", 1) == neighbours("grid", 1) == {"S1": set()}


def test_a_grid_has_rows_and_columns() -> None:
    seven = neighbours("grid", 7)  # S1 S2 S3 / S4 S5 S6 / S7
    assert seven["S5"] == {"S2", "S4", "S6"}
    assert seven["S3"] == {"S2", "S6"}
    assert seven["S7"] == {"S4"}


@given(stations=st.integers(1, 60), layout=st.sampled_from(list(LAYOUTS)))
def test_laid_out_cells_are_neighbours_of_each_other_and_all_can_be_reached(stations: int, layout: str) -> None:
    beside = neighbours(layout, stations)
    assert all(name in beside[other] for name, others in beside.items() for other in others)
    reached, fresh = {"S1"}, {"S1"}
    while fresh := {other for name in fresh for other in beside[name]} - reached:
        reached |= fresh
    assert len(reached) == stations


def test_the_layout_follows_the_order_written_not_the_coordinators() -> None:
    assert neighbours("line", 4, kind="three_tier", coordinators=2)["S2"] == {"S1", "S3"}


def test_written_neighbours_hold_in_one_direction_and_a_dead_end_keeps_its_hosts() -> None:
    beside = {"S1": ["S2"], "S2": ["S3"]}
    data = town({"dwell": "1s", "cells": "neighbours"}, stations=3, hosts={"h": "S1"}, neighbours=beside)
    assert way(data, "h") == [(SECOND, "S2"), (2 * SECOND, "S3")]


def test_a_host_that_starts_nowhere_enters_any_cell_first() -> None:
    firsts = set()
    for seed in range(30):
        data = town({"dwell": "1s", "cells": "neighbours"}, 3, hosts={"h": ""}, seed=seed, layout="line")
        firsts.add(way(data, "h")[0][1])
    assert firsts == {"S1", "S2", "S3"}


@pytest.mark.parametrize(
    ("topology", "path"),
    [
        ({"layout": "star"}, "topology.layout"),
        ({"layout": "ring", "neighbours": {"S1": ["S2"]}}, "topology.neighbours"),
        ({"neighbours": {"S9": ["S1"]}}, "topology.neighbours.S9"),
        ({"neighbours": {"S1": ["S9"]}}, "topology.neighbours.S1"),
        ({"neighbours": {"S1": ["h1"]}}, "topology.neighbours.S1"),
        ({"neighbours": {"S1": ["S1"]}}, "topology.neighbours.S1"),
        ({"neighbours": {"S1": ["S2", "S2"]}}, "topology.neighbours.S1"),
        ({"positions": {"S9": [0, 0]}}, "topology.positions.S9"),
        ({"positions": {"h1": [0, 0]}}, "topology.positions.h1"),
        ({"positions": {"S1": [0]}}, "topology.positions"),
    ],
)
def test_impossible_neighbours_are_refused_with_their_key(topology: dict[str, Any], path: str) -> None:
    assert refusal(town(None, stations=3, **topology)).startswith(path)


@pytest.mark.parametrize("key", ["layout", "neighbours"])
def test_only_cells_have_neighbours(key: str) -> None:
    value: Any = "ring" if key == "layout" else {}
    data = cells(protocol={"name": "probe"}, topology={"kind": "broadcast", "members": 2, key: value})
    assert refusal(data) == f"topology.{key}: a broadcast topology has none"


def test_sites_have_no_places() -> None:
    data = cells(protocol={"name": "probe"}, topology={"kind": "sites", "sites": 2, "positions": {}})
    assert refusal(data) == "topology.positions: a sites topology has none"


# --- several sources -------------------------------------------------------------------------------------------------

HOP = {"host": "a", "at": "100ms", "to": "S2"}


def test_sources_move_their_own_hosts_and_are_counted_apart() -> None:
    sources = [
        {"dwell": "300ms", "hosts": ["b"]},
        {"kind": "trace", "moves": [HOP, {"host": "a", "at": "200ms"}, {"host": "a", "at": "400ms", "to": "S1"}]},
    ]
    handoff = {"host": "c", "at": "500ms", "to": "S1"}
    seen = simulated(cells(mobility=sources, faults={"handoffs": [handoff]}))
    assert seen.report.effects == {"mobility[0]": 3, "mobility[1]": 3, "handoffs": 1}
    entered = [(event.peer, event.at // 1_000_000) for event in seen.events("a", Kind.ATTACH)]
    assert entered == [(1, 0), (2, 100), (1, 400)]


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ([{"dwell": "1s"}, {"dwell": "2s", "hosts": ["b"]}], "mobility[1].hosts: 'b' is moved by mobility[0] already"),
        (
            [{"kind": "trace", "moves": [HOP]}, {"dwell": "2s"}],
            "mobility[1].hosts: 'a' is moved by mobility[0] already",
        ),
        ([{"dwell": "1s", "hosts": ["b"]}, {"dwell": "0s", "hosts": ["a"]}], "mobility[1].dwell: "),
        ([{"dwell": "1s", "cells": 3}], "mobility[0].cells: "),
    ],
)
def test_a_host_has_one_source_and_a_mistake_names_the_source(sources: list[Any], said: str) -> None:
    assert refusal(cells(mobility=sources)).startswith(said)


def test_a_place_at_time_0_is_no_move() -> None:
    trace = {"kind": "trace", "moves": [{"host": "a", "at": "0s", "to": "S2"}]}
    seen = simulated(cells(mobility=trace))
    assert [event.peer for event in seen.events("a", Kind.ATTACH)] == [1, 2]
    assert seen.report.effects.get("mobility", 0) == 0


def test_a_move_out_of_coverage_is_to_nobody() -> None:
    (gone,) = drawn(cells(mobility={"kind": "trace", "moves": [{"host": "a", "at": "5ms"}]}))
    assert gone == Move(5_000_000, "mobility", 3, NOBODY)


# --- vacuity ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mobility", "vacuous"),
    [
        ({"dwell": "1h"}, ["mobility"]),
        ({"dwell": "100ms"}, []),
        ([{"dwell": "100ms", "hosts": ["a"]}, {"dwell": "1h", "hosts": ["b"]}], ["mobility[1]"]),
        ({"kind": "trace", "moves": [{"host": "a", "at": "1ms", "to": "S1"}]}, ["mobility"]),
        ({"kind": "trace", "moves": [{"host": "a", "at": "3s", "to": "S2"}]}, ["mobility"]),
    ],
)
def test_mobility_that_moves_nobody_fails_the_run(mobility: Any, vacuous: list[str], tmp_path: Path) -> None:
    outcome = run_experiment(load(cells(mobility=mobility)), registry(), tmp_path / "run")
    assert outcome.summary["vacuous"] == vacuous
    assert outcome.failures == [f"the fault {name!r} was asked for and never took effect" for name in vacuous]
    assert [name for name, count in outcome.summary["faults"].items() if not count] == vacuous


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mobility", "path"),
    [
        ({"kind": "teleport"}, "mobility.kind"),
        ({"dwell": "1s", "hosts": ["a", "a"]}, "mobility.hosts"),
        ({"dwell": "1s", "hosts": []}, "mobility.hosts"),
        ({"dwell": "1s", "cells": "nearby"}, "mobility.cells"),
        ({"dwell": "1s", "cells": "neighbours"}, "mobility.cells"),
        ({"dwell": "1s", "gap_probability": 0.5}, "mobility.gap_probability"),
        ({"dwell": "1s", "gap": "1ms", "gap_probability": 1.5}, "mobility.gap_probability"),
        ({"dwell": "1s", "start_after": "1s"}, "mobility.start_after"),
        ({"dwell": "1s", "start_after": "1s", "until": "1s"}, "mobility.until"),
        ({"dwell": "1s", "file": "a.csv"}, "mobility.file"),
        ({"dwell": "1s", "moves": [HOP]}, "mobility.moves"),
        ({"kind": "trace"}, "mobility.file"),
        ({"kind": "trace", "file": "a.csv"}, "mobility.file"),
        ({"kind": "trace", "moves": [HOP], "dwell": "1s"}, "mobility.dwell"),
        ({"kind": "trace", "moves": [HOP], "cells": "neighbours"}, "mobility.cells"),
        ({"kind": "trace", "moves": [HOP], "file": "a.csv"}, "mobility.file"),
        ({"kind": "trace", "moves": [HOP], "range_m": 5.0}, "mobility.range_m"),
        ({"kind": "trace", "moves": [HOP], "format": "ns2"}, "mobility.format"),
        ({"kind": "trace", "moves": [HOP], "hosts": ["b"]}, "mobility.moves[0].host"),
        ({"kind": "trace", "moves": [HOP | {"host": "S1"}]}, "mobility.moves[0].host"),
        ({"kind": "trace", "moves": [HOP, HOP | {"to": "S9"}]}, "mobility.moves[1].to"),
        ({"kind": "trace", "moves": [HOP | {"to": "b"}]}, "mobility.moves[0].to"),
        ({"kind": "trace", "moves": [HOP | {"speed": 3}]}, "mobility.moves[0].speed"),
    ],
)
def test_impossible_mobility_is_refused_with_its_key(mobility: dict[str, Any], path: str) -> None:
    assert refusal(cells(mobility=mobility)).startswith(f"{path}: ")


def test_one_cell_is_nowhere_to_dwell_but_a_trace_may_leave_it() -> None:
    one = {"kind": "cellular", "stations": 1, "hosts": ["a"]}
    assert refusal(cells(topology=one, mobility={"dwell": "1s"})) == "mobility: there is no second cell to move to"
    trace = {"kind": "trace", "moves": [{"host": "a", "at": "1ms"}]}
    assert len(planned(cells(topology=one, mobility=trace)).schedule.happenings) == 1


@pytest.mark.parametrize(
    ("mobility", "key"),
    [
        ([{"dwell": "1s", "gap": "1ms"}], "mobility[0].gap"),
        ({"kind": "trace", "moves": [HOP, {"host": "a", "at": "1s"}]}, "mobility.moves"),
    ],
)
def test_a_gap_is_refused_where_the_protocol_needs_coverage(mobility: Any, key: str) -> None:
    data = cells(protocol={"name": "cells", "variant": "needs-no_absence"}, mobility=mobility)
    assert refusal(data).startswith(f"{key}: cells (needs-no_absence) needs ")


def test_mobility_without_a_gap_leaves_coverage_alone() -> None:
    for mobility in ({"dwell": "1s", "gap": "1ms", "gap_probability": 0.0}, {"kind": "trace", "moves": [HOP]}):
        assert planned(cells(protocol={"name": "cells", "variant": "needs-no_absence"}, mobility=mobility))


def test_a_host_that_would_never_stop_moving_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mobility_module, "MOVES_OF_A_HOST_MAX", 100)
    assert refusal(cells(mobility={"dwell": "1ms"})).startswith("mobility.dwell: is so short ")
    assert planned(cells(mobility={"dwell": "10ms"}))
