"""Repair by digests, seen through the smallest protocol that can use it: deliver what is new."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castbed import (
    Command,
    ConfigurationError,
    Duration,
    Group,
    Machine,
    Message,
    Mid,
    NodeNumber,
    Packet,
    PeerError,
    Protocol,
    Received,
    Variant,
    on,
)
from castbed.actions import Broadcast
from castbed.context import Context
from castbed.parts import AntiEntropy, AntiEntropyOptions, Digest, Repair
from castbed.parts.digests import DIGEST_INTERVALS_MAX
from castbed.testing import Bench
from castbed.units import convert
from castbed.wire import HEADER_BYTES

S = 10**9
FRAME_BYTES = 1400


class Data(Packet, frozen=True, tag=1):
    group: Group
    mid: Mid
    payload: bytes


class Forget(Command, frozen=True):
    mid: Mid


class Stop(Command, frozen=True):
    pass


class Gossip(Machine):
    """Delivers every message once, in the order of arrival."""

    def __init__(self, context: Context, options: AntiEntropyOptions) -> None:
        super().__init__(context, options)
        self.repair = self.part("repair", AntiEntropy.for_group(1, self.learned), options)

    def started(self) -> None:
        self.repair.start()

    def submitted(self, message: Message) -> None:
        numbered = self.accept(message)
        self.repair.store(numbered)
        self.broadcast(Data(1, numbered.mid, numbered.payload))
        self.deliver(numbered)

    @on(Data)
    def data(self, packet: Data, _sender: NodeNumber) -> None:
        message = Message(packet.mid, packet.group, packet.payload)
        if self.repair.store(message):
            self.deliver(message)

    def attached(self, _station: NodeNumber) -> None:
        self.repair.announce()

    @on(Forget)
    def forget(self, command: Forget) -> None:
        self.repair.forget(command.mid)

    @on(Stop)
    def stop(self, _command: Stop) -> None:
        self.repair.stop()

    def learned(self, message: Message) -> None:
        self.note("repaired", message.mid)
        self.deliver(message)


PROTOCOL = Protocol(
    "gossip",
    "Everybody gets everything, in no order",
    "broadcast",
    (Data, *AntiEntropy.PACKETS),
    {"repaired": Variant({"member": Gossip}, frozenset({"air"}), ("integrity",))},
    options=AntiEntropyOptions,
    commands=(Forget, Stop),
)
KEEPING = AntiEntropyOptions(persist=True)


def make_bench(nodes: str = "ABC", **options: object) -> Bench:
    return Bench(PROTOCOL, tuple(nodes), options=AntiEntropyOptions(**options))


def quiet(bench: Bench) -> Bench:
    """Let the first digests pass."""
    bench.run(S // 4)
    return bench


def sent_while(bench: Bench, duration: int) -> list[Packet]:
    """The distinct packets transmitted while time passes, all arriving."""
    sent: list[Packet] = []
    end = bench.now + duration
    while bench.in_flight or min(bench.timers.values()) <= end:
        sent += list({id(c.packet): c.packet for c in bench.in_flight if c.to == _first_receiver(c.sender)}.values())
        if bench.in_flight:
            bench.arrive_all()
        else:
            bench.expire(*min(bench.timers, key=bench.timers.__getitem__))
    return sent


def _first_receiver(sender: str) -> str:
    return "A" if sender != "A" else "B"


def test_a_lost_message_is_repaired_within_two_digest_intervals() -> None:
    """SB-R1, M2-R1."""
    bench = quiet(make_bench())
    bench.submit("A", b"x")
    bench.lose(lambda copy: copy.to == "B")
    bench.run(2 * S)
    assert bench.delivered("B") == ["A1"]
    assert bench.delivered("C") == ["A1"]


def test_equal_members_send_nothing_but_periodic_digests() -> None:
    """M2-R7: no empty answers, no traffic without a difference."""
    bench = quiet(make_bench())
    bench.submit("A", b"x")
    bench.settle()
    sent = sent_while(bench, 20 * S)
    assert {type(packet) for packet in sent} == {Digest}
    assert len(sent) <= 3 * 20 * 4 // 3 + 3


def test_one_helper_answers_and_the_others_keep_silent() -> None:
    """M2-R4: suppression by identity."""
    bench = quiet(make_bench("ABCDEFGH"))
    bench.submit("A", b"x")
    bench.lose(lambda copy: copy.to == "H")
    repairs = [packet for packet in sent_while(bench, 2 * S) if isinstance(packet, Repair)]
    assert len(repairs) == 1
    assert bench.delivered("H") == ["A1"]


def test_suppression_ends_with_the_next_digest_that_still_lacks_the_message() -> None:
    """M2-R20: what was overheard is no evidence that the one who needs it heard it too."""
    bench = quiet(make_bench())
    bench.submit("A", b"x")
    bench.lose(lambda copy: copy.to == "C")
    for _ in range(200):
        bench.lose(lambda copy: isinstance(copy.packet, Repair) and copy.sender == "A" and copy.to == "C")
        bench.arrive_all()
        if bench.delivered("C"):
            return
        bench.expire(*min(bench.timers, key=bench.timers.__getitem__))
    pytest.fail("C never got A1, although B could have sent it")


def test_a_member_that_lacks_something_sends_its_digest_out_of_turn() -> None:
    bench = quiet(make_bench("AB"))
    bench.submit("A", b"x")
    bench.lose()
    bench.expire("A", ("repair", "digest"))
    bench.arrive_all()
    assert bench.timers["B", ("repair", "ask")] <= bench.now + KEEPING.repair_backoff_max
    bench.expire("B", ("repair", "ask"))
    assert bench.copies(Digest, sender="B")


def test_partitions_merge_without_anybody_knowing_who_was_away() -> None:
    """M2-R17: each side has what the other lacks."""
    bench = quiet(make_bench("ABCD"))
    for number in range(10):
        bench.submit("A", b"%d" % number)
        bench.submit("C", b"%d" % number)
        bench.lose(lambda copy: (copy.sender in "AB") != (copy.to in "AB"))
        bench.settle()
    bench.run(3 * S)
    everything = {f"{name}{n}" for name in "AC" for n in range(1, 11)}
    for node in "ABCD":
        assert set(bench.delivered(node)) == everything
        assert len(bench.delivered(node)) == len(everything)


def test_a_member_that_caught_up_meanwhile_does_not_ask() -> None:
    bench = quiet(make_bench("AB"))
    bench.submit("A", b"x")
    late = bench.copies(to="B")
    bench.expire("A", ("repair", "digest"))
    bench.arrive_all(lambda copy: isinstance(copy.packet, Digest))
    for copy in late:
        bench.arrive(copy)
    assert bench.expire("B", ("repair", "ask")) == ()


def test_what_just_came_is_not_repaired_yet() -> None:
    """The copy of the one who lacks it is probably still on its way."""
    bench = quiet(make_bench("AB"))
    bench.run(S)
    bench.submit("A", b"x")
    bench.step("A", Received(Digest(1, ()), 2))
    assert ("A", ("repair", "repair")) not in bench.timers
    bench.now += KEEPING.repair_grace
    bench.step("A", Received(Digest(1, ()), 2))
    assert ("A", ("repair", "repair")) in bench.timers


def test_who_has_heard_the_same_often_enough_is_silent() -> None:
    bench = quiet(make_bench("ABC"))
    bench.submit("A", b"x")
    bench.settle()
    said = [bench.expire(node, ("repair", "digest")) for node in "AB"]
    bench.settle()
    assert all(any(isinstance(action, Broadcast) for action in did) for did in said)
    assert not any(isinstance(action, Broadcast) for action in bench.expire("C", ("repair", "digest")))
    assert any(isinstance(action, Broadcast) for action in bench.expire("C", ("repair", "digest"))), "only for one turn"


def test_a_member_that_comes_back_catches_up_at_once() -> None:
    bench = quiet(make_bench("AB"))
    bench.away("B")
    for number in range(1000):
        bench.submit("A", b"%d" % number)
    bench.settle()
    bench.now += KEEPING.repair_grace
    bench.back("B")
    bench.run(S)
    assert bench.delivered("B") == [f"A{n}" for n in range(1, 1001)]


def test_repair_packets_fit_a_frame_unless_a_single_message_does_not() -> None:
    """M2-R4."""
    bench = quiet(make_bench("AB"))
    for size in (10, 20, 600, 900, 5000, 10, *range(0, 600, 7)):
        bench.submit("A", b"x" * size)
    bench.lose()
    repairs = [packet for packet in sent_while(bench, 3 * S) if isinstance(packet, Repair)]
    assert len(bench.delivered("B")) == 6 + len(range(0, 600, 7))
    for packet in repairs:
        frame = bench.codec.encode(packet, 1)
        assert len(frame) <= FRAME_BYTES or len(packet.messages) == 1
    assert max(len(packet.messages) for packet in repairs) > 1


def test_a_digest_names_intervals_and_not_messages() -> None:
    """M2-R3: a log of 3000 messages without gaps is one interval per writer."""
    bench = quiet(make_bench("AB"))
    for _ in range(3000):
        bench.submit("A")
    bench.lose(lambda copy: copy.packet.mid == Mid(1, 700))
    bench.settle()
    bench.expire("B", ("repair", "digest"))
    (copy,) = bench.copies(Digest, sender="B")
    assert copy.packet.writers == ((1, 0, ((1, 699), (701, 3000))),)
    assert len(bench.codec.encode(copy.packet, 2)) < HEADER_BYTES + 32


def test_more_gaps_than_one_digest_can_name_are_repaired_too() -> None:
    bench = quiet(make_bench("AB"))
    for _ in range(10 * DIGEST_INTERVALS_MAX):
        bench.submit("A")
    bench.lose(lambda copy: copy.packet.mid.seqno % 2 == 0)
    bench.settle()
    digests = [packet for packet in sent_while(bench, 12 * S) if isinstance(packet, Digest)]
    assert max(len(intervals) for packet in digests for _, _, intervals in packet.writers) == DIGEST_INTERVALS_MAX
    assert max(len(bench.codec.encode(packet, 2)) for packet in digests) <= FRAME_BYTES
    assert sorted(bench.machines["B"].repair.known[1, 0].intervals()) == [(1, 10 * DIGEST_INTERVALS_MAX)]


def test_what_a_digest_does_not_speak_of_is_not_sent() -> None:
    bench = quiet(make_bench("AB"))
    for _ in range(9):
        bench.submit("A")
    bench.lose()
    bench.now += KEEPING.repair_grace
    bench.step("A", Received(Digest(1, ((1, 0, ((3, 5),)),), after=(1, 0, 3), upto=(1, 0, 7)), 2))
    bench.expire("A", ("repair", "repair"))
    (copy,) = bench.copies(Repair)
    assert [message.mid.seqno for message in copy.packet.messages] == [6, 7]


def test_gaps_that_nobody_can_fill_do_not_hide_what_can_be_repaired() -> None:
    """The described part moves on, although the lowest gaps stay for ever."""
    bench = quiet(make_bench("AB", log_max=8))
    for _ in range(4 * DIGEST_INTERVALS_MAX):
        bench.submit("A")
    last = 4 * DIGEST_INTERVALS_MAX
    bench.lose(lambda copy: copy.packet.mid.seqno % 2 == 0)
    bench.settle()
    bench.run(12 * S)
    assert f"A{last}" in bench.delivered("B")
    assert "A2" not in bench.delivered("B")


def test_two_members_that_cannot_help_each_other_do_not_talk_without_end() -> None:
    bench = quiet(make_bench("AB", log_max=8))
    for _ in range(40):
        bench.submit("A")
        bench.submit("B")
    bench.lose()
    bench.run(5 * S)
    digests = sent_while(bench, 20 * S)
    assert {type(packet) for packet in digests} == {Digest}
    assert len(digests) <= 2 * 2 * 20 * 4 // 3 + 4


def test_one_digest_makes_a_member_send_a_bounded_number_of_messages() -> None:
    bench = quiet(make_bench("AB", repairs_per_digest_max=10))
    for _ in range(50):
        bench.submit("A")
    bench.lose()
    bench.expire("B", ("repair", "digest"))
    bench.arrive_all()
    sent = 0
    while ("A", ("repair", "repair")) in bench.timers:
        bench.expire("A", ("repair", "repair"))
        sent += sum(len(copy.packet.messages) for copy in bench.copies(Repair))
        bench.lose()
    assert sent == 10


def test_evicted_messages_stay_known_but_cannot_be_repaired() -> None:
    bench = quiet(make_bench("AB", log_max=8))
    for _ in range(30):
        bench.submit("A")
    bench.arrive_all()
    repair = bench.machines["A"].repair
    assert len(repair.log) <= 8
    assert repair.log[-1].mid == Mid(1, 30)
    assert all(repair.knows(Mid(1, number)) for number in range(1, 31))
    assert repair.store(Message(Mid(1, 1))) is False


def test_only_settled_messages_are_evicted() -> None:
    context = Context(1, Bench(PROTOCOL, ("A",)).topology, Random(0))
    owner = Machine(context)
    make = AntiEntropy.for_group(1, lambda message: None, settled=lambda mid: mid.seqno > 2)
    part = owner.part("repair", make, AntiEntropyOptions(log_max=4))
    for number in range(1, 20):
        part.store(Message(Mid(1, number)))
    assert [message.mid.seqno for message in part.log][:2] == [1, 2]
    assert len(part.log) <= 4


def test_a_forgotten_message_is_asked_for_again() -> None:
    """SB-R7: what there was no room for comes back through repair."""
    bench = quiet(make_bench("AB"))
    bench.submit("A", b"x")
    bench.settle()
    bench.ask("B", Forget(Mid(1, 1)))
    assert not bench.machines["B"].repair.knows(Mid(1, 1))
    bench.run(2 * S)
    assert bench.delivered("B") == ["A1", "A1"]


def test_what_was_persisted_is_known_after_a_restart_in_the_order_of_arrival() -> None:
    bench = Bench(PROTOCOL, ("A", "B"), options=AntiEntropyOptions(persist=True, log_max=16))
    for number in range(12):
        bench.submit("AB"[number % 2], b"%d" % number)
        bench.settle()
    before = bench.machines["B"].repair.log
    bench.crash("B")
    bench.start("B")
    after = bench.machines["B"].repair
    assert after.reloaded == before == after.log
    bench.run(3 * S)
    assert len(bench.delivered("B")) == 12


def test_evicted_identities_survive_a_restart_too() -> None:
    bench = Bench(PROTOCOL, ("A", "B"), options=AntiEntropyOptions(persist=True, log_max=8))
    for _ in range(30):
        bench.submit("A")
        bench.settle()
    bench.crash("B")
    bench.start("B")
    repair = bench.machines["B"].repair
    assert all(repair.knows(Mid(1, number)) for number in range(1, 31))
    assert len(repair.reloaded) <= 8
    assert repair.evicted[1, 0].intervals() == ((1, repair.reloaded[0].mid.seqno - 1),)


def test_a_forgotten_message_stays_forgotten_over_a_restart() -> None:
    bench = Bench(PROTOCOL, ("A", "B"), options=KEEPING)
    bench.submit("A", b"x")
    bench.submit("A", b"y")
    bench.arrive_all()
    bench.ask("B", Forget(Mid(1, 1)))
    bench.crash("B")
    bench.start("B")
    assert [message.payload for message in bench.machines["B"].repair.reloaded] == [b"y"]


def test_a_stopped_part_sends_nothing_any_more() -> None:
    bench = quiet(make_bench("AB"))
    bench.submit("A")
    bench.lose()
    bench.expire("B", ("repair", "digest"))
    bench.arrive_all()
    assert [key for key in bench.timers if key[0] == "A"]
    bench.ask("A", Stop())
    assert not [key for key in bench.timers if key[0] == "A"]


def test_digests_and_repairs_of_other_groups_are_ignored() -> None:
    bench = quiet(make_bench("AB"))
    machine = bench.machines["A"].repair
    machine.digest_received(Digest(2, ((9, 0, ((1, 5),)),)), 2)
    machine.repair_received(Repair(2, (Message(Mid(9, 1), group=2),)), 2)
    assert machine.known == {}


MALFORMED = (
    Digest(1, ((2, 0, ((0, 5),)),)),
    Digest(1, ((2, 0, ((5, 4),)),)),
    Digest(1, ((2, 0, ((1, 4), (5, 9))),)),
    Digest(1, ((2, 0, ((5, 9), (1, 2))),)),
    Digest(1, ((2, 0, ()),)),
    Digest(1, ((2, 0, ((1, 1),)), (2, 0, ((3, 3),)))),
    Digest(1, ((2, 0, tuple((2 * n, 2 * n) for n in range(1, DIGEST_INTERVALS_MAX + 2))),)),
    Repair(1, (Message(Mid(2, 1)), Message(Mid(2, 0)))),
    Repair(1, (Message(Mid(2, 1)), Message(Mid(0, 1)))),
    Repair(1, (Message(Mid(2, 1)), Message(Mid(2, 1, -1)))),
    Repair(1, (Message(Mid(2, 1)), Message(Mid(2, 2, 1 << 32)))),
    Repair(1, (Message(Mid(2, 1)), Message(Mid(2, 2), group=2))),
    Repair(1, (Message(Mid(2, 1)), Message(Mid(2, 2), parent=Mid(2, 2)))),
    Repair(1, (Message(Mid(2, 1)), Message(Mid(2, 2), parent=Mid(2, 0)))),
)


@pytest.mark.parametrize("packet", MALFORMED, ids=lambda packet: type(packet).__name__)
def test_a_packet_that_makes_no_sense_changes_nothing(packet: Packet) -> None:
    """SB-R13, M2-R24."""
    bench = quiet(make_bench("AB"))
    bench.submit("A")
    bench.settle()
    part = bench.machines["A"].repair
    handler = part.digest_received if isinstance(packet, Digest) else part.repair_received
    before = (dict(part._log), {w: n.intervals() for w, n in part.known.items()}, dict(part._wanted))
    with pytest.raises(PeerError):
        handler(packet, 2)
    assert before == (dict(part._log), {w: n.intervals() for w, n in part.known.items()}, dict(part._wanted))


def test_a_digest_that_claims_absurd_numbers_costs_nothing() -> None:
    bench = quiet(make_bench("AB"))
    bench.machines["A"].repair.digest_received(Digest(1, ((2, 0, ((1, 2**63),)),)), 2)
    assert bench.machines["A"].repair._ahead is not None


def test_options_refuse_what_cannot_work() -> None:
    with pytest.raises(ConfigurationError, match="digest_interval"):
        convert({"digest_interval": "0s"}, AntiEntropyOptions, "repair")
    assert convert({"digest_interval": "2s"}, AntiEntropyOptions).digest_interval == Duration(2 * S)


def test_messages_survive_being_persisted_as_plain_data() -> None:
    bench = Bench(PROTOCOL, ("A",), options=KEEPING)
    message = Message(Mid(7, 3, 2), 1, b"\x00\xff", Mid(1, 1), (1, 2))
    part = bench.machines["A"].repair
    part.store(message)
    (action,) = part._actions
    stored = {action.key: msgspec.msgpack.decode(msgspec.msgpack.encode(action.value))}
    again = Gossip(Context(1, bench.topology, Random(0), 1, stored), KEEPING)
    assert again.repair.reloaded == [message]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), loss=st.floats(0, 0.6), members=st.integers(2, 6))
def test_all_members_know_the_same_after_a_bounded_number_of_digests(seed: int, loss: float, members: int) -> None:
    """SB-R1, M2-R2: whatever was lost or cut off, digests of a few rounds repair it once the network is whole."""
    random = Random(seed)
    nodes = "ABCDEF"[:members]
    bench = Bench(PROTOCOL, tuple(nodes), seed=seed)
    for _ in range(40):
        bench.submit(random.choice(nodes))
        bench.lose(lambda copy: random.random() < loss)
        bench.settle()
    bench.run(3 * S)
    sets = [set(bench.delivered(node)) for node in nodes]
    assert all(len(found) == 40 for found in sets)
    assert all(len(bench.delivered(node)) == 40 for node in nodes)
