"""Single steps of EOMP's machines that no vector of the spec shows, and what the machines make of nonsense."""

from __future__ import annotations

import msgspec
import pytest
from eomp_bench import HOME, SECOND, G, Net
from test_eomp_claims import experiment

from castbed import ConfigurationError, ContractError, Kind, Mid, Packet, PeerError, Received, load_registry
from castbed.units import convert
from castbed_plugins.eomp import Join, Options
from castbed_plugins.eomp.host import T_GREET, T_NACK, T_REQ
from castbed_plugins.eomp.packets import (
    Cancel,
    Delete,
    Greet,
    GreetAck,
    GreetAckFor,
    GreetFrom,
    Insert,
    JoinAckFor,
    JoinFrom,
    LeaveAckFor,
    LeaveFrom,
    McastAck,
    McastAckFor,
    McastDel,
    McastReqFrom,
    NackFrom,
    RetransFor,
    SyncAck,
    SyncSeq,
)
from castbed_testbed.conformance import run_trial
from castbed_testbed.disturbance import disturbed, state_of
from castbed_testbed.elsewhere import fingerprint, fingerprint_elsewhere
from castbed_testbed.experiment import load


def show(net: Net, node: str, packet: object, sender: str) -> None:
    net.step(node, Received(packet, net.number(sender)))


def test_an_acknowledgement_of_the_other_bit_is_ignored() -> None:
    """MH-3."""
    net = Net()
    net.submit("a", b"x")
    show(net, "a", McastAck(G, 1), "M1")
    assert net.machines["a"].outstanding is not None
    show(net, "a", McastAck(G, 0), "M1")
    show(net, "a", McastAck(G, 1), "M1")
    assert (net.machines["a"].outstanding, net.machines["a"].tx_seq) == (None, 1)


def test_a_greetack_of_a_cell_that_was_left_is_ignored() -> None:
    """MH-6."""
    net = Net()
    net.move("a", "M2")
    net.move("a", "M3")
    show(net, "a", GreetAck((), net.number("C1")), "M2")
    assert net.machines["a"].greeting == net.number("M3")
    assert net.machines["a"].my_mss == net.number("M1")


def test_a_greet_is_not_repeated_out_of_range() -> None:
    """MH-5, MH-13."""
    net = Net()
    net.move("a", "M2")
    net.move("a", None)
    net.lose()
    net.expire("a", T_GREET)
    net.expire("a", T_NACK)
    assert net.lines() == []
    assert ("a", T_NACK) in net.timers


def test_a_host_may_listen_before_it_is_registered() -> None:
    """R9, the other reading: no second copy is needed."""
    net = Net(options=Options(listen_before_greetack=True)).after(1)
    net.move("a", "M3")
    net.settle_but("M3~>a GREETACK")
    net.submit("c", b"m2")
    net.settle_but("M3~>a GREETACK")
    assert net.payloads("a") == "m1 m2"
    net.settle()
    assert net.count("RETRANS") == 0


def test_the_lowest_group_is_repaired_first_and_one_report_repairs_one() -> None:
    """C-R, R6."""
    net = Net(groups={1: "abc", 2: "abc"})
    for group in (2, 1):
        net.submit("c", f"g{group}".encode(), group=group)
        net.settle_but("M1~>a MCASTDEL")
    net.lose()
    net.expire("a", T_NACK)
    net.settle()
    assert net.payloads("a") == "g1"
    net.expire("a", T_NACK)
    net.settle()
    assert net.payloads("a") == "g1 g2"


def test_a_retransmission_passes_a_station_only_with_permission() -> None:
    """MSS-5."""
    net = Net().after(1)
    message = net.messages["b"][0]
    show(net, "M1", RetransFor(G, message.mid, message.payload, None, 1, net.number("a")), "C1")
    assert net.lines() == []


def test_a_station_puts_only_groups_of_its_hosts_on_the_air() -> None:
    """MSS-0, MSS-3, R11: group 2 has no member in the cell of M1 until a joins it."""
    net = Net(groups={1: "abc", 2: "b"})
    net.submit("b", b"x", group=2)
    net.settle()
    assert net.count("M1~>a MCASTDEL") == 0
    net.ask("a", Join("2"))
    net.settle()
    net.submit("b", b"y", group=2)
    net.settle()
    assert net.payloads("a") == "y"


def test_an_older_report_takes_nothing_back() -> None:
    """C-10, R16: merged by the maximum."""
    net = Net().after(3)
    net.run(3 * SECOND)
    show(net, "C1", SyncAck(((net.number("c"), ((G, 1),)),)), "C2")
    assert net.acked("C1", "c") == {G: 3}


def test_hosts_report_at_phases_of_their_own() -> None:
    """MH-9."""
    net = Net()
    phases = {net.timers[host, T_NACK] for host in HOME}
    assert len(phases) == len(HOME)
    assert all(0 < phase <= SECOND for phase in phases)


def test_a_message_to_single_hosts_is_refused() -> None:
    net = Net()
    assert net.submit("a", b"x", to=("b",)) is None
    assert [event.text for event in net.events if event.kind == Kind.REFUSE] == ["eomp sends to whole groups only"]


def test_a_group_that_cannot_be_is_the_callers_mistake() -> None:
    net = Net()
    with pytest.raises(ContractError, match="no group"):
        net.ask("a", Join("everybody"))


def test_options_are_read_with_units_and_refused_when_senseless() -> None:
    assert convert({"request_timeout": "50ms"}, Options).request_timeout == 50_000_000
    for wrong in ({"nack_period": "0s"}, {"cache_size": -1}, {"beacon": "1s"}):
        with pytest.raises(ConfigurationError):
            convert(wrong, Options)


def test_a_request_is_repeated_with_what_the_host_has_by_then() -> None:
    """MH-2."""
    net = Net()
    net.submit("a", b"x")
    net.play("lost a~>M1 MCASTREQ(x,G,{G:0},0)")
    net.after(1)
    net.expire("a", T_REQ)
    net.play("a~>M1 MCASTREQ(x,G,{G:1},0)")


def test_nonsense_disturbs_no_machine() -> None:
    assert disturbed(load_registry(), load(experiment(1, dwell="1s", loss=0.1))) == []


NO_HOST, SOME = 5, Mid(9, 1)
STRANGE = (
    ("M1", "C1", McastAckFor(G, NO_HOST, 0)),
    ("M1", "C1", RetransFor(G, SOME, b"", None, 1, NO_HOST)),
    ("M1", "a", Greet(99, 2, ())),
    ("M1", "a", Greet(3, 2, ())),
    ("M1", "C1", GreetAckFor(99)),
    ("M1", "M2", Cancel(99)),
    ("M1", "C1", JoinAckFor(G, 99)),
    ("M1", "C1", LeaveAckFor(G, NO_HOST)),
    ("C1", "M1", McastReqFrom(G, SOME, b"", None, NO_HOST, (), (), 0)),
    ("C1", "C2", SyncSeq(99, 1)),
    ("C1", "M1", NackFrom(99, ((G, 1),))),
    ("C1", "M1", GreetFrom(NO_HOST, (), (), 2)),
    ("C1", "M1", JoinFrom(G, 99)),
    ("C1", "M1", LeaveFrom(G, 99)),
    ("C1", "C2", Insert(G, 99)),
    ("C1", "C2", Delete(G, 99)),
    ("C1", "C2", SyncAck(((7, ((G, 1),)), (99, ())))),
)


@pytest.mark.parametrize(("node", "sender", "packet"), STRANGE)
def test_whoever_names_a_node_that_cannot_be_meant_is_to_blame(node: str, sender: str, packet: Packet) -> None:
    net = Net()
    machine = net.machines[node]
    before = state_of(machine)
    with pytest.raises(PeerError, match="there is no"):
        machine.step(Received(packet, net.number(sender)), net.now)
    assert state_of(machine) == before


def test_a_number_far_away_is_kept_and_asked_for() -> None:
    """R21; the paper sets no limit to the reorder buffer."""
    net = Net().after(1)
    message = msgspec.structs.replace(net.messages["a"][0], payload=b"far")
    show(net, "a", McastDel(G, message.mid, message.payload, None, 1 << 60), "M1")
    assert net.lines() == ["a~>M1 NACK({G:1})"]


def test_a_run_is_the_same_in_every_process() -> None:
    loaded = load(experiment(1, dwell="500ms", gap="50ms", loss=0.1))
    events = run_trial(load_registry(), loaded).history.events
    assert events == run_trial(load_registry(), loaded).history.events
    assert fingerprint_elsewhere(loaded) in (None, fingerprint(events))
