"""The contract carries cellular networks: roles, cells, wires and hosts that move, shown with a small protocol."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castbed import ContractError, Kind, PeerError, Topology, load_registry, topology
from castbed.events import Received, Submitted
from castbed.testing import Bench
from castbed.values import Message
from cellular_relay import PROTOCOL, Across, Down, Greet, Host, Station, Up

STATIONS = ("S1", "S2", "S3")
HOSTS = {"a": "S1", "b": "S1", "c": "S2"}


def quiet_bench(hosts: dict[str, str] | None = None) -> Bench:
    """Three stations, with the greetings of the start behind them."""
    bench = Bench(PROTOCOL, topology.cellular(STATIONS, hosts or HOSTS))
    bench.settle()
    return bench


# --- roles and cells -------------------------------------------------------------------------------------------------


def test_each_role_runs_its_machine() -> None:
    bench = quiet_bench()
    assert {type(bench.machines[name]) for name in STATIONS} == {Station}
    assert {type(bench.machines[name]) for name in HOSTS} == {Host}


def test_a_host_greets_the_station_it_starts_at() -> None:
    bench = Bench(PROTOCOL, topology.cellular(STATIONS, HOSTS))
    assert [(copy.sender, copy.to) for copy in bench.copies(Greet)] == [("a", "S1"), ("b", "S1"), ("c", "S2")]


def test_a_message_goes_up_across_and_down() -> None:
    bench = quiet_bench()
    bench.submit("a", b"hello")
    assert [(copy.sender, copy.to) for copy in bench.copies(Up)] == [("a", "S1")]
    bench.arrive_all()
    assert [copy.to for copy in bench.copies(Across)] == ["S2", "S3"]
    assert [copy.to for copy in bench.copies(Down)] == ["a", "b"]
    bench.arrive_all()
    assert [copy.to for copy in bench.copies(Down)] == ["c"]
    bench.settle()
    assert all(bench.delivered(host) == ["a1"] for host in HOSTS)


def test_an_empty_cell_hears_nothing() -> None:
    bench = quiet_bench()
    bench.submit("a")
    bench.settle(lambda copy: copy.to != "c")
    assert bench.copies(sender="S3") == []


def test_a_station_takes_no_messages_from_applications() -> None:
    bench = quiet_bench()
    with pytest.raises(ContractError, match="Station takes no messages"):
        bench.machines["S1"].step(Submitted(Message()), 0)


def test_a_packet_for_the_other_role_is_blamed_on_the_peer() -> None:
    bench = quiet_bench()
    with pytest.raises(PeerError, match="Host has no handler for Greet"):
        bench.machines["a"].step(Received(Greet(()), 2), 0)


# --- moving ----------------------------------------------------------------------------------------------------------


def test_a_host_that_moved_gets_what_it_missed() -> None:
    bench = quiet_bench()
    bench.move("b", None)
    bench.submit("a")
    bench.submit("c")
    bench.settle()
    assert bench.delivered("b") == []
    bench.move("b", "S3")
    bench.settle()
    assert sorted(bench.delivered("b")) == ["a1", "c1"]


def test_a_host_gets_nothing_twice_when_it_returns() -> None:
    bench = quiet_bench()
    bench.submit("a")
    bench.settle()
    bench.move("b", "S2")
    bench.arrive_all()
    assert bench.copies(Down, to="b") == []
    bench.settle()
    assert bench.delivered("b") == ["a1"]


def test_what_was_submitted_out_of_coverage_goes_up_on_arrival() -> None:
    bench = quiet_bench()
    bench.move("a", None)
    bench.submit("a")
    assert bench.in_flight == []
    bench.move("a", "S2")
    bench.settle()
    assert all(bench.delivered(host) == ["a1"] for host in HOSTS)


def test_a_message_that_two_stations_heard_is_relayed_once() -> None:
    bench = quiet_bench()
    bench.submit("a")
    bench.arrive_all(lambda copy: copy.to == "S1")
    bench.move("a", "S2")
    bench.settle(lambda copy: isinstance(copy.packet, Greet | Up))
    bench.settle()
    assert all(bench.delivered(host) == ["a1"] for host in HOSTS)


def test_the_history_shows_the_moves() -> None:
    bench = quiet_bench()
    bench.move("a", "S3")
    moves = bench.history().of(Kind.ATTACH, Kind.DETACH)
    assert [(event.kind, event.peer) for event in moves] == [(Kind.DETACH, 0), (Kind.ATTACH, 3)]


def test_a_host_that_starts_nowhere_is_heard_once_it_is_somewhere() -> None:
    bench = quiet_bench({"a": "S1", "b": ""})
    bench.submit("b")
    bench.submit("a")
    bench.settle()
    assert (bench.delivered("a"), bench.delivered("b")) == (["a1"], [])
    bench.move("b", "S2")
    bench.settle()
    assert sorted(bench.delivered("a")) == sorted(bench.delivered("b")) == ["a1", "b1"]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_wherever_hosts_move_all_get_everything_in_the_order_of_each_writer(data: Any) -> None:
    bench = quiet_bench()
    for _ in range(data.draw(st.integers(1, 40), label="steps")):
        _do_anything(bench, data)
    for host in HOSTS:
        _move(bench, host, "S1")
    bench.settle()
    written = {bench.text(event.mid) for event in bench.history().of(Kind.SUBMIT)}
    for host in HOSTS:
        assert sorted(bench.delivered(host)) == sorted(written)
    assert _broken_promises(bench) == []


def _do_anything(bench: Bench, data: Any) -> None:
    """One submission, one move or one arrival, whichever hypothesis likes."""
    host = data.draw(st.sampled_from(sorted(HOSTS)))
    what = data.draw(st.sampled_from(("submit", "move", "arrive", "arrive")))
    if what == "submit":
        bench.submit(host)
    elif what == "move":
        _move(bench, host, data.draw(st.sampled_from((None, *STATIONS))))
    elif bench.in_flight:
        bench.arrive(data.draw(st.sampled_from(bench.in_flight)))


def _move(bench: Bench, host: str, station: str | None) -> None:
    """Move as on a real air: what is on its way between the host and its old cell is lost."""
    bench.lose(lambda copy: host in (copy.sender, copy.to))
    bench.move(host, station)


def _broken_promises(bench: Bench) -> list[str]:
    checks = load_registry(installed=False).checks
    history = bench.history()
    return [name for name in history.identity.guarantees if checks.get(name, "guarantee").violations(history)]


# --- the shapes of networks -------------------------------------------------------------------------------------------


def test_a_cellular_network_has_wired_stations_and_hosts_in_cells() -> None:
    shape = topology.cellular(("S1", "S2"), {"a": "S2", "b": ""})
    assert shape.numbers("station") == (1, 2)
    assert shape.numbers("host") == (3, 4)
    assert shape.attached == {3: 2}
    assert shape.groups == {1: (3, 4)}
    assert shape.wired(1, 2)
    assert not shape.wired(1, 3)


def test_a_three_tier_network_has_coordinators_over_stations_and_one_sequencer() -> None:
    shape = topology.three_tier({"C1": ("S1", "S2"), "C2": ("S3",)}, {"a": "S3"}, "Q")
    assert [node.name for node in shape.nodes] == ["Q", "C1", "C2", "S1", "S2", "S3", "a"]
    assert shape.numbers("sequencer") == (1,)
    assert shape.children(2) == (4, 5)
    assert shape.children(3) == (6,)
    assert shape.attached == {7: 6}
    assert shape.groups == {1: (7,)}
    assert all(shape.wired(1, other) for other in range(2, 7))
    assert not shape.wired(1, 7)


def test_sites_are_all_wired_and_all_members() -> None:
    shape = topology.sites(("x", "y", "z"))
    assert shape.groups == {1: (1, 2, 3)}
    assert all(shape.wired(one, other) for one in (1, 2, 3) for other in (1, 2, 3))
    assert {shape.role(number) for number in shape.numbers()} == {"site"}


def test_members_of_a_broadcast_network_have_no_wires() -> None:
    shape = topology.broadcast(("A", "B"), {1: (1,), 2: (1, 2)})
    assert shape.groups == {1: (1,), 2: (1, 2)}
    assert not shape.wired(1, 2)


@pytest.mark.parametrize(
    ("make", "twice"),
    [
        pytest.param(lambda: topology.broadcast(("A", "A")), "A", id="broadcast"),
        pytest.param(lambda: topology.cellular(("S",), {"S": "S"}), "S", id="cellular"),
        pytest.param(lambda: topology.three_tier({"C": ("S",)}, {"a": "S"}, "C"), "C", id="three_tier"),
    ],
)
def test_two_nodes_of_one_name_are_refused(make: Any, twice: str) -> None:
    with pytest.raises(ValueError, match=f"two nodes are called '{twice}'"):
        make()


def test_nodes_are_found_by_name_and_strangers_shown_by_number() -> None:
    shape: Topology = topology.sites(("x", "y"))
    assert shape.number("y") == 2
    assert (shape.name(2), shape.name(17), shape.name(0)) == ("y", "#17", "#0")
    with pytest.raises(KeyError):
        shape.number("z")
