"""Single steps of repaired stations, coordinators and hosts: what passes, what is refused, what a handoff costs."""

from __future__ import annotations

import pytest
from eomp_bench import G
from repaired_bench import RepairedNet

from castbed import Kind, Message, Mid, Packet, PeerError
from castbed.assembly import choose
from castbed.events import Received, Submitted
from castbed_plugins.eomp import PROTOCOL, Join, Options
from castbed_plugins.eomp.packets import Cancel, SyncAck
from castbed_plugins.eomp.repaired.host import PAYLOAD_BYTES_MAX, T_NACK
from castbed_plugins.eomp.repaired.packets import (
    Adopt,
    Ask,
    Beat,
    BundleRequest,
    Dismissed,
    Enter,
    Numbered,
    Report,
    ReportFrom,
    Request,
    Taken,
)
from castbed_plugins.eomp.repaired.station import T_SILENCE

NUMBERS = {"T": 1, "C1": 2, "C2": 3, "M1": 4, "M2": 5, "M3": 6, "a": 7, "b": 8, "c": 9}


def numbered(seq: int) -> Numbered:
    return Numbered(G, Mid(9, seq), b"", None, seq, seq, ())


def test_a_handoff_costs_one_greeting_one_answer_and_one_cancel() -> None:
    """E10: no message is forwarded between stations; the report goes on to the coordinator."""
    net = RepairedNet().after(2)
    net.heard.clear()
    net.move("a", "M3")
    net.settle()
    kinds = sorted(line.partition("(")[0] for line in net.heard)
    assert kinds == ["M3>C2 ReportFrom", "M3>M1 Cancel", "M3~>a Entered", "a~>M3 Enter"]


def test_a_station_sends_nothing_to_a_host_that_left() -> None:
    """E5: what a coordinator repeats for it is dropped."""
    net = RepairedNet()
    net.move("a", "M3")
    net.settle()
    net.step("M1", Received(Taken(Mid(net.number("a"), 1)), net.number("C1")))
    assert net.copies(sender="M1", to="a") == []
    net.step("M3", Received(Taken(Mid(net.number("a"), 1)), net.number("C2")))
    assert len(net.copies(sender="M3", to="a")) == 1


def test_a_station_passes_each_number_on_once_whoever_sends_it() -> None:
    net = RepairedNet()
    for coordinator, seq in (("C1", 1), ("C2", 1), ("C2", 2), ("C1", 2), ("C1", 4)):
        net.step("M1", Received(numbered(seq), net.number(coordinator)))
    assert [copy.packet.seq for copy in net.copies(Numbered, sender="M1")] == [1, 2, 4]


def test_a_station_that_hears_nothing_turns_to_the_next_coordinator() -> None:
    net = RepairedNet()
    for _ in range(2):
        net.expire("M1", T_SILENCE)
    assert [copy.to for copy in net.copies(Adopt, sender="M1")] == ["C2"]
    net.settle()
    assert net.number("M1") in net.machines["C2"].stations
    net.step("M1", Received(Beat(()), net.number("C1")))
    net.settle()
    assert net.machines["M1"].coordinator == net.number("C1")
    assert net.number("M1") not in net.machines["C2"].stations


@pytest.mark.parametrize(("missed", "sent"), [(3, [2, 3, 4]), (5, [])])
def test_a_station_that_is_adopted_gets_what_its_cell_lacks_unless_it_is_too_much(missed: int, sent: list[int]) -> None:
    net = RepairedNet(options=Options(batch=4)).after(1)
    for number in range(missed):
        net.submit("c", f"n{number}".encode())
        net.settle_but("C1>M1")
        net.lose()
    net.step("C2", Received(Adopt(((G, 1),)), net.number("M1")))
    assert [copy.packet.seq for copy in net.copies(Numbered, to="M1")] == sent
    net.settle()
    assert net.machines["M1"].sent == {G: 1 + missed}
    net.expire("a", T_NACK)
    net.pass_time(1)
    assert net.last("a") == [1 + missed]


def test_a_host_refuses_what_no_packet_holds_and_what_is_not_for_a_whole_group() -> None:
    net = RepairedNet()
    net.step("a", Submitted(Message(payload=bytes(PAYLOAD_BYTES_MAX + 1))))
    net.step("a", Submitted(Message(to=(8,))))
    assert [event.kind for event in net.events if event.kind in (Kind.REFUSE, Kind.SUBMIT)] == [Kind.REFUSE] * 2
    net.step("a", Submitted(Message(payload=bytes(PAYLOAD_BYTES_MAX))))
    net.settle()
    assert [len(message.payload) for message in net.messages["c"]] == [PAYLOAD_BYTES_MAX]


def test_a_request_that_comes_early_waits_for_the_one_before_it() -> None:
    net = RepairedNet()
    for payload in (b"x", b"y", b"z"):
        net.submit("a", payload)
    net.play("lost a~>M1 Request(a1)")
    net.settle()
    net.all_have("")
    net.pass_time(0.2)
    net.all_have("x y z")
    assert net.count("C1>T Request(a2)") == 2


def test_a_node_that_does_not_lead_numbers_nothing() -> None:
    net = RepairedNet()
    net.step("C2", Received(Request(G, Mid(7, 1), b"x", None), net.number("C1")))
    assert net.quiet() == []
    net.step("T", Received(Request(G, Mid(7, 1), b"x", None), net.number("C1")))
    net.settle()
    net.all_have("x")


def test_asking_again_for_what_was_decided_is_answered_without_the_log() -> None:
    net = RepairedNet(members="bc")
    net.ask("a", Join("1"))
    net.settle()
    committed = net.machines["T"].log.committed
    net.step("C1", Received(Ask(G, 7, (0, 1), joins=True), net.number("M1")))
    assert [net.line(copy).partition("(")[0] for copy in net.in_flight] == ["C1>M1 Admitted"]
    assert net.machines["T"].log.committed == committed


def test_a_dismissal_of_an_earlier_stay_means_nothing() -> None:
    net = RepairedNet()
    net.step("a", Received(Dismissed(G, 7, (0, 5)), net.number("M1")))
    net.step("a", Received(Dismissed(G, 8, (0, 0)), net.number("M1")))
    assert net.last("a") == [0]
    net.step("a", Received(Dismissed(G, 7, (0, 0)), net.number("M1")))
    assert net.machines["a"].inbox.last == {}


IMPOSSIBLE: tuple[tuple[str, str, Packet], ...] = (
    ("M1", "a", Request(G, Mid(8, 1), b"", None)),
    ("M1", "a", Ask(G, 8, (0, 1), joins=True)),
    ("M1", "M2", Report((), (), 0, ())),
    ("M1", "a", Enter(9, (), (), 0)),
    ("M1", "M2", numbered(1)),
    ("M1", "a", Beat(())),
    ("M1", "a", Cancel(7)),
    ("C1", "M1", Request(G, Mid(2, 1), b"", None)),
    ("C1", "M1", ReportFrom(2, (), (), 0, ())),
    ("C1", "M1", SyncAck(())),
    ("T", "a", Request(G, Mid(7, 1), b"", None)),
    ("T", "C1", Ask(G, 4, (0, 1), joins=True)),
)


@pytest.mark.parametrize(("node", "sender", "packet"), IMPOSSIBLE)
def test_what_a_node_cannot_have_said_is_refused(node: str, sender: str, packet: Packet) -> None:
    net = RepairedNet()
    assert {name: net.number(name) for name in NUMBERS} == NUMBERS
    with pytest.raises(PeerError):
        net.machines[node].step(Received(packet, net.number(sender)), net.now)


def test_a_station_serves_no_group_that_one_host_joins_for_another() -> None:
    net = RepairedNet()
    with pytest.raises(PeerError, match="speaks for"):
        net.machines["M1"].step(Received(Ask(2, 8, (0, 1), joins=True), net.number("a")), net.now)
    assert net.machines["M1"].served == {G}


@pytest.mark.parametrize(
    "packet",
    [
        ReportFrom(7, ((G, -1),), (), 0, ()),
        ReportFrom(7, (), ((G, 2, -1),), 0, ()),
        ReportFrom(7, (), (), -1, ()),
        Ask(G, 7, (0, -1), joins=True),
        BundleRequest(G, Mid(7, 1), b"", (), ()),
        BundleRequest(G, Mid(7, 1), b"", (-1, 1), ()),
        Numbered(G, Mid(7, 1), b"", None, 1 << 63, 1, ()),
    ],
)
def test_a_number_that_nobody_counts_to_reaches_no_machine(packet: Packet) -> None:
    codec = choose(PROTOCOL, "repaired").codec()
    with pytest.raises(PeerError):
        codec.decode(codec.encode(packet, 4))


def test_a_host_that_never_asked_about_a_group_gets_no_answer_about_it() -> None:
    net = RepairedNet()
    net.step("C1", Received(ReportFrom(7, ((2, 1),), (), 0, ()), net.number("M1")))
    assert net.copies(Dismissed) == []


def test_time_out_of_range_is_no_time_that_answers_take() -> None:
    """Otherwise a host would wait for as long as it was away before it reports a gap again."""
    net = RepairedNet().after(1)
    for payload in (b"m2", b"m3"):
        net.submit("c", payload)
        net.settle_but("M1~>a Numbered")
    net.play("lost M1~>a Numbered(c2,2)\nM1~>a Numbered(c3,3)\nlost a~>M1 Report(((1, 1),),((1, 3, 3),),0,((1, 3),))")
    net.move("a", None)
    net.now += 10 * 10**9
    net.move("a", "M1")
    net.settle()
    net.all_have("m1 m2 m3")
    assert net.machines["a"].reporting.wait() < 10**8
