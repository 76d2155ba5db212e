"""The replicated log step by step: what is said in each case of the paper, and what survives."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from replicated_log_world import BEAT, PATIENCE, Owner, World

from castbed import ContractError, Machine, Message, Protocol, Variant, topology
from castbed.context import Context
from castbed.parts import LOG_PACKETS, LogOptions, ReplicatedLog
from castbed.parts.replicated_log import UNCOMMITTED_MAX, Status
from castbed.parts.replicated_log_packets import ENTRY_BYTES_MAX, Commit, Prepare, PrepareOk
from castbed.testing import Bench


def said(world: World) -> list[str]:
    """What was received since the last look."""
    transcript = world.transcript[:]
    world.transcript.clear()
    return transcript


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def after_a_crash_of_the_leader(entry_reached: tuple[int, ...], size: int = 3) -> World:
    """Entry `a` is committed everywhere; `b` reached these followers when the leader crashed."""
    world = World(size)
    world.propose(1, b"a")
    world.settle()
    world.propose(1, b"b")
    for follower in entry_reached:
        world.deliver(1, follower)
    world.crash(1)
    world.wires.clear()
    said(world)
    return world


# --- normal operation ------------------------------------------------------------------------------------------------


def test_an_entry_is_prepared_acknowledged_committed_and_applied_everywhere() -> None:
    """Section 4.1."""
    world = World(4)
    assert world.propose(1, b"a")
    world.settle()
    assert said(world) == lines("""
        1>2 Prepare(0, 1, 0, a)
        1>3 Prepare(0, 1, 0, a)
        1>4 Prepare(0, 1, 0, a)
        2>1 PrepareOk(0, 1)
        3>1 PrepareOk(0, 1)
        4>1 PrepareOk(0, 1)
        1>2 Commit(0, 1, 1)
        1>3 Commit(0, 1, 1)
        1>4 Commit(0, 1, 1)
    """)
    assert [world.applied(number) for number in (1, 2, 3, 4)] == [[b"a"]] * 4


@pytest.mark.parametrize("size", [2, 3])
def test_where_two_are_a_majority_a_follower_applies_what_it_gets(size: int) -> None:
    """The leader and itself have the entry; nobody has to say so."""
    world = World(size)
    assert world.propose(1, b"a")
    world.deliver(1, 2)
    assert world.applied(2) == [b"a"]
    assert world.applied(1) == []
    world.settle()
    assert [world.applied(number) for number in world.numbers] == [[b"a"]] * size
    assert not any("Commit" in line for line in said(world))


def test_a_follower_that_has_left_the_view_applies_nothing_of_it() -> None:
    """The leader may have crashed, and the others may go on without the entry."""
    world = World(3)
    world.propose(1, b"a")
    world.suspect(2)
    world.deliver(1, 2)
    assert world.applied(2) == []


def test_the_next_prepare_says_what_is_committed() -> None:
    """Section 4.1: no message of its own where another one follows; the leader applies at the second answer."""
    world = World(4)
    world.nodes[1].log.apply = lambda op, entry: [world.nodes[1].log.propose(b"b") for _ in range(op == 1)]
    world.propose(1, b"a")
    world.settle()
    assert [line for line in said(world) if line.startswith("1>2")] == lines("""
        1>2 Prepare(0, 1, 0, a)
        1>2 Prepare(0, 2, 1, b)
        1>2 Commit(0, 2, 2)
    """)


def test_entries_that_are_committed_in_one_step_need_one_commit() -> None:
    world = World(5)
    for number in range(10):
        world.propose(1, b"%d" % number)
    for follower in (2, 3):
        for _ in range(10):
            world.deliver(1, follower)
    for _ in range(10):
        world.deliver(2, 1)
    for _ in range(9):
        world.wires[3, 1, 0].popleft()  # only the last answer arrives, which stands for all
    world.deliver(3, 1)
    assert world.applied(1) == [b"%d" % number for number in range(10)]
    assert [type(packet) for packet in world.wires[1, 2, 0]] == [Commit]


def test_only_the_leader_takes_proposals() -> None:
    world = World(3)
    assert not world.propose(2, b"x")
    assert not world.busy_wires()
    assert world.log(1).is_leader
    assert [world.log(number).leader for number in (1, 2, 3)] == [1, 1, 1]
    world.suspect(2)
    world.deliver(2, 1)
    assert not world.log(1).is_leader
    assert not world.propose(1, b"x")


def test_an_idle_leader_is_heard_once_per_beat_and_a_busy_one_needs_no_beat() -> None:
    world = World(4)
    world.run(100 * BEAT)
    assert said(world) == ["1>2 Commit(0, 0, 0)", "1>3 Commit(0, 0, 0)", "1>4 Commit(0, 0, 0)"] * 100
    for _ in range(50):
        world.propose(1, b"x")
        world.run(BEAT // 2)
    assert len([line for line in said(world) if "Commit" in line]) == 3 * 50, "one for each entry, none besides"
    assert all(world.log(number).view == 0 for number in (1, 2, 3, 4))


def test_an_owner_may_propose_a_struct_and_gets_its_encoding() -> None:
    world = World(3)
    world.nodes[1].log.propose(PrepareOk(3, 4))
    assert isinstance(world.nodes[1]._actions[0].packet, Prepare)
    assert world.nodes[1]._actions[0].packet.payload == msgspec.msgpack.encode(PrepareOk(3, 4))


def test_a_leader_that_nobody_answers_takes_a_bounded_number_of_entries() -> None:
    log = Owner(Context(1, topology.sites(("a", "b", "c")), Random(0)), World(3).options).log
    taken = sum(log.propose(b"") for _ in range(UNCOMMITTED_MAX + 10))
    assert taken == UNCOMMITTED_MAX


def test_a_log_of_one_member_commits_at_once_and_applies_in_order() -> None:
    world = World(1)
    log = world.nodes[1].log
    applied: list[tuple[int, bytes]] = []

    def apply(op: int, entry: bytes) -> None:
        applied.append((op, entry))
        if op < 3:
            log.propose(b"%d" % op)

    log.apply = apply
    assert log.propose(b"0")
    assert applied == [(1, b"0"), (2, b"1"), (3, b"2")]
    assert not log._actions


def test_at_most_the_retained_entries_are_kept_at_every_member() -> None:
    world = World(3, retained=7)
    for number in range(100):
        world.propose(1, b"%d" % number)
        world.settle()
    assert [len(world.log(number)._journal._entries) for number in (1, 2, 3)] == [7, 7, 7]
    assert len(world.applied(3)) == 100


# --- view changes ----------------------------------------------------------------------------------------------------


def test_an_entry_that_a_majority_has_survives_its_leader() -> None:
    """Section 4.2: the new leader sends what the others lack, and commits it."""
    world = after_a_crash_of_the_leader((2,))
    world.suspect(3)
    world.settle()
    assert said(world) == lines("""
        3>2 StartViewChange(1, 1)
        2>3 StartViewChange(1, 2)
        3>2 DoViewChange(1, 0, 1..1, 1)
        2>3 Piece(0, b)
        2>3 StartView(1, 1..2, 2)
        3>2 PrepareOk(1, 2)
    """)
    assert world.log(2).is_leader
    assert world.applied(2) == world.applied(3) == [b"a", b"b"]


def test_an_entry_that_the_new_leader_lacks_comes_with_a_vote() -> None:
    """Section 4.2: the most recent log of a majority counts, and only what the new leader lacks is sent."""
    world = after_a_crash_of_the_leader((3,))
    world.suspect(2)
    world.settle()
    assert said(world) == lines("""
        2>3 StartViewChange(1, 1)
        3>2 StartViewChange(1, 2)
        3>2 Piece(0, b)
        3>2 DoViewChange(1, 0, 1..2, 2)
        2>3 StartView(1, 2..2, 2)
        3>2 PrepareOk(1, 2)
    """)
    assert world.applied(2) == world.applied(3) == [b"a", b"b"]


def test_an_entry_that_no_majority_has_may_vanish_and_never_comes_back() -> None:
    world = after_a_crash_of_the_leader((4,), size=5)
    world.suspect(2)
    world.settle(without=(4,))
    assert world.log(2).is_leader, "2, 3 and 5 are a majority"
    world.propose(2, b"c")
    world.settle()
    world.start(1)
    world.run(20 * PATIENCE)
    assert {tuple(world.applied(number)) for number in world.numbers} == {(b"a", b"c")}


def test_a_leader_that_was_cut_off_follows_when_it_is_back() -> None:
    """What it proposed meanwhile is gone, because it never had a majority."""
    world = World(3)
    world.propose(1, b"a")
    world.settle()
    world.suspect(2)
    world.settle(without=(1,))
    assert world.log(1).is_leader, "as far as it knows"
    assert world.log(2).is_leader
    assert world.propose(1, b"old")
    assert world.propose(2, b"new")
    world.settle(without=(1,))
    world.settle()
    assert world.log(1).leader == 2
    assert not world.log(1).is_leader
    assert [world.applied(number) for number in (1, 2, 3)] == [[b"a", b"new"]] * 3


def test_a_longer_log_of_an_older_view_does_not_win() -> None:
    """Section 4.2, step 3: first the latest view in which a log was in force, then its length."""
    world = World(3)
    for entry in (b"x", b"y", b"z"):
        world.propose(1, entry)
    for wire in world.wires.values():
        wire.clear()
    world.suspect(2)
    world.settle(without=(1,))
    world.propose(2, b"a")
    world.settle(without=(1,))
    assert world.applied(3) == [b"a"]
    world.crash(2)
    for wire, packets in world.wires.items():
        if 2 in wire[:2]:
            packets.clear()
    world.run(40 * PATIENCE)
    assert world.log(3).is_leader
    assert world.applied(1) == world.applied(3) == [b"a"]


def test_a_member_that_is_cut_off_asks_for_one_view_only() -> None:
    """However long it is away, it disturbs the others once."""
    world = World(3)
    for _ in range(20):
        world.suspect(3)
    assert world.log(3).view == 1
    world.settle()
    world.run(20 * PATIENCE)
    assert {world.log(number).view for number in (1, 2, 3)} == {1}


def test_a_new_leader_that_is_dead_too_is_passed_over() -> None:
    world = World(5)
    world.propose(1, b"a")
    world.settle()
    world.crash(1)
    world.crash(2)
    world.run(20 * PATIENCE)
    assert world.log(3).is_leader
    assert world.propose(3, b"b")
    world.settle()
    assert world.applied(5) == [b"a", b"b"]


def test_owners_are_told_when_the_leader_or_the_status_changes() -> None:
    world = World(3)
    told: list[tuple[Status, int]] = []
    log = world.log(3)
    log.changed = lambda: told.append((log.status, log.leader))
    world.propose(1, b"a")
    world.run(10 * PATIENCE)
    assert told == []
    world.crash(1)
    world.run(10 * PATIENCE)
    assert told == [(Status.CHANGING, 2), (Status.NORMAL, 2)]


def test_an_owner_may_propose_as_soon_as_it_is_told_that_it_leads() -> None:
    world = after_a_crash_of_the_leader((2,))
    log = world.log(2)
    log.changed = lambda: log.is_leader and log.propose(b"first")
    world.run(10 * PATIENCE)
    assert world.applied(3) == world.applied(2) == [b"a", b"b", b"first"]


# --- what owners and options may be ----------------------------------------------------------------------------------


def test_an_entry_that_fits_no_packet_is_refused() -> None:
    world = World(3)
    with pytest.raises(ContractError, match="entry of"):
        world.propose(1, bytes(ENTRY_BYTES_MAX + 1))


def test_who_is_no_member_has_no_part_in_the_log() -> None:
    with pytest.raises(ContractError, match="no member"):
        ReplicatedLog(Context(9, topology.sites(("a",)), Random(0)), World(3).options)


@pytest.mark.parametrize(
    "wrong",
    [{"members": ()}, {"members": (1, 1, 2)}, {"beat": 0}, {"patience": BEAT}, {"retained": -1}],
    ids=str,
)
def test_options_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        msgspec.structs.replace(World(3).options, **wrong).__post_init__()


# --- as packets of a protocol ----------------------------------------------------------------------------------------


class Agreed(Machine):
    """Delivers what the leader's application says, in the order of the log."""

    def __init__(self, context: Context, options: None) -> None:
        super().__init__(context, options)
        members = context.topology.numbers()
        self.log = self.part("log", ReplicatedLog, LogOptions(members, beat=BEAT, patience=PATIENCE, retained=4))
        self.log.apply = self._apply
        self.log.snapshot = lambda: (msgspec.msgpack.encode(self.state),)
        self.log.restore = self._restore
        self.state: list[bytes] = []

    def started(self) -> None:
        self.log.started()

    def submitted(self, message: Message) -> None:
        taken = self.accept(message)
        self.log.propose(msgspec.msgpack.encode(taken))

    def _apply(self, _op: int, entry: bytes) -> None:
        self.state.append(entry)
        self.deliver(msgspec.msgpack.decode(entry, type=Message))

    def _restore(self, chunks: tuple[bytes, ...]) -> None:
        self.state = msgspec.msgpack.decode(chunks[0])


AGREED = Protocol(
    "agreed",
    "One order, by a replicated log",
    "sites",
    LOG_PACKETS,
    {"plain": Variant({"site": Agreed}, frozenset({"wire"}), ("total",))},
)


def test_every_packet_travels_as_a_frame() -> None:
    """Normal operation, a view change, a recovery with a snapshot: nothing is dropped, all members agree."""
    bench = Bench(AGREED, topology.sites(("A", "B", "C")))
    for number in range(10):
        bench.submit("A", b"%d" % number)
        bench.settle()
    bench.crash("A")
    bench.run(10 * PATIENCE)
    bench.submit("B", b"after")
    bench.settle()
    bench.start("A")
    bench.run(10 * PATIENCE)
    states = [bench.machines[name].state for name in "ABC"]
    assert len(states[0]) == 11
    assert states[0] == states[1] == states[2]
    assert bench.delivered("C") == [f"A{n}" for n in range(1, 11)] + ["B1"]
    assert not [event for event in bench.events if event.kind.name == "DROP"]
