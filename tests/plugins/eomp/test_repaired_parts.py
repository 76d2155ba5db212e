"""The parts of a repaired host: what may be delivered next, what may be sent next, and how long to wait."""

from __future__ import annotations

from random import Random

from castbed import Context, Message, Mid, topology
from castbed_plugins.eomp.repaired.inbox import RANGES_MAX, Inbox
from castbed_plugins.eomp.repaired.outbox import Outbox
from castbed_plugins.eomp.repaired.packets import Numbered
from castbed_plugins.eomp.repaired.timing import Patience

MS = 10**6
CONTEXT = Context(1, topology.broadcast(("A",)), Random(1))


def numbered(seq: int, number: int | None = None, group: int = 1, before: tuple[tuple[int, int], ...] = ()) -> Numbered:
    return Numbered(group, Mid(9, seq), b"", None, seq, number or seq, before)


def inbox(*groups: int, ahead_max: int = 100) -> Inbox:
    made = Inbox(ahead_max)
    for group in groups:
        made.enter(group, 0)
    return made


def delivered(box: Inbox, *packets: Numbered) -> list[int]:
    """The numbers that can be delivered when these are there."""
    for packet in packets:
        assert box.keep(packet)
    return [packet.number for packet in box.next_ones()]


def test_a_message_waits_for_those_before_it_in_its_group() -> None:
    """E4."""
    box = inbox(1)
    assert delivered(box, numbered(3), numbered(2)) == []
    assert (box.lacks(), box.ranges(), box.vector()) == (True, ((1, 2, 3),), ((1, 0),))
    assert delivered(box, numbered(1)) == [1, 2, 3]
    assert (box.lacks(), box.waiting) == (False, 0)


def test_a_message_waits_for_those_before_it_in_other_groups_of_the_host() -> None:
    box = inbox(1, 2)
    assert delivered(box, numbered(1, 2, group=2, before=((1, 1), (3, 7)))) == []
    assert delivered(box, numbered(1, 1)) == [1, 2]


def test_what_a_group_had_before_the_host_joined_it_late_is_passed_over() -> None:
    box = inbox(1)
    assert delivered(box, *(numbered(seq, 2 * seq) for seq in (1, 2, 3))) == [2, 4, 6]
    box.enter(2, 0)
    assert delivered(box, numbered(1, 5, group=2), numbered(2, 7, group=2, before=((1, 3),))) == [7]
    assert box.vector() == ((1, 3), (2, 2))


def test_a_group_that_is_left_holds_nothing_up() -> None:
    box = inbox(1, 2)
    assert delivered(box, numbered(1, 2, group=2, before=((1, 1),)), numbered(2, 3)) == []
    box.forget(1)
    assert [packet.number for packet in box.next_ones()] == [2]
    assert (box.waiting, box.lacks()) == (0, False)


def test_what_lies_too_far_ahead_is_not_kept_but_known_of() -> None:
    box = inbox(1, ahead_max=5)
    assert not box.keep(numbered(6 + 1))
    assert (box.waiting, box.lacks()) == (0, True)
    assert box.keep(numbered(5))


def test_only_what_was_announced_of_own_groups_is_lacked() -> None:
    box = inbox(1)
    box.announce(((2, 9),))
    assert not box.lacks()
    box.announce(((1, 1),))
    assert box.lacks()


def test_a_report_names_a_limited_number_of_ranges() -> None:
    box = inbox(1, ahead_max=1000)
    for seq in range(2, 4 * RANGES_MAX, 2):
        box.keep(numbered(seq))
    assert len(box.ranges()) == RANGES_MAX
    assert box.ranges()[0] == (1, 2, 2)


def message(number: int, life: int = 0) -> Message:
    return Message(Mid(7, number, life))


def sent(box: Outbox) -> list[tuple[int, int]]:
    return [(one.mid.incarnation, one.mid.seqno) for one in box.start()]


def test_a_window_of_requests_is_on_its_way() -> None:
    box = Outbox(window=2, bundle_bytes=1)
    box.add([message(1), message(2)])
    box.add([message(3)])
    assert sent(box) == [(0, 1), (0, 2)]
    assert [one.mid.seqno for one in box.taken(Mid(7, 2))] == [1, 2]
    assert sent(box) == [(0, 3)]
    assert list(box.taken(Mid(7, 2))) == []
    assert box.messages == 1


def test_requests_of_a_life_wait_until_those_of_the_life_before_are_numbered() -> None:
    box = Outbox(window=8, bundle_bytes=1)
    box.add([message(4), message(5)])
    box.add([message(1, life=1)])
    assert sent(box) == [(0, 4), (0, 5)]
    assert list(box.taken(Mid(7, 1, 1))) == []
    assert len(list(box.taken(Mid(7, 5)))) == 2
    assert sent(box) == [(1, 1)]


def test_a_wait_is_that_of_the_paper_until_answers_take_longer() -> None:
    patience = Patience(25 * MS, 1000 * MS, CONTEXT)
    assert 25 * MS <= patience.wait() <= 32 * MS
    for _ in range(50):
        patience.answered(200 * MS)
    assert 200 * MS <= patience.wait() <= 260 * MS


def test_a_wait_grows_with_every_silence_up_to_a_limit_and_begins_anew() -> None:
    patience = Patience(25 * MS, 1000 * MS, CONTEXT)
    waits = []
    for _ in range(40):
        waits.append(patience.wait())
        patience.not_answered()
    assert 37 * MS <= waits[1] <= 47 * MS
    assert 1000 * MS <= max(waits) <= 1250 * MS
    for _ in range(4):
        patience.answered_at_last()
    assert 50 * MS <= patience.wait() <= 80 * MS
    patience.begin_anew()
    assert patience.wait() <= 32 * MS
