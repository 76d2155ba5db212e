"""The properties E1 to E14 of the paper, each with a run that shows it; where one breaks, see the counterexamples."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from eomp_bench import HOME, SECOND, G, Net

from castbed import load_registry
from castbed_plugins.eomp import Join, Leave
from castbed_plugins.eomp.host import T_NACK, T_REQ
from castbed_testbed.conformance import Trial, run_trial
from castbed_testbed.experiment import load

SEEDS = range(1, 4)
STATIONS = ("S1", "S2", "S3", "S4")
SITUATIONS: Mapping[str, Mapping[str, Any]] = {
    "calm": {},
    "mobility": {"dwell": "1s"},
    "oscillation": {"dwell": "50ms"},
    "coverage holes": {"dwell": "1s", "gap": "300ms"},
    "loss": {"loss": 0.1},
    "heavy loss and mobility": {"dwell": "1s", "gap": "200ms", "loss": 0.3},
    "station crashes": {"crashes": True},
    "all of it": {"dwell": "500ms", "gap": "50ms", "loss": 0.1, "crashes": True},
}


def experiment(
    seed: int, dwell: str = "", gap: str = "0ns", loss: float = 0.0, crashes: bool = False, wire: Any = "500us"
) -> dict[str, Any]:
    """Six hosts in four cells of two regions; the drain is long, for a host catches up by one message per second."""
    data: dict[str, Any] = {
        "name": "eomp-claims",
        "protocol": {"name": "eomp", "variant": "published"},
        "transport": {"name": "sim", "options": {"decode": True}},
        "seed": seed,
        "duration": "8s",
        "drain": "120s",
        "topology": {
            "kind": "three_tier",
            "coordinators": {"C1": ["S1", "S2"], "C2": ["S3", "S4"]},
            "hosts": 6,
            "air": {"rate": "10Mbit/s"},
            "wire": {"delay": wire},
        },
        "workload": {"kind": "steady", "rate": 5, "replies": 0.2},
        "faults": {"loss": loss, **(station_crashes(seed) if crashes else {})},
    }
    if dwell:
        data["mobility"] = {"dwell": {"kind": "exponential", "mean": dwell}, "gap": gap}
    return data


def station_crashes(seed: int) -> dict[str, Any]:
    """Each station but one is down once; the replacement comes after up to 1.5 s."""
    random = Random(f"crashes/{seed}")
    at = {station: random.randint(500, 6000) for station in STATIONS[:3]}
    return {
        "crashes": [{"node": station, "at": f"{when}ms"} for station, when in at.items()],
        "restarts": [{"node": station, "at": f"{when + random.randint(10, 1500)}ms"} for station, when in at.items()],
    }


def trial(seed: int, **situation: Any) -> Trial:
    return run_trial(load_registry(), load(experiment(seed, **situation)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_all_claims_hold_where_wires_are_quicker_than_the_request_timeout(situation: str, seed: int) -> None:
    """E1 to E4, E8, E9, E14."""
    done = trial(seed, **SITUATIONS[situation])
    assert done.failure == "", f"{situation}, seed {seed}"
    assert sum(len(lane) for lane in done.history.deliveries.values()) > 1000


@pytest.mark.parametrize("seed", SEEDS)
def test_slow_wires_and_mobility_bring_duplicates(seed: int) -> None:
    """Not E2, not E7: 30 ms on each wire, FIFO and reliable as assumed; see the first counterexample."""
    done = trial(seed, dwell="500ms", wire="30ms")
    assert done.failed == ["no_duplication", "exactly_once"]


def test_unequal_wires_and_mobility_lose_messages() -> None:
    """Not E1: see the second counterexample."""
    wire = {"kind": "exponential", "mean": "30ms"}
    failed = [trial(seed, dwell="200ms", wire=wire).failed for seed in range(1, 9)]
    assert any({"validity", "liveness"} <= set(names) for names in failed)


def test_numbers_are_delivered_without_gaps_whatever_the_order_of_arrival() -> None:
    """E4: all orders of four numbers give the same deliveries."""
    for seed in range(20):
        net = Net().after(1)
        for number in range(2, 6):
            net.submit("c", f"m{number}".encode())
            net.settle_but("M1~>a MCASTDEL")
        copies = net.copies(to="a")
        Random(seed).shuffle(copies)
        for copy in copies:
            net.arrive(copy)
        assert net.payloads("a") == "m1 m2 m3 m4 m5"
        net.settle()
        assert net.broken() == {}


def test_without_loss_and_movement_each_message_is_one_copy_per_radio() -> None:
    """E5, E6; with them, see the counterexamples."""
    net = Net().after(20)
    net.run(5 * SECOND)
    assert net.radio_duplicates() == []
    assert net.count("RETRANS") == 0
    assert net.count("~>a MCASTDEL") == 20


def test_a_request_repeated_many_times_is_numbered_once() -> None:
    """E7."""
    net = Net()
    net.submit("a", b"x")
    for _ in range(5):
        net.settle_but("M1~>a MCASTACK")
        net.expire("a", T_REQ)
    net.settle()
    assert net.count("MCASTSEQ") == 1
    assert net.payloads("b") == "x"


def test_requests_go_out_one_at_a_time_in_their_order() -> None:
    """MH-1: stop and wait."""
    net = Net()
    for payload in (b"x", b"y", b"z"):
        net.submit("a", payload)
    assert net.lines() == ["a~>M1 MCASTREQ(x,G,{G:0},0)"]
    net.settle()
    assert net.payloads("c") == "x y z"


def test_a_request_out_of_range_waits_for_a_cell() -> None:
    """MH-1, MH-13, E9."""
    net = Net()
    net.move("a", None)
    net.submit("a", b"x")
    net.run(10 * SECOND)
    assert net.payloads("b") == ""
    net.move("a", "M3")
    net.run(SECOND)
    assert [net.payloads(host) for host in "abc"] == ["x"] * 3
    assert net.broken() == {}


def test_a_host_catches_up_after_an_absence_by_one_message_per_report() -> None:
    """E9, R6: GREET brings one, the NACK at GREETACK one, and then one per T_NACK."""
    net = Net()
    net.move("a", None)
    net.after(10)
    net.move("a", "M2")
    net.settle()
    assert net.payloads("a") == "m1 m2"
    net.expire("a", T_NACK)
    net.settle()
    assert net.payloads("a") == "m1 m2 m3"
    net.run(8 * SECOND)
    assert net.last() == [10, 10, 10]
    assert net.broken() == {}


@pytest.mark.parametrize(("target", "cost"), [("M2", 3), ("M3", 3), ("M1", 2)])
def test_a_change_of_cells_costs_greet_greetack_and_one_cancel(target: str, cost: int) -> None:
    """E10, R13: none for the cell it was registered in."""
    net = Net().after(3)
    net.heard.clear()
    net.move("a", target)
    net.settle()
    wired = [line for line in net.heard if "~" not in line]
    assert len(wired) == cost
    assert net.count("CANCEL") == cost - 2


def test_joiners_and_leavers_get_what_is_sent_in_between() -> None:
    """E11."""
    net = Net({**HOME, "d": "M3"}).after(2)
    net.ask("d", Join("1"))
    net.settle()
    net.submit("a", b"in")
    net.settle()
    net.ask("d", Leave("1"))
    net.settle()
    net.submit("a", b"after")
    net.settle()
    assert net.payloads("d") == "in"
    assert net.payloads("c") == "m1 m2 in after"
    assert net.broken() == {}


def test_asking_for_what_is_so_changes_nothing() -> None:
    """MH-10."""
    net = Net({**HOME, "d": "M3"})
    net.ask("a", Join("1"))
    net.ask("d", Leave("1"))
    assert net.lines() == []


def test_buffers_are_empty_within_two_rounds_of_reports() -> None:
    """E12: every host reports within T_NACK, every coordinator tells the others within T_SYNC."""
    net = Net().after(5)
    net.run(2 * SECOND)
    assert net.buffered("C1") == net.buffered("C2") == []


def test_a_message_costs_the_same_on_the_wires_however_many_hosts_there_are() -> None:
    """E13, as far as it goes: headers and wired packets of one multicast."""
    assert cost_of_a_message(Net()) == cost_of_a_message(Net(many_hosts(), members="".join(many_hosts())))


def test_a_station_keeps_flags_for_every_host_that_ever_came() -> None:
    """MSS-1, MSS-6 against E13: the flags are cleared, never forgotten; SYNCACK lists hosts, too."""
    net = Net(many_hosts(), members="".join(many_hosts()))
    for host in many_hosts():
        net.move(host, "M3")
        net.settle()
        net.move(host, "M1")
        net.settle()
    assert len(net.machines["M3"].retrans_needed) == len(many_hosts())


def many_hosts() -> dict[str, str]:
    return {chr(ord("a") + at): f"M{at % 3 + 1}" for at in range(26)}


def cost_of_a_message(net: Net) -> list[tuple[str, int]]:
    """The wired packets of one multicast, with the size of their control information."""
    wired: list[tuple[str, int]] = []
    net.submit("a", b"x")
    while net.in_flight:
        copy = net.in_flight[0]
        if not net.radio(copy):
            wired.append((net.line(copy), len(net.codec.encode(copy.packet, net.number(copy.sender)))))
        net.arrive(copy)
    return sorted((line.split("(")[0], size) for line, size in wired)


def test_only_members_deliver_and_anybody_may_send() -> None:
    """E14, R15."""
    net = Net(members="bc")
    net.submit("a", b"x")
    net.settle()
    assert [net.payloads(host) for host in "abc"] == ["", "x", "x"]
    assert net.machines["M1"].seq_sent == {G: 1}
    assert net.count("M1~>a MCASTDEL") == 0  # M1 serves no group: nobody of its cell belongs to one (R11)
    assert net.broken() == {}
