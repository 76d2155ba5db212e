"""Traces become moves: our own lists as they are written, ns-2's at the times at which cells change."""

from __future__ import annotations

from math import dist, sqrt
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from testbed_support import cells, registry

from castbed.errors import ConfigurationError
from castbed.units import Duration, show_duration
from castbed_testbed import traces
from castbed_testbed.experiment import Loaded, load_file
from castbed_testbed.mobility import moves
from castbed_testbed.networks import build_topology
from castbed_testbed.runner import EXPERIMENT, run_experiment
from castbed_testbed.traces import Cells, read_trace

SECOND = 1_000_000_000
WALK = "time_s,host,station\n0.1,a,S2\n0.25,b,\n0.5,a,S1\n"
NS2 = '$node_(0) set X_ 0.0\n$node_(0) set Y_ 0.0\n$ns_ at 1.0 "$node_(0) setdest 100.0 0.0 10.0"\n'
APART = {"S1": (0.0, 0.0), "S2": (100.0, 0.0)}
Place = tuple[float, float]


def read(folder: Path, text: str, form: str = "csv", range_m: float | None = None, **more: Any) -> list[Any]:
    """The trace as (seconds, host, station)."""
    (folder / "trace").write_text(text, encoding="utf-8")
    network = Cells(**{"hosts": ["a", "b", "c"], "stations": ["S1", "S2"], "range_m": range_m, **more})
    return [(m.at / SECOND, m.host, m.to) for m in read_trace(folder / "trace", form, network, "mobility")]


def ns2(folder: Path, text: str, range_m: float = 80.0, positions: dict[str, Place] = APART) -> list[Any]:
    return read(folder, text, "ns2", range_m, positions=positions)


def complaint(folder: Path, text: str, form: str = "csv", **more: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        read(folder, text, form, **more)
    return str(raised.value).replace(str(folder / "trace"), "FILE")


# --- csv -------------------------------------------------------------------------------------------------------------


def test_lines_are_moves_and_an_empty_station_is_no_coverage(tmp_path: Path) -> None:
    assert read(tmp_path, WALK) == [(0.1, "a", "S2"), (0.25, "b", ""), (0.5, "a", "S1")]


def test_lines_may_come_in_any_order_with_blanks_and_quotes(tmp_path: Path) -> None:
    text = 'time_s, host, station\r\n2,"b",S1\r\n\r\n 1 , a , S2 \r\n'
    assert read(tmp_path, text) == [(1, "a", "S2"), (2, "b", "S1")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: expected the header time_s,host,station"),
        ("0.1,a,S2\n", "line 1: expected the header time_s,host,station"),
        ("time_s,host,station\n", "which says nothing about anybody"),
        (WALK + "1,a\n", "line 5: expected time_s,host,station, got 2 of 3"),
        (WALK + "1,a,S1,S2\n", "line 5: expected time_s,host,station, got 4 of 3"),
        (WALK + "\nsoon,a,S1\n", "line 6: 'soon' is no time in seconds"),
        (WALK + "-1,a,S1\n", "line 5: '-1' is no time in seconds"),
        (WALK + "1m,a,S1\n", "line 5: '1m' is no time in seconds"),
        (WALK + "1234567890,a,S1\n", "line 5: '1234567890' is no time in seconds"),
        (WALK + "1,Z,S1\n", "line 5: there is no host 'Z' to move"),
        (WALK + "1,S1,S2\n", "line 5: there is no host 'S1' to move"),
        (WALK + "1,a,S9\n", "line 5: there is no station 'S9'"),
        (WALK + "0.10,a,S1\n", "line 5: 'a' has a place at this time already"),
        (WALK + '1,a,"S1\n', "line 5: unexpected end of data"),
    ],
)
def test_a_mistake_in_a_list_is_shown_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    assert complaint(tmp_path, text) == f"mobility.file: FILE, {said}"


times = st.integers(0, 10**15)
steps = st.tuples(times, st.sampled_from("abc"), st.sampled_from(["S1", "S2", ""]))


@given(st.lists(steps, min_size=1, unique_by=lambda step: step[:2]))
@settings(max_examples=50)
def test_what_was_written_as_a_list_is_read_again(tmp_path_factory: pytest.TempPathFactory, written: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    lines = [f"{at // SECOND}.{at % SECOND:09d},{host},{station}" for at, host, station in written]
    (folder / "list").write_text("\n".join(["time_s,host,station", *lines]), encoding="utf-8")
    found = read_trace(folder / "list", "csv", Cells("abc", ["S1", "S2"]), "mobility")
    assert [move.at for move in found] == sorted(at for at, _, _ in written)
    assert {(move.at, move.host, move.to) for move in found} == set(written)


# --- ns-2 ------------------------------------------------------------------------------------------------------------


def test_the_cell_changes_half_way_between_two_stations(tmp_path: Path) -> None:
    assert ns2(tmp_path, NS2) == [(0, "a", "S1"), (6, "a", "S2")]


def test_out_of_range_there_is_no_cell(tmp_path: Path) -> None:
    assert ns2(tmp_path, NS2, range_m=30) == [(0, "a", "S1"), (4, "a", ""), (8, "a", "S2")]


def test_a_range_that_just_meets_leaves_no_gap(tmp_path: Path) -> None:
    assert ns2(tmp_path, NS2, range_m=50) == [(0, "a", "S1"), (6, "a", "S2")]


def test_a_host_that_passes_by_is_in_the_cell_for_a_chord(tmp_path: Path) -> None:
    text = NS2.replace("X_ 0.0", "X_ -100").replace("Y_ 0.0", "Y_ 30").replace("100.0 0.0 10.0", "100 30 5")
    passing = ns2(tmp_path, text, 50, {"S1": (0.0, 0.0)})
    assert passing == [(0, "a", ""), (1 + 60 / 5, "a", "S1"), (1 + 140 / 5, "a", "")]
    assert ns2(tmp_path, text, 29, {"S1": (0.0, 0.0)}) == [(0, "a", "")]


def test_a_slanting_way_crosses_where_it_should(tmp_path: Path) -> None:
    text = NS2.replace("100.0 0.0 10.0", "100 100 2")
    (_, crossing) = ns2(tmp_path, text, 500)
    assert crossing == (pytest.approx(1 + 50 * sqrt(2) / 2, abs=1e-9), "a", "S2")


def test_a_new_order_takes_the_place_of_one_on_its_way(tmp_path: Path) -> None:
    back = NS2 + '$ns_ at 8 "$node_(0) setdest 0 0 20"\n'
    assert ns2(tmp_path, back) == [(0, "a", "S1"), (6, "a", "S2"), (9, "a", "S1")]
    stop = NS2 + '$ns_ at 3 "$node_(0) setdest 0 0 0"\n'
    assert ns2(tmp_path, stop) == [(0, "a", "S1")]


def test_a_host_that_has_arrived_waits_there(tmp_path: Path) -> None:
    assert ns2(tmp_path, NS2 + '$ns_ at 50 "$node_(0) setdest 0 0 50"\n')[-1] == (51, "a", "S1")


def test_a_host_that_stops_at_the_edge_of_a_cell_is_in_it(tmp_path: Path) -> None:
    text = NS2.replace("100.0 0.0", "30 0") + '$ns_ at 9 "$node_(0) setdest 30 0 1"\n'
    assert ns2(tmp_path, text, range_m=30) == [(0, "a", "S1")]


def test_nodes_are_the_hosts_in_their_order_and_notes_of_ns2_are_skipped(tmp_path: Path) -> None:
    text = (
        "# nodes: 3, pause: 2.00\n$god_ set-dist 0 1 2\n\n"
        "$node_(2) set X_ 90.0\n$node_(2) set Y_ 1e0\n$node_(2) set Z_ 0.0\n"
        '$ns_ at 2.5 "$god_ set-dist 0 1 1"\n' + NS2
    )
    assert ns2(tmp_path, text) == [(0, "a", "S1"), (0, "c", "S2"), (6, "a", "S2")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "which says nothing about anybody"),
        (NS2 + "puts hello\n", "line 4: is neither a place ($node_(0) set X_ 1.0) nor a setdest at a time"),
        (NS2 + '$ns_ at 2 "$node_(0) set X_ 3.0"\n', "line 4: is neither a place"),
        (NS2 + "$node_(3) set X_ 1\n", "line 4: there is no host for node 3, which would be number 4 of 3"),
        (NS2 + '$ns_ at 2 "$node_(1) setdest 1 1 1"\n', "line 4: node 1 has no place to start from, X_ and Y_"),
        (NS2 + "$node_(1) set Y_ 1\n", "node 1 has no place to start from, X_ and Y_"),
        (NS2 + "$node_(1) set Y_ 1e300\n", "line 4: 1e300 is not from -1e+09 to 1e+09"),
        (NS2 + '$ns_ at 2 "$node_(0) setdest 1 1 -1"\n', "line 4: -1 is not from 0 to 1e+09"),
        (NS2 + '$ns_ at -2 "$node_(0) setdest 1 1 1"\n', "line 4: -2 is not from 0 to 1e+09"),
    ],
)
def test_a_mistake_in_a_movement_file_is_shown_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    assert complaint(tmp_path, text, "ns2", range_m=5.0, positions=APART).startswith(f"mobility.file: FILE, {said}")


coordinates = st.integers(-200, 200).map(float)
places = st.tuples(coordinates, coordinates)
orders = st.lists(st.tuples(st.integers(0, 60), places, st.sampled_from([0.0, 0.5, 3.0, 40.0])), max_size=5)


@given(start=places, orders=orders, stations=st.lists(places, min_size=1, max_size=6), data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_host_is_always_with_the_nearest_station_in_range(
    tmp_path_factory: pytest.TempPathFactory, start: Place, orders: Any, stations: list[Place], data: st.DataObject
) -> None:
    """Compared at random times with a host that is stepped from order to order."""
    orders = sorted(orders, key=lambda order: order[0])
    lines = [f"$node_(0) set X_ {start[0]}", f"$node_(0) set Y_ {start[1]}"]
    lines += [f'$ns_ at {at} "$node_(0) setdest {to[0]} {to[1]} {speed}"' for at, to, speed in orders]
    positions = {f"S{at}": place for at, place in enumerate(stations)}
    found = ns2(tmp_path_factory.getbasetemp(), "\n".join(lines), 90.0, positions)
    at = data.draw(st.floats(0, 100))
    here = stepped(start, orders, at)
    away = sorted((dist(here, place), name) for name, place in positions.items())
    assume(abs(away[0][0] - 90) > 1e-6 and all(further - away[0][0] > 1e-6 for further, _ in away[1:]))
    expected = away[0][1] if away[0][0] < 90 else ""
    assume(all(abs(change - at) > 1e-6 for change, _, _ in found))
    assert [cell for change, _, cell in found if change <= at][-1] == expected


def stepped(here: Place, orders: Any, now: float) -> Place:
    for (at, to, speed), end in zip(orders, [*(order[0] for order in orders), now][1:], strict=True):
        seconds, way = min(end, now) - at, dist(here, to)
        if seconds > 0 and way > 0:
            share = min(1.0, speed * seconds / way)
            here = (here[0] + (to[0] - here[0]) * share, here[1] + (to[1] - here[1]) * share)
    return here


# --- files and keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "more", "path"),
    [
        ("xml", {}, "mobility.format"),
        ("csv", {"range_m": 5.0}, "mobility.range_m"),
        ("ns2", {"positions": APART}, "mobility.range_m"),
        ("ns2", {"positions": APART, "range_m": 0.0}, "mobility.range_m"),
        ("ns2", {"positions": APART, "range_m": float("nan")}, "mobility.range_m"),
        ("ns2", {"range_m": 5.0}, "topology.positions"),
        ("ns2", {"range_m": 5.0, "positions": {"S1": (float("inf"), 0.0)}}, "topology.positions.S1"),
    ],
)
def test_keys_that_do_not_fit_the_format_are_refused(tmp_path: Path, form: str, more: Any, path: str) -> None:
    assert complaint(tmp_path, WALK, form, **more).startswith(f"{path}: ")


def test_a_trace_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "TRACE_MOVES_MAX", 2)
    assert complaint(tmp_path, WALK) == "mobility.file: FILE, which says more than 2 moves"
    monkeypatch.setattr(traces, "TRACE_BYTES_MAX", len(WALK) - 1)
    assert complaint(tmp_path, WALK) == f"mobility.file: FILE, which is longer than {len(WALK) - 1} bytes"


def loaded(folder: Path, mobility: Any, trace: str | bytes | None = WALK, **topology: Any) -> Loaded:
    if trace is not None:
        (folder / "walk").write_bytes(trace.encode() if isinstance(trace, str) else trace)
    data = cells(mobility=mobility)
    (folder / "e.toml").write_text(tomli_w.dumps(data | {"topology": data["topology"] | topology}), encoding="utf-8")
    return load_file(folder / "e.toml")


TRACE = {"kind": "trace", "file": "walk"}


@pytest.mark.parametrize(("trace", "said"), [(None, "cannot be read"), (b"\xff\xfe", "is not text in UTF-8")])
def test_a_file_that_cannot_be_read_is_named_with_the_key(tmp_path: Path, trace: bytes | None, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        loaded(tmp_path, [TRACE], trace)
    assert str(raised.value).startswith(f"mobility[0].file: {tmp_path / 'walk'} {said}")


def test_a_file_and_moves_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^mobility\.moves: a trace has either"):
        loaded(tmp_path, TRACE | {"moves": []})


def test_a_host_that_is_left_to_another_source_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"line 3: there is no host 'b' to move"):
        loaded(tmp_path, [TRACE | {"hosts": ["a"]}, {"dwell": "1s", "hosts": ["b"]}])


def test_a_run_keeps_the_moves_and_runs_again_without_the_file(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, [TRACE, {"dwell": "300ms", "hosts": ["c"]}])
    assert experiment.data["mobility"][0].keys() == {"kind", "moves"}
    first = run_experiment(experiment, registry(), tmp_path / "run")
    assert first.failures == []
    assert first.summary["faults"] == {"mobility[0]": 3, "mobility[1]": 3}
    (tmp_path / "walk").unlink()
    again = load_file(tmp_path / "run" / EXPERIMENT)
    assert again.experiment == experiment.experiment
    run_experiment(again, registry(), tmp_path / "again")
    for capture in (tmp_path / "run" / "captures").iterdir():
        assert capture.read_bytes() == (tmp_path / "again" / "captures" / capture.name).read_bytes()


def test_a_movement_file_in_an_experiment_moves_its_hosts_in_their_order(tmp_path: Path) -> None:
    trace = TRACE | {"format": "ns2", "range_m": 30, "hosts": ["c", "a"]}
    experiment = loaded(tmp_path, trace, NS2, positions={"S2": [0, 0], "S1": [100.0, 0]}).experiment
    found = [(m.at, m.counted, m.host, m.station) for m in moves(experiment, build_topology(experiment.topology))]
    assert found == [(0, "", 5, 2), (4 * SECOND, "mobility", 5, 0), (8 * SECOND, "mobility", 5, 1)]


@given(times)
def test_times_survive_being_written(at: int) -> None:
    assert Duration.parse(show_duration(at)) == at
