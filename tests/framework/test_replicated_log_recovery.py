"""Restarts, members far behind, transfers cut short, and packets that cannot be: the log loses nothing through them."""

from __future__ import annotations

import pytest
from replicated_log_world import PATIENCE, World

from castbed import ContractError, Packet, PeerError, Received
from castbed.parts import replicated_log_journal
from castbed.parts.replicated_log import Status
from castbed.parts.replicated_log_packets import (
    NUMBER_LIMIT,
    PIECE_BYTES_MAX,
    PIECES_MAX,
    Commit,
    DoViewChange,
    GetState,
    Piece,
    Prepare,
    PrepareOk,
    Recovery,
    RecoveryResponse,
    StartView,
    StartViewChange,
    Suffix,
)


def with_entries(count: int, size: int = 3, retained: int = 100) -> World:
    world = World(size, retained)
    for number in range(count):
        world.propose(1, b"%d" % number)
    world.settle()
    world.transcript.clear()
    return world


def restart(world: World, number: int) -> None:
    """At once, and nothing is left of what was on its way from or to it."""
    world.crash(number)
    for wire, packets in world.wires.items():
        if number in wire[:2]:
            packets.clear()
    world.start(number)


# --- recovery --------------------------------------------------------------------------------------------------------


def test_a_member_that_restarts_asks_all_and_learns_all_from_the_leader() -> None:
    """Section 4.3: with its life as the nonce."""
    world = with_entries(2)
    restart(world, 3)
    world.settle()
    assert world.transcript == [
        "3>1 Recovery(1)",
        "3>2 Recovery(1)",
        "1>3 Piece(0, 0 1)",
        "2>3 RecoveryResponse(1, 0, None)",
        "1>3 RecoveryResponse(1, 0, 0..2, 2)",
        "3>1 PrepareOk(0, 2)",
    ]
    assert world.log(3).status is Status.NORMAL
    assert world.applied(3) == [b"0", b"1"]


def test_a_member_that_has_not_recovered_does_not_vote() -> None:
    """Section 4.3: it says nothing but that it recovers."""
    world = with_entries(2)
    restart(world, 3)
    world.suspect(2)
    world.settle(without=(1,))
    assert [line for line in world.transcript if line.startswith("3>")] == ["3>2 Recovery(1)"]
    assert world.log(3).status is Status.RECOVERING
    assert world.log(2).status is Status.CHANGING
    world.settle()
    world.run(20 * PATIENCE)
    assert world.log(3).status is Status.NORMAL
    assert world.applied(3) == [b"0", b"1"]


def test_a_leader_that_restarts_comes_back_as_a_follower() -> None:
    world = with_entries(3)
    restart(world, 1)
    world.settle()
    assert world.log(1).status is Status.RECOVERING, "nobody leads"
    world.run(20 * PATIENCE)
    assert world.log(1).leader == 2
    assert world.applied(1) == world.applied(2)
    world.propose(2, b"3")
    world.settle()
    assert world.applied(1) == [b"0", b"1", b"2", b"3"]


def test_an_answer_to_an_earlier_life_is_no_answer() -> None:
    world = with_entries(1)
    restart(world, 3)
    world.deliver(3, 1)
    world.deliver(3, 2)
    late = [(sender, list(world.wires[sender, 3, 0])) for sender in (1, 2)]
    restart(world, 3)
    for sender, packets in late:
        assert isinstance(packets[-1], RecoveryResponse)
        for packet in packets:
            world.step(3, Received(packet, sender))
    assert world.log(3).status is Status.RECOVERING
    world.settle()
    assert world.applied(3) == [b"0"]


def test_a_recovering_member_waits_for_the_leader_of_the_latest_view() -> None:
    """Section 4.3: an older leader, which does not know that it was replaced, is not believed."""
    world = with_entries(1, size=5)
    world.suspect(2)
    world.settle(without=(1,))
    world.propose(2, b"new")
    world.settle(without=(1,))
    assert world.log(1).is_leader
    restart(world, 3)
    for other in (1, 4, 5):
        world.deliver(3, other)
    while world.wires[1, 3, 0]:
        world.deliver(1, 3)
    world.deliver(4, 3)
    world.deliver(5, 3)
    assert world.log(3).status is Status.RECOVERING
    world.deliver(3, 2)
    while world.wires[2, 3, 0]:
        world.deliver(2, 3)
    assert world.applied(3) == [b"0", b"new"]
    assert world.log(3).leader == 2


def test_a_vote_of_an_earlier_life_does_not_count() -> None:
    """What its sender promised then it has forgotten, and has since acknowledged an entry that the vote lacks.

    4 asks for view 1 and restarts, and its new wire is faster than its old one: 3 answers first and joins view 1 after.
    3 votes and restarts too. Both recover in view 0 and commit `x` there with 1; 2 has the vote of 3's first life.
    """
    world = World(5)
    world.suspect(2)
    world.deliver(2, 4)
    restart_but_keep_sent(world, 4)
    recover_with(world, 4, (1, 3, 5))
    world.deliver(4, 3, life=0)
    world.deliver(2, 3)
    world.deliver(3, 2)
    world.deliver(3, 2)
    assert world.log(3).view == 1
    restart_but_keep_sent(world, 3)
    recover_with(world, 3, (1, 4, 5))
    assert world.log(3).view == world.log(4).view == 0
    world.propose(1, b"x")
    for follower in (3, 4):
        while world.wires[1, follower, 0]:
            world.deliver(1, follower)
        while world.wires[follower, 1, 1]:
            world.deliver(follower, 1)
    assert world.applied(1) == [b"x"], "committed by 1, 3 and 4"
    world.settle(without=(1, 3, 4))
    world.settle()
    world.run(40 * PATIENCE)
    world.check_peace()
    assert world.history[0] == b"x"


def restart_but_keep_sent(world: World, number: int) -> None:
    """What it sent stays on its way."""
    kept = {wire: list(packets) for wire, packets in world.wires.items() if wire[0] == number}
    world.crash(number)
    for wire, packets in kept.items():
        world.wires[wire].clear()
        world.wires[wire].extend(packets)
    world.start(number)


def recover_with(world: World, number: int, helpers: tuple[int, ...]) -> None:
    for helper in helpers:
        world.deliver(number, helper)
        life = world.lives[helper]
        while world.wires.get((helper, number, life)):
            world.deliver(helper, number)
    assert world.log(number).status is Status.NORMAL


# --- state transfer --------------------------------------------------------------------------------------------------


def test_a_member_that_missed_entries_asks_once_and_goes_on() -> None:
    """Section 5.2, in the same view: what was sent while it recovered is missing."""
    world = with_entries(1, size=5)
    restart(world, 3)
    world.deliver(3, 1)
    world.propose(1, b"1")
    world.propose(1, b"2")
    while world.wires[1, 3, 0]:
        world.deliver(1, 3)
    world.propose(1, b"3")
    world.propose(1, b"4")
    world.settle()
    assert [line for line in world.transcript if "GetState" in line] == ["3>1 GetState(0, 1)"]
    assert world.applied(3) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_beat_shows_what_is_missing_even_if_nothing_follows() -> None:
    world = with_entries(0)
    world.propose(1, b"0")
    world.wires[1, 3, 0].clear()
    world.settle()
    world.run(2 * PATIENCE)
    assert world.applied(3) == [b"0"]


def test_one_far_behind_gets_a_snapshot_and_what_follows_it() -> None:
    world = with_entries(20, retained=3)
    restart(world, 3)
    world.settle()
    assert world.snapshots == 1
    assert world.applied(3) == world.applied(1)
    assert "1>3 RecoveryResponse(1, 0, 20..20, 20 with state at 20)" in world.transcript
    world.propose(1, b"next")
    world.settle()
    assert world.applied(3)[-1] == b"next"


def test_a_new_leader_far_behind_gets_a_snapshot_with_a_vote() -> None:
    world = with_entries(1, size=5, retained=3)
    for number in range(20):
        world.propose(1, b"n%d" % number)
    world.settle(without=(2,))
    world.crash(1)
    world.wires = {wire: packets for wire, packets in world.wires.items() if 1 not in wire[:2]}
    world.suspect(2)
    world.settle()
    assert world.log(2).is_leader
    assert world.snapshots == 1
    assert world.applied(2) == world.applied(3)
    assert len(world.applied(2)) == 21


def test_a_log_that_cannot_be_continued_leaves_the_old_one_in_force() -> None:
    """A member that heard of a view but has not got its log must not pass for one that has, nor forget what it had."""
    world = with_entries(1, size=5)
    world.propose(1, b"kept")
    world.deliver(1, 3)
    log = world.log(3)
    gap = Suffix(5, 5, 5, 0, 0)
    log.start_view(StartView(1, gap), 2)
    assert (log.status, log.view, log._normal_view) == (Status.CHANGING, 1, 0)
    assert log._journal.after(1) == [b"kept"]
    assert log._actions[-1].packet == GetState(1, 1)


def test_a_sender_that_crashes_within_a_transfer_is_as_if_it_had_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated_log_journal, "PIECE_BYTES_MAX", 2)
    world = with_entries(9, size=5)
    restart(world, 5)
    for other in (1, 2, 3):
        world.deliver(5, other)
    assert [type(packet) for packet in world.wires[1, 5, 0]] == [Piece] * 5 + [RecoveryResponse]
    for _ in range(3):
        world.deliver(1, 5)
    world.wires[1, 5, 0].clear()
    world.crash(1)
    world.settle()
    assert world.log(5).status is Status.RECOVERING
    assert world.applied(5) == []
    world.run(40 * PATIENCE)
    assert world.log(2).is_leader
    assert world.applied(5) == world.applied(2) == [b"%d" % number for number in range(9)]


def test_pieces_fit_frames_and_one_long_entry_goes_alone() -> None:
    sizes = (10, 50_000, 20_000, 150_000, 5, *(1 for _ in range(10_000)))
    pieces = list(replicated_log_journal.pieces_of(bytes(size) for size in sizes))
    assert [len(entry) for piece in pieces for entry in piece] == list(sizes)
    assert all(sum(map(len, piece)) <= PIECE_BYTES_MAX or len(piece) == 1 for piece in pieces)
    assert [len(piece) for piece in pieces][:4] == [2, 1, 1, 4096]


def test_a_snapshot_with_too_long_a_chunk_is_the_owners_mistake() -> None:
    world = with_entries(9, retained=1)
    world.log(1).snapshot = lambda: (bytes(PIECE_BYTES_MAX + 1),)
    restart(world, 3)
    with pytest.raises(ContractError, match="chunk"):
        world.deliver(3, 1)


# --- packets that cannot be ------------------------------------------------------------------------------------------

LOG = Suffix(0, 0, 0, 1, 0)
MALFORMED: tuple[tuple[int, int, Packet], ...] = (  # receiver, sender, packet; 1 leads view 0, 2 leads view 1
    (2, 3, Prepare(0, 4, 3, b"x")),
    (2, 9, Prepare(0, 4, 3, b"x")),
    (2, 1, Prepare(0, 4, 4, b"x")),
    (2, 1, Prepare(0, 0, 0, b"x")),
    (2, 1, Prepare(-3, 4, 3, b"x")),
    (2, 1, Prepare(0, NUMBER_LIMIT + 1, 0, b"x")),
    (1, 2, PrepareOk(0, 4)),
    (1, 2, PrepareOk(0, -1)),
    (1, 1, PrepareOk(0, 3)),
    (2, 3, PrepareOk(0, 3)),
    (2, 1, Commit(0, 3, 4)),
    (2, 3, Commit(0, 3, 3)),
    (2, 3, StartViewChange(0, 0)),
    (2, 3, StartViewChange(1, -1)),
    (2, 9, StartViewChange(1, 0)),
    (3, 1, DoViewChange(1, 0, ((1, 0),), LOG)),
    (2, 1, DoViewChange(1, 1, ((1, 0),), LOG)),
    (2, 1, DoViewChange(1, 0, ((3, 0),), LOG)),
    (2, 1, DoViewChange(1, 0, ((1, 0), (1, 1)), LOG)),
    (2, 1, DoViewChange(1, 0, ((1, 0), (9, 1)), LOG)),
    (2, 1, DoViewChange(1, 0, ((1, -1),), LOG)),
    (2, 1, DoViewChange(1, 0, ((1, 0),), Suffix(3, 4, 3, 1, 0))),
    (3, 1, StartView(1, LOG)),
    (3, 2, StartView(1, Suffix(3, 2, 2, 1, 0))),
    (3, 2, StartView(1, Suffix(3, 3, 4, 1, 0))),
    (3, 2, StartView(1, Suffix(3, 3, 3, 1, -1))),
    (3, 2, StartView(1, Suffix(3, 3, 3, 1, PIECES_MAX + 1))),
    (3, 2, StartView(1, Suffix(3, 3, 3, 1, 0, 1))),
    (3, 2, StartView(1, Suffix(5, 5, 4, 1, 0, 0))),
    (1, 2, GetState(0, 4)),
    (2, 3, GetState(0, 3)),
    (2, 3, Recovery(0)),
    (2, 9, Recovery(1)),
    (2, 3, RecoveryResponse(0, 0, ((3, 0),), LOG)),
    (2, 1, RecoveryResponse(0, 0, ((1, 0),), None)),
    (2, 9, Piece(1, 0, (b"x",))),
    (2, 3, Piece(1, -1, (b"x",))),
    (2, 3, Piece(1, PIECES_MAX, (b"x",))),
)


def state(world: World, number: int) -> tuple[object, ...]:
    log = world.log(number)
    journal = log._journal
    pieces = {member: list(incoming._pieces) for member, incoming in log._incoming.items()}
    return (
        log.view, log.status, journal.last, journal.committed, dict(journal._entries), dict(log._lives), pieces,
        dict(log._acknowledged), dict(log._suspicious), dict(log._told), log._asked,
    )  # fmt: skip


@pytest.mark.parametrize(("receiver", "sender", "packet"), MALFORMED, ids=lambda value: str(value)[:60])
def test_a_packet_that_makes_no_sense_changes_nothing(receiver: int, sender: int, packet: Packet) -> None:
    world = with_entries(3)
    log = world.log(receiver)
    before = state(world, receiver)
    with pytest.raises(PeerError):
        log._handlers[type(packet)](log, packet, sender)
    assert state(world, receiver) == before
    assert not log._actions


STALE: tuple[tuple[int, int, Packet], ...] = (
    (3, 1, Prepare(0, 4, 3, b"x")),
    (3, 1, Commit(0, 9, 9)),
    (3, 1, StartView(0, Suffix(0, 0, 0, 1, 0))),
    (1, 3, PrepareOk(0, 3)),
    (1, 3, GetState(0, 0)),
    (1, 3, StartViewChange(1, 0)),
    (2, 3, DoViewChange(1, 0, ((3, 0),), LOG)),
    (1, 3, RecoveryResponse(0, 0, ((3, 0),), None)),
)


@pytest.mark.parametrize(("receiver", "sender", "packet"), STALE, ids=lambda value: str(value)[:60])
def test_what_belongs_to_an_earlier_view_or_life_is_ignored(receiver: int, sender: int, packet: Packet) -> None:
    world = with_entries(3)
    world.suspect(2)
    world.settle()
    assert world.log(2).is_leader
    log = world.log(receiver)
    before = state(world, receiver)
    log._handlers[type(packet)](log, packet, sender)
    assert state(world, receiver) == before
    assert not log._actions
