"""agreement, validity, exactly_once, liveness and recovery: who has to deliver what."""

from __future__ import annotations

import pytest

from castbed.history import History, Kind, LocalEvent, RunIdentity
from castbed.properties import Property, Violation
from castbed.properties.reliable import agreement, exactly_once, liveness, recovery, validity
from castbed.values import Mid
from framework.histories import told


def words(found: list[Violation]) -> list[str]:
    return [violation.words for violation in found]


ONLY_B = "A submits A1; A delivers A1\nB delivers A1"
NOBODY_ELSE = "A submits A1; A delivers A1"


def test_a_message_that_one_member_lacks_breaks_agreement() -> None:
    (found,) = agreement(told(ONLY_B))
    assert found.kind == "missing"
    assert found.words == "A delivered A1, but C never delivered it."
    assert [event.kind for event in found.events] == [Kind.JOIN, Kind.SUBMIT, Kind.DELIVER]


@pytest.mark.parametrize(
    "excuse",
    [
        "C leaves 1",
        "C crashes",
        "C crashes\nC restarts",
        "C detaches",
        "C leaves 1\nC joins 1",
    ],
)
def test_who_does_not_stay_need_not_deliver(excuse: str) -> None:
    for property_ in (agreement, exactly_once, liveness):
        assert property_(told(f"{ONLY_B}\n{excuse}")) == []


def test_who_was_away_and_came_back_stays() -> None:
    story = f"C detaches\n{ONLY_B}\nC attaches"
    for property_ in (agreement, exactly_once, liveness, recovery):
        assert len(property_(told(story))) == 1


def test_what_was_submitted_before_a_member_joined_is_not_owed_to_it() -> None:
    story = f"{ONLY_B}\nC joins 1"
    for property_ in (agreement, exactly_once, liveness):
        assert property_(told(story, everybody="AB")) == []


def test_who_joins_in_the_same_moment_is_before_or_after_by_the_order_of_the_list() -> None:
    before = "C joins 1; A submits A1; A delivers A1; B delivers A1"
    after = "A submits A1; A delivers A1; B delivers A1; C joins 1"
    assert len(agreement(told(before, everybody="AB"))) == 1
    assert agreement(told(after, everybody="AB")) == []


def test_members_from_the_start_count_even_if_their_capture_is_read_later() -> None:
    """Captures are read one after the other: the first message of A may be listed before B starts, at the same time."""
    mid = Mid(1, 1)
    lanes = [
        (1, [(Kind.START, 0), (Kind.JOIN, 1)]),
        (2, [(Kind.START, 0), (Kind.JOIN, 1)]),
    ]
    events = []
    for number, starts in lanes:
        events += [LocalEvent(number, 0, kind, group) for kind, group in starts]
        if number == 1:
            events += [LocalEvent(1, 0, kind, 1, mid) for kind in (Kind.SUBMIT, Kind.DELIVER)]
    assert len(agreement(History(RunIdentity(names=("A", "B")), events))) == 1


def test_a_message_for_some_is_owed_to_those_only() -> None:
    story = "A submits A1 to A B\nA delivers A1; B delivers A1"
    for property_ in (agreement, exactly_once, liveness, validity, recovery):
        assert property_(told(story)) == []
    assert len(agreement(told("A submits A1 to A B\nA delivers A1"))) == 1


def test_a_message_submitted_in_an_agreed_view_is_owed_to_its_members() -> None:
    story = "A views 1 A B; B views 1 A B; C views 2 A B C\n" + ONLY_B
    assert agreement(told(story)) == []
    assert len(agreement(told(story.replace("views", "views local")))) == 1


def test_a_delivery_by_one_who_does_not_stay_obliges_nobody() -> None:
    assert agreement(told("A submits A1; A delivers A1\nA crashes")) == []


def test_a_member_that_lacks_its_own_message_breaks_validity() -> None:
    (found,) = validity(told("A submits A1\nB delivers A1"))
    assert found.kind == "own-message"
    assert found.words == "A never delivered A1, its own message."
    assert validity(told("A submits A1\nA crashes")) == []
    assert validity(told("A submits A1 to B C")) == []


def test_the_message_of_one_who_is_no_member_must_reach_somebody() -> None:
    (found,) = validity(told("D submits D1"))
    assert found.kind == "lost"
    assert found.words == "D submitted D1; of A, B and C, nobody delivered it."
    assert validity(told("D submits D1\nB delivers D1")) == []
    assert validity(told("D submits D1\nD crashes")) == []
    assert validity(told("D submits D1\nD detaches")) == []


def test_exactly_once_is_neither_never_nor_twice() -> None:
    (missing,) = exactly_once(told(ONLY_B))
    assert (missing.kind, missing.words) == ("missing", "A submitted A1, but C never delivered it.")
    (repeated,) = exactly_once(told(f"{ONLY_B}\nC delivers A1\nC delivers A1"))
    assert (repeated.kind, repeated.words) == ("repeated", "C delivered A1 2 times.")
    assert exactly_once(told(f"{ONLY_B}\nC delivers A1")) == []


def test_the_message_of_a_submitter_that_crashed_is_owed_if_one_who_stays_has_it() -> None:
    assert exactly_once(told(f"{NOBODY_ELSE}\nA crashes")) == []
    assert words(exactly_once(told(f"{ONLY_B}\nA crashes"))) == ["A submitted A1, but C never delivered it."]


def test_the_message_of_a_submitter_that_is_away_cannot_be_asked_for() -> None:
    story = f"A detaches\n{NOBODY_ELSE}"
    assert exactly_once(told(story)) == []
    assert liveness(told(story)) == []
    assert len(liveness(told(f"{story}\nA attaches"))) == 2


def test_what_is_held_at_the_end_breaks_liveness() -> None:
    story = "A submits A1\nA submits A2\nA delivers A1; A delivers A2\nB holds A2 for A1"
    found = liveness(told(story, everybody="AB"))
    assert [violation.kind for violation in found] == ["held", "undelivered", "undelivered"]
    assert found[0].words == "B still holds A2 at the end, waiting for A1."
    released = f"{story}\nB delivers A1; B delivers A2"
    assert liveness(told(released, everybody="AB")) == []


@pytest.mark.parametrize("excuse", ["B crashes", "B crashes\nB restarts", "B detaches", "B leaves 1"])
def test_what_is_held_where_nobody_waits_any_more_is_no_matter(excuse: str) -> None:
    assert liveness(told(f"B holds A2 for A1\n{excuse}")) == []


def test_what_a_node_holds_when_it_leaves_is_not_waited_for_when_it_joins_again() -> None:
    story = "A submits A1\nA submits A2\nA delivers A1; A delivers A2\nB holds A2 for A1\nB leaves 1\nB joins 1"
    assert liveness(told(story, everybody="AB")) == []


def test_what_went_with_its_submitter_may_be_held_for_ever() -> None:
    """C waits for A1, which only the crashed A had; if A remembers, or somebody has A2, C is owed it."""
    story = "A submits A1\nA submits A2 after A1\nA delivers A1; A delivers A2\nC holds A2 for A1"
    assert liveness(told(f"{story}\nA crashes")) == []
    assert liveness(told(f"{story}\nA crashes\nA restarts empty")) == []
    assert [found.kind for found in liveness(told(f"{story}\nA crashes\nA restarts"))] == ["held"]
    assert [found.kind for found in liveness(told(f"{story}\nB delivers A1; B delivers A2\nA crashes"))] == ["held"]


def test_a_message_that_nobody_delivers_breaks_liveness() -> None:
    assert len(liveness(told("A submits A1"))) == 3
    assert liveness(told("A submits A1\nA crashes")) == []


@pytest.mark.parametrize(
    ("story", "everybody"),
    [
        (f"{ONLY_B}\nC joins 1", "AB"),
        (f"C crashes\n{ONLY_B}\nC restarts", "ABC"),
        (f"{ONLY_B}\nC delivers A1\nC crashes\nC restarts empty", "ABC"),
    ],
)
def test_recovery_asks_for_what_was_missed(story: str, everybody: str) -> None:
    (found,) = recovery(told(story, everybody=everybody))
    assert found.words == "A has A1, but C never delivered it."
    assert recovery(told(f"{story}\nC delivers A1", everybody=everybody)) == []


def test_recovery_counts_what_a_node_remembers() -> None:
    story = f"{ONLY_B}\nC delivers A1\nC crashes\nC restarts"
    assert recovery(told(story)) == []


@pytest.mark.parametrize("property_", [agreement, recovery])
def test_what_only_an_absent_node_has_is_not_asked_for(property_: Property) -> None:
    assert property_(told(f"A detaches\n{NOBODY_ELSE}")) == []
