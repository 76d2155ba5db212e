"""fifo, causal and semantic, and causal against a naive reading of its definition."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castbed.history import History, Kind, LocalEvent
from castbed.properties import ordering
from castbed.properties.ordering import causal, fifo, semantic
from framework.histories import node, told

TWO = "A submits A1\nA submits A2\n"


def test_a_later_message_delivered_first_breaks_fifo() -> None:
    (found,) = fifo(told(TWO + "B delivers A2\nB delivers A1"))
    assert found.kind == "wrong-order"
    assert found.words == "B delivered A2 before A1, although A submitted A1 first."
    assert [event.kind for event in found.events] == [Kind.SUBMIT, Kind.SUBMIT, Kind.DELIVER, Kind.DELIVER]
    assert fifo(told(TWO + "B delivers A1\nB delivers A2")) == []


def test_a_gap_does_not_break_fifo() -> None:
    assert fifo(told(TWO + "B delivers A2")) == []


def test_fifo_is_per_group() -> None:
    story = "A submits A1\nA submits A1 in 2\nB delivers A1 in 2; B delivers A1"
    assert fifo(told("A joins 2; B joins 2\n" + story)) == []


def test_a_repeated_delivery_does_not_break_fifo() -> None:
    assert fifo(told(TWO + "B delivers A1; B delivers A2; B delivers A1")) == []


def test_fifo_goes_on_through_a_restart_that_the_storage_survived() -> None:
    story = "A submits A1\nA crashes\nA {}\nA submits A1~1\nB delivers A1~1; B delivers A1"
    assert len(fifo(told(story.format("restarts")))) == 1
    assert fifo(told(story.format("restarts empty"))) == []


def test_every_late_message_breaks_fifo_once() -> None:
    story = TWO + "A submits A3\nB delivers A3; B delivers A1; B delivers A2"
    assert [violation.words.split(",")[0] for violation in fifo(told(story))] == [
        "B delivered A3 before A1",
        "B delivered A3 before A2",
    ]


def test_a_child_delivered_before_its_parent_breaks_semantic() -> None:
    """SB-S3."""
    story = "A submits A1\nB delivers A1; B submits B1 after A1\n"
    (late,) = semantic(told(story + "C delivers B1 after A1\nC delivers A1"))
    assert (late.kind, late.words) == ("parent-later", "C delivered B1, which answers A1, before A1.")
    (missing,) = semantic(told(story + "C delivers B1 after A1"))
    assert (missing.kind, missing.words) == ("parent-missing", "C delivered B1, which answers A1, without A1.")
    assert semantic(told(story + "C delivers A1; C delivers B1 after A1")) == []


def test_a_parent_that_nobody_ever_saw_breaks_semantic() -> None:
    assert [found.kind for found in semantic(told("B delivers B1 after A7"))] == ["parent-missing"]


def test_what_was_delivered_before_a_restart_counts_if_the_storage_survived() -> None:
    story = "A submits A1\nC delivers A1\nC crashes\nC {}\nB submits B1 after A1\nC delivers B1 after A1"
    assert semantic(told(story.format("restarts"))) == []
    assert len(semantic(told(story.format("restarts empty")))) == 1


ANSWERED = "A submits A1\nB delivers A1; B submits B1\n"


def test_an_answer_delivered_before_what_it_saw_breaks_causal() -> None:
    (found,) = causal(told(ANSWERED + "C delivers B1\nC delivers A1"))
    assert found.kind == "wrong-order"
    assert found.words == "C delivered B1 before A1, although B delivered A1 before it submitted B1."
    assert [(event.kind, event.node) for event in found.events] == [
        (Kind.SUBMIT, node("A")),
        (Kind.DELIVER, node("B")),
        (Kind.SUBMIT, node("B")),
        (Kind.DELIVER, node("C")),
        (Kind.DELIVER, node("C")),
    ]
    assert causal(told(ANSWERED + "C delivers A1; C delivers B1")) == []


def test_an_answer_without_what_it_saw_breaks_causal() -> None:
    (found,) = causal(told(ANSWERED + "C delivers B1"))
    assert (found.kind, len(found.events)) == ("missing", 4)
    assert found.words.startswith("C delivered B1 without A1, although")


def test_causal_includes_the_order_of_submission() -> None:
    (found,) = causal(told(TWO + "B delivers A2\nB delivers A1"))
    assert found.words == "B delivered A2 before A1, although A submitted A1 first."


def test_causal_is_transitive_and_says_through_what() -> None:
    story = ANSWERED + "C delivers B1; C submits C1\nD delivers C1\nD delivers A1; D delivers B1"
    found = causal(told(story.replace("C delivers B1", "C delivers A1; C delivers B1"), everybody="ABCD"))
    assert [violation.words for violation in found] == [
        "D delivered C1 before A1, although C delivered A1 before it submitted C1.",
        "D delivered C1 before B1, although C delivered B1 before it submitted C1.",
    ]
    far = "A submits A1 to B D\nB delivers A1; B submits B1 to C\nC delivers B1; C submits C1 to D\nD delivers C1"
    (missing,) = causal(told(far, everybody="ABCD"))
    assert missing.words == "D delivered C1 without A1, although A1 happened before C1, through B1."
    assert len(missing.events) == 6


def test_beyond_the_explained_violations_the_words_are_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "EXPLAINED_MAX", 0)
    (found,) = causal(told(ANSWERED + "C delivers B1\nC delivers A1"))
    assert found.words == "C delivered B1 before A1, although A1 happened before B1."
    assert len(found.events) == 4


@pytest.mark.parametrize(
    "story",
    [
        "C crashes\nC restarts\n" + ANSWERED.replace("A1\n", "A1 to A B\n", 1) + "C delivers B1",
        ANSWERED + "C crashes\nC restarts\nC delivers B1",
        ANSWERED + "C leaves 1\nC joins 1\nC delivers B1",
    ],
)
def test_who_was_not_addressed_or_not_there_all_the_time_may_lack_the_past(story: str) -> None:
    assert causal(told(story)) == []


def test_even_then_the_wrong_order_is_one() -> None:
    story = ANSWERED + "C leaves 1\nC joins 1\nC delivers B1; C delivers A1"
    assert [found.kind for found in causal(told(story))] == ["wrong-order"]


def test_causal_spans_groups() -> None:
    story = "A submits A1\nB delivers A1; B submits B1 in 2\nC delivers B1 in 2; C delivers A1"
    assert [found.kind for found in causal(told(f"A joins 2; B joins 2; C joins 2\n{story}"))] == ["wrong-order"]


def test_a_lost_memory_is_not_in_the_past() -> None:
    story = "A submits A1\nB delivers A1\nB crashes\nB {}\nB submits B1\nC delivers B1; C delivers A1"
    assert len(causal(told(story.format("restarts")))) == 1
    assert causal(told(story.format("restarts empty"))) == []


def test_deliveries_that_come_before_their_submissions_do_not_stop_the_check() -> None:
    story = "A delivers B1; A submits A1; A delivers A1\nB delivers A1; B submits B1; B delivers B1\nC delivers B1"
    assert {found.kind for found in causal(told(story))} == {"missing", "wrong-order"}


def test_the_order_of_the_list_between_nodes_does_not_matter() -> None:
    history = told(ANSWERED + "C delivers B1\nC delivers A1")
    by_lane = [event for number in (3, 2, 1) for event in history.by_node[number]]
    assert [found.words for found in causal(History(history.identity, by_lane))] == [
        found.words for found in causal(history)
    ]


# --- against the definition ----------------------------------------------------------------------------------------

PEOPLE = "ABCD"


@st.composite
def _chaotic(draw: st.DrawFn) -> History:
    """Submissions and deliveries in any order that has each delivery after its submission, at most once per node."""
    lines, known, counts, done = [], [], dict.fromkeys(PEOPLE, 0), set()
    for _ in range(draw(st.integers(0, 25))):
        who = draw(st.sampled_from(PEOPLE))
        fresh = [message for message in known if (who, message) not in done]
        if fresh and draw(st.booleans()):
            message = draw(st.sampled_from(fresh))
            done.add((who, message))
            lines.append(f"{who} delivers {message}")
        else:
            counts[who] += 1
            known.append(f"{who}{counts[who]}")
            to = draw(st.sets(st.sampled_from(PEOPLE))) if draw(st.booleans()) else None
            lines.append(f"{who} submits {known[-1]}" + (f" to {' '.join(sorted(to))}" if to else ""))
    return told("\n".join(lines), everybody=PEOPLE)


def _past(history: History) -> dict[tuple, set[tuple]]:
    """Every message with all that happened before it: the closure, straight from the definition."""
    past: dict[tuple, set[tuple]] = {}
    for event in sorted(history.of(Kind.SUBMIT), key=lambda event: event.at):
        lane = history.by_node[event.node]
        direct = {other.message for other in lane[: lane.index(event)] if other.mid is not None}
        past[event.message] = direct.union(*(past[message] for message in direct))
    return past


def _naively_overtaken(history: History) -> set[tuple]:
    """(node, message) for every message that its node should have delivered earlier."""
    past, submits = _past(history), {event.message: event for event in history.of(Kind.SUBMIT)}
    found = set()
    for number, delivered in history.deliveries.items():
        order = [event.message for event in delivered]
        for at, message in enumerate(order):
            for earlier in past[message] - set(order[:at]):
                to = submits[earlier].to
                if earlier in order or to is None or number in to:
                    found.add((number, earlier))
    return found


def _blamed(events: tuple[LocalEvent, ...]) -> tuple[int, tuple]:
    return events[-1].node, events[0].message


def test_the_chain_of_a_witness_holds_nothing_that_came_later() -> None:
    """C delivers B1 only after it submitted C2: what links the two is B2."""
    story = (
        "C submits C1\nB submits B1\nB submits B2 to B\nC delivers B2\nC submits C2 to B\nC delivers B1\nB delivers C2"
    )
    words = [violation.words for violation in causal(told(story))]
    assert "B delivered C2 without B1, although B1 happened before C2, through B2." in words


@given(_chaotic())
def test_causal_finds_what_the_definition_finds(history: History) -> None:
    found = causal(history)
    assert {_blamed(violation.events) for violation in found} == _naively_overtaken(history)
    assert len(found) == len({_blamed(violation.events) for violation in found})


@given(_chaotic())
def test_fifo_finds_what_the_definition_finds(history: History) -> None:
    naive = set()
    for number, delivered in history.deliveries.items():
        for at, event in enumerate(delivered):
            if any(other.mid.sender == event.mid.sender and other.mid > event.mid for other in delivered[:at]):
                naive.add((number, event.message))
    assert {(found.events[-1].node, found.events[-1].message) for found in fifo(history)} == naive


@given(_chaotic())
def test_witnesses_are_in_time_order(history: History) -> None:
    for violation in causal(history) + fifo(history):
        assert all(first.at <= second.at for first, second in pairwise(violation.events))
