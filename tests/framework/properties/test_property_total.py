"""total and acyclic_total, and both against naive readings of their definitions."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from castbed.history import History
from castbed.properties.total import acyclic_total, total
from framework.histories import node, told

THREE = "A submits A1\nB submits B1\nC submits C1\n"


def orders(*lanes: str) -> History:
    """The history in which the first node delivers the first list of messages, and so on."""
    lines = [
        f"{name} delivers {message}" for name, lane in zip("ABCDE", lanes, strict=False) for message in lane.split()
    ]
    return told(THREE + "\n".join(lines), everybody="ABCDE")


def test_two_nodes_in_opposite_orders() -> None:
    history = orders("A1 B1", "B1 A1", "A1 B1")
    (found,) = total(history)
    assert found.kind == "wrong-order"
    assert found.words == "A delivered A1 before B1, but B delivered B1 before A1."
    assert [event.node for event in found.events] == [node("A"), node("A"), node("B"), node("B")]
    (circle,) = acyclic_total(history)
    assert (circle.kind, circle.words) == ("circle", found.words)


def test_equal_orders_and_gaps_are_in_order() -> None:
    history = orders("A1 B1 C1", "A1 C1", "B1 C1", "A1 B1", "")
    assert total(history) == []
    assert acyclic_total(history) == []


def test_a_circle_of_three_is_total_but_not_acyclic() -> None:
    history = orders("A1 B1", "B1 C1", "C1 A1")
    assert total(history) == []
    (found,) = acyclic_total(history)
    assert found.words == "A delivered A1 before B1, B delivered B1 before C1, but C delivered C1 before A1."
    assert len(found.events) == 6


def test_the_witness_is_the_shortest_circle() -> None:
    history = orders("A1 B1", "B1 C1", "C1 A1", "C1 B1")
    (found,) = acyclic_total(history)
    assert len(found.events) == 4


def test_a_long_way_at_one_node_is_one_step_of_the_circle() -> None:
    history = orders("A1 C1 B1", "B1 A1")
    (found,) = acyclic_total(history)
    assert found.words == "A delivered A1 before B1, but B delivered B1 before A1."


def test_each_tangle_is_reported() -> None:
    story = "".join(f"A submits A{n}\n" for n in range(1, 7))
    forth = "; ".join(f"A delivers A{n}" for n in (1, 2, 3, 4, 5, 6))
    back = "; ".join(f"B delivers A{n}" for n in (2, 1, 3, 4, 6, 5))
    history = told(f"{story}{forth}\n{back}")
    assert len(total(history)) == len(acyclic_total(history)) == 2


def test_total_spans_groups() -> None:
    story = "A joins 2; B joins 2\nA submits A1\nA submits A1 in 2\n"
    lanes = "A delivers A1; A delivers A1 in 2\nB delivers A1 in 2; B delivers A1"
    (found,) = total(told(story + lanes))
    assert found.words == (
        "A delivered A1 of group 1 before A1 of group 2, but B delivered A1 of group 2 before A1 of group 1."
    )


def test_a_lost_memory_is_another_sequence() -> None:
    story = THREE + "A delivers A1; A delivers B1\nA crashes\nA {}\nA delivers B1; A delivers A1"
    assert len(total(told(story.format("restarts empty")))) == 1
    assert total(told(story.format("restarts"))) == []


MESSAGES = ("A1", "B1", "C1", "A2", "B2", "C2")
_lanes = st.lists(st.lists(st.sampled_from(MESSAGES), unique=True).map(" ".join), min_size=2, max_size=4)


def _pairs(history: History) -> dict[int, set[tuple]]:
    return {
        number: set(combinations([event.message for event in delivered], 2))
        for number, delivered in history.deliveries.items()
    }


@given(_lanes)
def test_total_holds_exactly_when_no_two_nodes_disagree(lanes: list[str]) -> None:
    history = orders(*lanes)
    pairs = set().union(*_pairs(history).values())
    assert bool(total(history)) == any((second, first) in pairs for first, second in pairs)


@given(_lanes)
def test_the_circle_is_real_and_exists_exactly_when_the_closure_has_one(lanes: list[str]) -> None:
    history = orders(*lanes)
    before = set().union(*_pairs(history).values())
    while True:
        further = {(a, d) for a, b in before for c, d in before if b == c} - before
        if not further:
            break
        before |= further
    found = acyclic_total(history)
    assert bool(found) == any(first == second for first, second in before)
    for violation in found:
        assert len(violation.events) == 2 * len(violation.words.split(" delivered ")[1:])
        assert set(violation.events) <= set(history.events)
