"""S_B ordering over random trees and arrivals: properties SB-S1 to S9 and invariants SB-I1 to I6."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castbed import Message, Mid
from castbed_plugins.sb import LiteralOrdering, Ordering
from castbed_plugins.sb.ordering import OrderingSteps

STORES = pytest.mark.parametrize("make", [Ordering, LiteralOrdering])
Make = Callable[[], OrderingSteps]
WRITERS = 4


@st.composite
def threads(draw: st.DrawFn) -> list[Message]:
    """Messages of a few writers, each answering one that was written before or nothing (S1, S2), in arrival order."""
    parents = draw(st.lists(st.tuples(st.integers(1, WRITERS), st.integers(0, 60)), min_size=1, max_size=40))
    counts = dict.fromkeys(range(1, WRITERS + 1), 0)
    written: list[Message] = []
    for writer, choice in parents:
        counts[writer] += 1
        parent = written[choice % len(written)].mid if written and choice % 5 else None
        written.append(Message(Mid(writer, counts[writer]), parent=parent))
    return draw(st.permutations(written))


def arrivals_needed(arrivals: list[Message]) -> dict[Mid, int]:
    """The oracle: a message is delivered when the last of it and its ancestors has arrived."""
    at = {message.mid: step for step, message in enumerate(arrivals)}
    parent = {message.mid: message.parent for message in arrivals}

    def due(mid: Mid | None) -> int:
        return -1 if mid is None else max(at[mid], due(parent[mid]))

    return {mid: due(mid) for mid in at}


@STORES
@given(arrivals=threads())
def test_each_message_is_delivered_when_its_last_ancestor_arrives(make: Make, arrivals: list[Message]) -> None:
    """S3, S4, S5, S6, S8, S9: together they fix the time of delivery exactly."""
    ordering = make()
    delivered_at = {m.mid: step for step, one in enumerate(arrivals) for m in ordering.receive(one)}
    assert delivered_at == arrivals_needed(arrivals)
    assert ordering.held() == []


@STORES
@given(arrivals=threads())
def test_the_invariants_hold_after_each_step(make: Make, arrivals: list[Message]) -> None:
    ordering = make()
    delivered: list[Mid] = []
    for arrival in arrivals:
        for message in ordering.receive(arrival):
            assert message.parent is None or message.parent in delivered, "I4"
            delivered.append(message.mid)
        expanded = {
            Mid(sender, number, life)
            for (sender, life), numbers in ordering.delivered.items()
            for low, high in numbers.intervals()
            for number in range(low, high + 1)
        }
        assert expanded == set(delivered), "I1"
        assert len(expanded) == len(delivered), "I5: the total"
        held = ordering.held()
        assert ordering.held_count == len(held)
        assert not any(ordering.is_delivered(message.parent) for message in held), "I2"
        assert not any(ordering.is_delivered(message.mid) for message in held), "I3"
        for numbers in ordering.delivered.values():
            pairs = numbers.intervals()
            assert all(low <= high for low, high in pairs), "I5"
            assert all(one[1] + 2 <= other[0] for one, other in pairwise(pairs)), "I5"
    assert held == [], "I6"


@given(arrivals=threads())
def test_both_stores_deliver_the_same_messages_in_each_step(arrivals: list[Message]) -> None:
    indexed, literal = Ordering(), LiteralOrdering()
    released = False
    for arrival in arrivals:
        one, other = indexed.receive(arrival), literal.receive(arrival)
        assert {m.mid for m in one} == {m.mid for m in other}
        if not released:
            assert one == other, "until a row was emptied, even siblings come in the same order"
        released = released or len(one) > 1


@STORES
def test_the_same_arrivals_give_the_same_deliveries(make: Make) -> None:
    """SB-R17."""
    random = Random(7)
    arrivals = [Message(Mid(1, n), parent=Mid(1, random.randrange(1, n)) if n > 1 else None) for n in range(1, 200)]
    random.shuffle(arrivals)
    once, again = make(), make()
    assert [once.receive(m) for m in arrivals] == [again.receive(m) for m in arrivals]


def test_a_chain_of_100_000_is_released_in_one_step() -> None:
    """SB-R8."""
    depth = 100_000
    ordering = Ordering()
    for number in range(depth, 1, -1):
        assert ordering.receive(Message(Mid(1, number), parent=Mid(1, number - 1))) == []
    released = ordering.receive(Message(Mid(1, 1)))
    assert [message.mid.seqno for message in released] == list(range(1, depth + 1))
    assert ordering.held_count == 0
    assert ordering.delivered[1, 0].intervals() == ((1, depth),)


def test_lives_of_a_writer_are_told_apart() -> None:
    """SB-R5: a reply to a message of the first life does not wait for one of the second."""
    ordering = Ordering()
    ordering.receive(Message(Mid(1, 1, 0)))
    assert not ordering.is_delivered(Mid(1, 1, 1))
    assert ordering.receive(Message(Mid(2, 1), parent=Mid(1, 1, 1))) == []
    assert len(ordering.receive(Message(Mid(1, 1, 1)))) == 2
