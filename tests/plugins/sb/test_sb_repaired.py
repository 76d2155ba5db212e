"""The repaired machine: the same order on networks that lose, duplicate and part, with nodes that crash."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castbed import ConfigurationError, Kind, Message, Mid, Packet, PeerError, Received, Submitted
from castbed import actions as do
from castbed.parts import AntiEntropyOptions, Digest, Repair
from castbed.properties import check
from castbed.testing import Bench
from castbed.topology import broadcast
from castbed.units import convert
from castbed_plugins.sb import PROTOCOL, Data, Options
from castbed_plugins.sb.repaired import PAYLOAD_BYTES_MAX, Repaired

S = 10**9
REPAIR_TIME = 6 * S  # a few rounds of digests, each a second on average


def make_bench(nodes: str = "ABC", **options: object) -> Bench:
    return Bench(PROTOCOL, tuple(nodes), options=Options(**options))


def machine(bench: Bench, node: str) -> Repaired:
    found = bench.machines[node]
    assert isinstance(found, Repaired)
    return found


def state(bench: Bench, node: str) -> object:
    """Everything that a dropped packet must leave as it was."""
    found = machine(bench, node)
    return msgspec.msgpack.encode(
        [
            [(w, n.intervals()) for o in found.orderings.values() for w, n in o.delivered.items()],
            [o.held() for o in found.orderings.values()],
            [[(w, n.intervals()) for w, n in r.known.items()] for r in found.repairs.values()],
            [r.log for r in found.repairs.values()],
            found.numbers,
        ]
    )


def assert_ordered(bench: Bench) -> None:
    """SB-S3 and at-most-once at every node."""
    for node, delivered in bench.messages.items():
        seen: set[tuple[int, Mid]] = set()
        for one in delivered:
            assert (one.group, one.mid) not in seen, f"{node} delivered {one.mid} twice"
            assert one.parent is None or (one.group, one.parent) in seen, f"{node} delivered {one.mid} too early"
            seen.add((one.group, one.mid))


def violated(bench: Bench) -> set[str]:
    """The guarantees of the variant that the history refutes."""
    return {name for name, found in check(bench.history(), bench.chosen.variant.guarantees).items() if found}


def test_the_sender_takes_its_own_copy_at_once_and_drops_the_one_that_comes_back() -> None:
    """SB-R4."""
    bench = make_bench()
    bench.submit("A", b"x")
    assert bench.delivered("A") == ["A1"]
    bench.step("A", Received(Data(1, Mid(1, 1), b"x", None), 1))
    assert bench.delivered("A") == ["A1"]


def test_members_that_begin_together_do_not_all_speak_at_once_but_one_that_comes_back_does() -> None:
    bench = Bench(PROTOCOL, tuple(f"n{number}" for number in range(40)), options=Options())
    soon = AntiEntropyOptions().repair_backoff_max
    assert sum(due <= soon for due in bench.timers.values()) < 10
    bench.crash("n1")
    bench.start("n1")
    assert min(due for (node, _), due in bench.timers.items() if node == "n1") <= bench.now + soon


def test_a_second_copy_is_dropped_and_noted_whether_delivered_or_held() -> None:
    """SB-R3."""
    bench = make_bench()
    held = Data(1, Mid(1, 2), b"", Mid(1, 1))
    for packet in (held, held, Data(1, Mid(1, 1), b"", None), held):
        bench.step("C", Received(packet, 1))
    assert bench.delivered("C") == ["A1", "A2"]
    assert [event.text for event in bench.events if event.kind == Kind.NOTE] == ["duplicate", "duplicate"]
    assert len([event for event in bench.events if event.kind == Kind.HOLD]) == 1


def test_a_lost_parent_is_asked_for_before_the_next_digest_is_due() -> None:
    """SB-R2: the wait for a parent is bounded by parent_wait and two random delays, not by the digest interval."""
    slow = AntiEntropyOptions(digest_interval=3600 * S)
    bench = make_bench(repair=slow)
    bench.run(S)
    bench.submit("A")
    bench.lose(lambda copy: copy.to == "C")
    bench.settle()
    bench.submit("B", parent="A1")
    bench.run(S // 4)
    assert bench.delivered("C") == ["A1", "B1"]


def test_a_restarted_member_neither_repeats_nor_loses_deliveries() -> None:
    """SB-R5, R16."""
    bench = make_bench()
    bench.submit("A")
    bench.settle()
    bench.submit("B", parent="A1")
    bench.lose(lambda copy: copy.to == "C")
    bench.settle()
    bench.submit("A", parent="B1")
    bench.crash("C")
    bench.settle()
    bench.start("C")
    bench.run(REPAIR_TIME)
    assert bench.delivered("C") == bench.delivered("A") == ["A1", "B1", "A2"]


def test_a_message_that_was_held_at_the_crash_is_still_held_after_it() -> None:
    bench = make_bench("AB")
    bench.step("B", Received(Data(1, Mid(1, 2), b"", Mid(1, 1)), 1))
    bench.crash("B")
    bench.start("B")
    assert [one.mid for one in machine(bench, "B").orderings[1].held()] == [Mid(1, 2)]
    bench.step("B", Received(Data(1, Mid(1, 1), b"", None), 1))
    assert bench.delivered("B") == ["A1", "A2"]


def test_what_was_evicted_before_the_crash_still_counts_as_delivered() -> None:
    bench = make_bench("AB", held_max=4, repair=AntiEntropyOptions(log_max=8))
    for _ in range(30):
        bench.submit("A")
    bench.settle()
    bench.crash("B")
    bench.start("B")
    assert bench.submit("B", parent="A1") is not None
    bench.run(REPAIR_TIME)
    assert len(bench.delivered("B")) == 31


def test_a_restart_never_reuses_an_identity() -> None:
    """SB-R5, R6: also when the storage was lost, because the host numbers lives."""
    bench = make_bench("AB")
    used = []
    for keep in (True, False, True):
        used += [bench.submit("A"), bench.submit("A")]
        bench.settle()
        bench.crash("A", keep_storage=keep)
        bench.start("A")
    assert len(set(used)) == len(used) == 6


def test_a_submission_is_kept_before_it_is_sent() -> None:
    bench = make_bench("AB")
    did = bench.step("A", Submitted(Message(payload=b"x")))
    kinds = [type(action) for action in did]
    assert kinds.index(do.Persist) < kinds.index(do.Broadcast) < kinds.index(do.Deliver)


def test_what_waits_is_bounded_and_what_found_no_room_is_repaired_later() -> None:
    """SB-R7."""
    bench = make_bench("AB", held_max=5)
    bench.run(S)
    bench.submit("A")
    for number in range(1, 20):
        bench.submit("A", parent=Mid(1, number))
    bench.lose(lambda copy: copy.packet.mid == Mid(1, 1))
    bench.settle()
    assert machine(bench, "B").orderings[1].held_count == 5
    bench.run(REPAIR_TIME)
    assert bench.delivered("B") == [f"A{n}" for n in range(1, 21)]
    assert machine(bench, "B").orderings[1].held_max == 5
    assert len([event for event in bench.events if event.kind == Kind.HOLD]) <= 19


def test_own_messages_are_refused_rather_than_lost_when_there_is_no_room() -> None:
    bench = make_bench("AB", held_max=1, answer_undelivered=True)
    assert bench.submit("A", parent="B7") == Mid(1, 1)
    assert bench.submit("A", parent="B8") is None
    assert bench.submit("A") == Mid(1, 2)


def test_a_reply_to_itself_and_a_payload_without_end_are_refused() -> None:
    bench = make_bench("AB", answer_undelivered=True)
    assert bench.submit("A", parent="A1") is None
    assert bench.submit("A", b"x" * (PAYLOAD_BYTES_MAX + 1)) is None
    assert bench.submit("A", b"x" * PAYLOAD_BYTES_MAX) == Mid(1, 1)


def test_the_largest_message_can_be_repaired() -> None:
    bench = make_bench("AB")
    bench.submit("A", b"x" * PAYLOAD_BYTES_MAX)
    bench.lose()
    bench.run(REPAIR_TIME)
    assert bench.delivered("B") == ["A1"]


def test_members_of_several_groups_repair_each_of_them() -> None:
    topology = broadcast(("A", "B", "C"), {1: (1, 2, 3), 2: (1, 3)})
    bench = Bench(PROTOCOL, topology)
    for group in (1, 2):
        bench.submit("A", group=group)
    bench.lose()
    bench.run(REPAIR_TIME)
    assert sorted(one.group for one in bench.messages["C"]) == [1, 2]
    assert [one.group for one in bench.messages["B"]] == [1]


def test_an_absent_member_catches_up_when_it_is_back() -> None:
    bench = make_bench()
    bench.run(S)
    bench.away("C")
    bench.submit("A")
    bench.settle()
    bench.submit("B", parent="A1")
    bench.submit("C")
    bench.settle()
    bench.now += AntiEntropyOptions().repair_grace
    bench.back("C")
    bench.run(S // 4)
    assert bench.delivered("C") == ["C1", "A1", "B1"]
    assert bench.delivered("A") == ["A1", "B1", "C1"]


def test_a_digest_of_five_writers_without_gaps_is_a_frame_of_93_bytes() -> None:
    """M2-R3; the figure of the manual."""
    digest = Digest(1, tuple((writer, 0, ((1, 2000),)) for writer in range(1, 6)))
    assert len(make_bench().codec.encode(digest, 1)) == 93


MALFORMED: tuple[Packet, ...] = (
    Data(1, Mid(1, 5), b"", Mid(1, 5)),
    Data(1, Mid(1, 0), b"", None),
    Data(1, Mid(1, 5), b"", Mid(1, 0)),
    Data(1, Mid(1, 5), b"", Mid(-3, 1)),
    Data(1, Mid(0, 5), b"", None),
    Data(1, Mid(2, 5), b"said to be mine", None),
    Data(1, Mid(1, 5), b"x" * (PAYLOAD_BYTES_MAX + 1), None),
    Repair(1, (Message(Mid(1, 5)), Message(Mid(2, 6)))),
    Repair(1, (Message(Mid(1, 5)), Message(Mid(1, 6), to=(1,)))),
    Repair(1, (Message(Mid(1, 5)), Message(Mid(1, 6), group=2))),
    Repair(1, (Message(Mid(1, 5)), Message(Mid(1, 6), parent=Mid(1, 6)))),
    Digest(1, ((1, 0, ((3, 2),)),)),
)


@pytest.mark.parametrize("packet", MALFORMED, ids=repr)
def test_a_malformed_packet_is_blamed_on_the_peer_and_changes_nothing(packet: Packet) -> None:
    """SB-R13."""
    bench = make_bench("AB")
    bench.submit("A")
    bench.settle()
    before = state(bench, "B")
    with pytest.raises(PeerError):
        machine(bench, "B").step(Received(packet, 1), bench.now)
    assert state(bench, "B") == before


IDENTITIES = st.builds(Mid, st.integers(0, 4), st.integers(0, 4), st.integers(-1, 1))
MESSAGES = st.builds(
    Message, IDENTITIES, st.integers(1, 2), st.binary(max_size=3), st.none() | IDENTITIES, st.none() | st.just((1,))
)
INTERVALS = st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 9)), max_size=3).map(tuple)
PACKETS = st.one_of(
    st.builds(Data, st.integers(1, 2), IDENTITIES, st.binary(max_size=3), st.none() | IDENTITIES),
    st.builds(Repair, st.integers(1, 2), st.lists(MESSAGES, max_size=3).map(tuple)),
    st.builds(
        Digest,
        st.integers(1, 2),
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), INTERVALS), max_size=3).map(tuple),
        st.none() | st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 9)),
        st.none() | st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 9)),
    ),
)


@settings(max_examples=200, deadline=None)
@given(packets=st.lists(PACKETS, max_size=12))
def test_no_packet_breaks_the_machine_or_the_order(packets: list[Packet]) -> None:
    """SB-R13: what is refused changes nothing, what is not refused is ordered, and own messages still go out."""
    bench = make_bench("AB")
    for packet in packets:
        before = state(bench, "B")
        try:
            did = machine(bench, "B").step(Received(packet, 1), bench.now)
        except PeerError:
            assert state(bench, "B") == before
        else:
            bench.messages["B"] += [action.message for action in did if isinstance(action, do.Deliver)]
    assert bench.submit("B") == Mid(2, 1)
    assert_ordered(bench)


def test_options_that_cannot_work_are_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="held_max"):
        convert({"held_max": 0}, Options)
    with pytest.raises(ConfigurationError, match=r"repair.log_max"):
        convert({"held_max": 64, "repair": {"log_max": 64}}, Options)
    with pytest.raises(ConfigurationError, match="store"):
        convert({"store": "random"}, Options)


def test_a_member_that_lost_its_storage_is_shown_everything_again() -> None:
    """A known limit: exactly once cannot outlive the only memory of what was shown."""
    bench = make_bench("AB")
    bench.submit("A")
    bench.settle()
    bench.crash("B", keep_storage=False)
    bench.start("B")
    bench.run(REPAIR_TIME)
    assert bench.delivered("B") == ["A1", "A1"]
    assert violated(bench) == set(), "a new memory is a new beginning for the checks"


def test_a_reply_waits_for_ever_when_nobody_remembers_what_it_answers() -> None:
    """A known limit: the parent was on two storages only, and both were lost."""
    bench = make_bench("ABC")
    bench.submit("A")
    bench.lose(lambda copy: copy.to == "C")
    bench.settle()
    bench.submit("B", parent="A1")
    bench.settle()
    for node in "AB":
        bench.crash(node, keep_storage=False)
        bench.start(node)
    bench.run(REPAIR_TIME)
    assert bench.delivered("C") == []
    assert violated(bench) == set(), "it went with its writer, who lost everything"
