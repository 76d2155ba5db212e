"""The repair layer on the bench: every copy in the test's hand, one sentence of its promise per test."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from castbed import (
    DEFAULT_GROUP,
    Context,
    Group,
    Kind,
    Machine,
    Membership,
    Message,
    Mid,
    NodeNumber,
    Packet,
    PeerError,
    Protocol,
    Received,
    Variant,
    View,
    on,
)
from castbed.assembly import choose
from castbed.authentication import Seal
from castbed.parts import RepairOptions
from castbed.parts.repair_layer import Bygone, Carried, CarriedMessage, Heartbeat, Missing, RepairLayer
from castbed.parts.repair_layer.packets import HEARTBEAT_SOURCES_MAX, RANGES_MAX
from castbed.parts.repair_layer.reception import Reception
from castbed.testing import Bench
from castbed.testing.bench import Copy
from castbed.units import ByteSize, Duration
from castbed.wire import FRAME_BYTES_MAX, HEADER, HEADER_BYTES

SECOND = 10**9


class Note(Packet, frozen=True, tag=1):
    """One message."""

    group: Group
    mid: Mid
    payload: bytes
    colour: str


class Hush(Packet, frozen=True, tag=2):
    """No message; an odd number is an offence."""

    number: int


class Caster(Machine):
    """Broadcasts what it is given and delivers what it gets; `private` goes to one node, `hush...` is no message."""

    def __init__(self, context: Context, options: Any) -> None:
        super().__init__(context, options)
        self.hushes: list[tuple[int, NodeNumber]] = []

    def submitted(self, message: Message) -> None:
        if message.payload.startswith(b"hush"):
            self.broadcast(Hush(int(message.payload[4:])))
            return
        accepted = self.accept(message)
        note = Note(accepted.group, accepted.mid, accepted.payload, "blue")
        if message.to is None:
            self.broadcast(note)
        else:
            self.multicast(message.to, note)

    @on(Note)
    def noted(self, packet: Note, _sender: NodeNumber) -> None:
        self.deliver(Message(packet.mid, packet.group, packet.payload))

    @on(Hush)
    def hushed(self, packet: Hush, sender: NodeNumber) -> None:
        if packet.number % 2:
            self.note("about to be wrong")
            raise PeerError("an odd hush")
        self.hushes.append((packet.number, sender))


def caster(*needs: str) -> Protocol:
    variant = Variant({"member": Caster}, frozenset({"air", "reliable_air", *needs}), ())
    return Protocol("caster", "for tests", "broadcast", (Note, Hush), {"published": variant})


def bench(nodes: str = "ABC", *needs: str, **options: Any) -> Bench:
    return Bench(caster(*needs), tuple(nodes), repair=RepairOptions(**options))


def layer(table: Bench, node: str) -> RepairLayer:
    machine = table.machines[node]
    assert isinstance(machine, RepairLayer)
    return machine


def carried(copy: Copy) -> bool:
    return isinstance(copy.packet, Carried | CarriedMessage)


def notes(table: Bench, node: str) -> list[str]:
    number = table.topology.number(node)
    return [event.text for event in table.events if event.node == number and event.kind == Kind.NOTE]


# --- carrying --------------------------------------------------------------------------------------------------------


def test_a_packet_goes_up_as_it_was_sent() -> None:
    table = bench()
    table.submit("A", b"hello")
    table.settle()
    assert table.delivered("B") == table.delivered("C") == ["A1"]
    assert table.messages["B"][0].payload == b"hello"


def test_the_frame_shows_the_identity_the_group_and_the_payload_of_the_packet_inside() -> None:
    plain, repaired = choose(caster()).codec(), choose(caster(), repair=RepairOptions()).codec()
    table = bench("AB")
    table.submit("A", b"payload", group=DEFAULT_GROUP)
    inside = plain.encode(Note(DEFAULT_GROUP, Mid(1, 1), b"payload", "blue"), 1)
    around = repaired.encode(table.in_flight[0].packet, 1)
    _, _, flags, family, _, *identity, control, payload = HEADER.unpack_from(around)
    _, _, flags_inside, family_inside, _, *identity_inside, control_inside, payload_inside = HEADER.unpack_from(inside)
    assert (flags, identity, payload) == (flags_inside, identity_inside, payload_inside)
    assert family != family_inside
    assert control_inside < control <= control_inside + 16
    assert around.endswith(b"payload")
    assert inside[HEADER_BYTES : HEADER_BYTES + control_inside] in around


def test_a_packet_without_identity_is_carried_and_comes_from_its_writer() -> None:
    table = bench("AB")
    table.submit("A", b"hush2")
    assert isinstance(table.in_flight[0].packet, Carried)
    table.settle()
    assert layer(table, "B").above.hushes == [(2, 1)]  # type: ignore[attr-defined]


def test_who_is_not_addressed_hands_nothing_up_and_misses_nothing() -> None:
    table = bench()
    table.submit("A", b"private", to="B")
    table.submit("A", b"public")
    table.settle()
    assert table.delivered("B") == ["A1", "A2"]
    assert table.delivered("C") == ["A2"]
    assert layer(table, "C").receptions[1, 0].complete


def test_a_copy_for_the_node_itself_needs_no_air() -> None:
    table = bench()
    table.submit("A", b"both", to="AB")
    table.settle()
    assert table.delivered("A") == table.delivered("B") == ["A1"]
    assert table.delivered("C") == []


def test_the_own_copy_goes_up_once_where_the_protocol_needs_it() -> None:
    table = bench("AB", "own_copy")
    table.submit("A")
    own = next(copy for copy in table.in_flight if copy.to == "A")
    table.step("A", Received(own.packet, 2))
    assert table.delivered("A") == []
    table.step("A", Received(own.packet, 1))
    table.settle()
    assert table.delivered("A") == ["A1"]


def test_duplicates_go_up_once() -> None:
    table = bench("AB")
    table.submit("A")
    copy = table.in_flight[0]
    table.step("B", Received(copy.packet, 1))
    table.arrive(copy)
    assert table.delivered("B") == ["A1"]


def test_what_the_protocol_blames_on_its_peer_changes_nothing_and_is_noted_once() -> None:
    table = bench("AB")
    table.submit("A", b"hush1")
    table.submit("A", b"hush2")
    table.run(5 * SECOND)
    assert layer(table, "B").above.hushes == [(2, 1)]  # type: ignore[attr-defined]
    assert notes(table, "B") == ["refused above the repair layer: an odd hush"]


@pytest.mark.parametrize("size", [FRAME_BYTES_MAX, FRAME_BYTES_MAX - 100])
def test_a_packet_that_fits_no_frame_gets_no_number_and_leaves_a_note(size: int) -> None:
    table = bench("AB")
    table.submit("A", bytes(size))
    table.submit("A", b"small")
    table.settle()
    assert table.delivered("B") == ["A2"]
    assert notes(table, "A")[0].startswith("dropped above the repair layer: Note ")
    assert layer(table, "B").receptions[1, 0].complete


def test_the_largest_packet_that_is_carried_fits_a_frame_with_its_seal() -> None:
    codec = choose(caster(), repair=RepairOptions()).sealed_codec(Seal(bytes(16)), 0, lambda: 0)
    table = bench("AB")
    table.submit("A", bytes(FRAME_BYTES_MAX - 44 - 6 - 96))
    resent = msgspec.structs.replace(table.in_flight[0].packet, age_us=2**60, number=2**60, life=2**31)
    assert len(codec.encode(resent, 1)) <= FRAME_BYTES_MAX


def test_a_packet_that_came_past_the_layer_is_the_peers_mistake() -> None:
    table = bench("AB")
    with pytest.raises(PeerError, match="without a number"):
        table.machines["B"].step(Received(Hush(2), 1), 0)


class Hello(Packet, frozen=True, tag=1):
    """A member shows itself."""

    member: int


class Greeter(Machine):
    """Installs a view of all that it has heard of."""

    def __init__(self, context: Context, options: Any) -> None:
        super().__init__(context, options)
        self.members = {self.me}

    def started(self) -> None:
        self.broadcast(Hello(self.me))

    @on(Hello)
    def greeted(self, packet: Hello, _sender: NodeNumber) -> None:
        self.members.add(packet.member)
        self.install(View(DEFAULT_GROUP, len(self.members), tuple(sorted(self.members))))


def test_a_membership_below_the_protocol_is_carried_too() -> None:
    membership = Membership("greeter", "for tests", Greeter, (Hello,))
    table = Bench(caster(), ("A", "B"), membership=membership, repair=RepairOptions())
    table.lose(lambda copy: copy.to == "A")
    table.submit("A")
    table.run(2 * SECOND)
    assert table.delivered("B") == ["A1"]
    views = [event.members for event in table.events if event.kind == Kind.VIEW]
    assert views == [(1, 2), (1, 2)]


# --- repair ----------------------------------------------------------------------------------------------------------


def test_a_gap_is_asked_for_and_filled() -> None:
    table = bench("AB")
    table.submit("A", b"1")
    table.lose()
    table.submit("A", b"2")
    table.settle()
    assert table.delivered("B") == ["A2"]
    table.run(SECOND // 10)
    assert table.delivered("B") == ["A2", "A1"]


def test_with_fifo_a_successor_waits_for_the_lost_one() -> None:
    table = bench("AB", fifo=True)
    for number in range(3):
        table.submit("A", b"%d" % number)
    table.lose(lambda copy: copy.packet.number == 1)  # type: ignore[attr-defined]
    table.settle()
    assert table.delivered("B") == []
    table.run(SECOND // 10)
    assert table.delivered("B") == ["A1", "A2", "A3"]


def test_a_lost_last_packet_is_found_by_the_heartbeat() -> None:
    table = bench("AB")
    table.submit("A")
    table.lose()
    table.run(SECOND)
    assert table.delivered("B") == ["A1"]


def test_packets_that_follow_closely_make_heartbeats_needless(monkeypatch: pytest.MonkeyPatch) -> None:
    table = bench("AB")
    sent: list[Packet] = []
    encode = table.codec.encode
    monkeypatch.setattr(table.codec, "encode", lambda packet, sender: (sent.append(packet), encode(packet, sender))[1])
    for _ in range(9):
        table.submit("A")
        table.run(SECOND // 20)
    assert [type(packet) for packet in sent] == [CarriedMessage] * 9
    table.run(SECOND // 5)
    assert any(isinstance(packet, Heartbeat) for packet in sent)


def test_another_resends_what_the_dead_writer_cannot() -> None:
    table = bench()
    table.submit("A")
    table.lose(lambda copy: copy.to == "C")
    table.settle()
    table.crash("A")
    table.run(3 * SECOND)
    assert table.delivered("C") == ["A1"]


def test_who_hears_its_own_wish_from_another_does_not_ask() -> None:
    table = bench("ABCD")
    table.submit("A", b"1")
    table.lose()
    table.submit("A", b"2")
    table.settle()
    asks = []
    for node in "BCD":
        did = table.expire(node, ("asking", "ask"))
        asks += [action for action in did if isinstance(getattr(action, "packet", None), Missing)]
        table.arrive_all(lambda copy: isinstance(copy.packet, Missing) and copy.to != "A")
    assert len(asks) == 1


def test_who_hears_a_resent_packet_does_not_resend_it() -> None:
    table = bench("ABC")
    table.submit("A")
    table.lose(lambda copy: copy.to == "C")
    table.settle()
    ask = Missing(10**6, ((1, 0, ((1, 1),)),))
    table.step("A", Received(ask, 3))
    table.step("B", Received(ask, 3))
    table.expire("A", ("resending", "resend"))
    table.arrive_all(lambda copy: copy.to == "B")
    table.expire("B", ("resending", "resend"))
    assert [copy.sender for copy in table.in_flight if carried(copy)] == ["A"]


def test_equal_heartbeats_of_two_others_silence_a_node() -> None:
    table = bench("ABC")
    table.submit("A")
    table.settle()
    table.expire("A", ("beating", "beat"))
    table.expire("B", ("beating", "beat"))
    table.settle()
    assert not table.expire("C", ("beating", "beat"))[:-1]


# --- lives, and what is out of reach ---------------------------------------------------------------------------------


def test_a_writer_that_restarts_is_heard_from_its_first_number_on() -> None:
    table = bench("AB")
    for _ in range(3):
        table.submit("A")
    table.settle()
    table.crash("A")
    table.start("A")
    table.submit("A")
    table.run(SECOND)
    assert table.delivered("B") == ["A1", "A2", "A3", "A1~1"]
    assert notes(table, "B") == []


def test_a_node_that_restarts_gets_nothing_that_was_sent_before() -> None:
    table = bench("AB")
    table.submit("A")
    table.run(10 * SECOND)
    table.crash("B")
    table.start("B")
    table.submit("A")
    table.run(10 * SECOND)
    assert table.delivered("B") == ["A1", "A2"]
    assert layer(table, "B").receptions[1, 0].complete
    assert notes(table, "B") == []


def test_a_node_that_restarts_at_once_judges_by_the_age_of_what_is_resent() -> None:
    table = bench("AB")
    table.submit("A")
    table.run(SECOND // 2)
    table.crash("B")
    table.start("B")
    table.run(10 * SECOND)
    assert table.delivered("B") == ["A1"]
    assert layer(table, "B").receptions[1, 0].complete


def test_who_was_away_gets_what_it_missed() -> None:
    table = bench("ABC")
    table.away("C")
    for _ in range(5):
        table.submit("A")
    table.run(60 * SECOND)
    table.back("C")
    table.run(3 * SECOND)
    assert sorted(table.delivered("C")) == ["A1", "A2", "A3", "A4", "A5"]


def test_what_the_writer_no_longer_has_is_skipped_with_a_note() -> None:
    table = bench("ABC", fifo=True, history_max=4)
    table.away("C")
    for _ in range(10):
        table.submit("A")
    table.run(SECOND)
    table.back("C")
    table.run(5 * SECOND)
    assert table.delivered("C") == ["A7", "A8", "A9", "A10"]
    assert notes(table, "C") == ["repair skipped 6 packets of A"]
    assert layer(table, "C").skipped == 6


def test_only_the_writer_can_say_that_its_packets_are_gone() -> None:
    table = bench("ABC", fifo=True)
    table.submit("A", b"1")
    table.lose()
    table.submit("A", b"2")
    table.settle()
    gone = Bygone(1, 0, 0, 0, 1)
    table.step("C", Received(gone, 2))
    assert table.delivered("C") == []
    table.step("C", Received(gone, 1))
    assert table.delivered("C") == ["A2"]


def test_what_nobody_answers_is_given_up() -> None:
    table = bench("AB", fifo=True, give_up_after=Duration(3 * SECOND))
    table.submit("A", b"1")
    table.lose()
    table.submit("A", b"2")
    table.settle()
    table.crash("A")
    table.run(2 * SECOND)
    assert table.delivered("B") == []
    table.run(4 * SECOND)
    assert table.delivered("B") == ["A2"]
    assert notes(table, "B") == ["repair skipped 1 packets of A"]


def test_what_never_comes_is_given_up_although_other_gaps_are_filled() -> None:
    table = bench("AB", fifo=True, give_up_after=Duration(2 * SECOND))

    def never_the_first(copy: Copy) -> bool:
        return not (carried(copy) and copy.packet.number == 1)  # type: ignore[attr-defined]

    for number in range(100):
        table.submit("A")
        lost = number % 3 == 0
        table.lose(lambda copy, lost=lost: carried(copy) and (lost or not never_the_first(copy)))
        for _ in range(8):
            table.lose(lambda copy: not never_the_first(copy))
            table.settle(never_the_first)
            due = min(table.timers.items(), key=lambda item: item[1])
            if due[1] <= number * SECOND // 10:
                table.expire(*due[0])
        table.now = max(table.now, number * SECOND // 10)
    assert table.delivered("B")[:5] == ["A2", "A3", "A4", "A5", "A6"]
    assert notes(table, "B") == ["repair skipped 1 packets of A"]


def test_nothing_is_given_up_while_the_node_is_away() -> None:
    table = bench("AB", give_up_after=Duration(SECOND))
    table.submit("A", b"1")
    table.lose()
    table.submit("A", b"2")
    table.settle()
    table.away("B")
    table.run(60 * SECOND)
    table.back("B")
    table.run(SECOND)
    assert table.delivered("B") == ["A2", "A1"]


def test_only_the_last_lives_of_a_writer_are_kept() -> None:
    table = bench("AB")
    for _ in range(7):
        table.submit("A")
        table.settle()
        table.crash("A")
        table.start("A")
    assert sorted(layer(table, "B").receptions) == [(1, 3), (1, 4), (1, 5), (1, 6)]


def test_the_history_is_bounded_in_packets_and_in_bytes() -> None:
    table = bench("AB", history_max=8)
    for _ in range(20):
        table.submit("A", bytes(100))
    table.settle()
    assert len(layer(table, "A").kept) == len(layer(table, "B").kept) == 8
    small = bench("AB", history_bytes_max=ByteSize(1000))
    for _ in range(20):
        small.submit("A", bytes(100))
    assert 1 <= len(layer(small, "A").kept) <= 9


def test_what_waits_for_its_turn_is_bounded_and_comes_again() -> None:
    table = bench("AB", fifo=True, waiting_max=3)
    for _ in range(8):
        table.submit("A")
    table.lose(lambda copy: copy.packet.number == 1)  # type: ignore[attr-defined]
    table.settle()
    assert len(layer(table, "B").receptions[1, 0].waiting) == 3
    table.run(5 * SECOND)
    assert table.delivered("B") == [f"A{number}" for number in range(1, 9)]


# --- nonsense --------------------------------------------------------------------------------------------------------

NONSENSE = (
    Missing(0, ((9, 0, ((1, 1),)),)),
    Missing(0, ((1, 0, ((2, 1),)),)),
    Missing(-1, ()),
    Missing(0, ((1, 0, tuple((n, n) for n in range(1, RANGES_MAX + 2))),)),
    Heartbeat(((1, 0, 0),)),
    Heartbeat(((1, -1, 1),)),
    Heartbeat(tuple((1, life, 1) for life in range(HEARTBEAT_SOURCES_MAX + 1))),
    Bygone(7, 0, 1, 1, 0),
    Bygone(1, 0, 1, -1, 0),
    Carried(0, b"", 1, 0, 1, 0, (), b"abc"),
    Carried(0, b"", 1, 0, 1, 0, (), b"abcdefg"),
    Carried(0, b"", 0, 0, 1, 0, (), b""),
)


@pytest.mark.parametrize("packet", NONSENSE, ids=lambda packet: type(packet).__name__)
def test_nonsense_is_blamed_on_the_peer(packet: Packet) -> None:
    with pytest.raises(PeerError):
        bench("AB").machines["B"].step(Received(packet, 1), 0)


def test_gaps_are_the_lowest_missing_ranges() -> None:
    reception: Reception[None] = Reception()
    for number in (3, 4, 8):
        assert reception.take(number)
    reception.heard_of(10)
    assert reception.gaps(9) == ((1, 2), (5, 7), (9, 10))
    assert reception.gaps(2) == ((1, 2), (5, 7))
    assert reception.skip(5) == 3
    assert reception.gaps(9) == ((6, 7), (9, 10))
    assert not reception.take(2)


def test_options_are_positive() -> None:
    with pytest.raises(ValueError, match="`history_max` must be positive"):
        RepairOptions(history_max=0)
