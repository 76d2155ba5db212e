"""The properties on views; group-views P6.1, P6.2, P6.7 to P6.9 and the test vector V-G1."""

from __future__ import annotations

import pytest

from castbed.history import History
from castbed.properties import check
from castbed.properties.views import (
    convergent_views,
    same_view_delivery,
    self_inclusion,
    sending_view_delivery,
    view_monotonicity,
    virtual_synchrony,
)
from framework.histories import told

ON_VIEWS = (
    "integrity", "no_duplication", "self_inclusion", "view_monotonicity", "sending_view_delivery", "same_view_delivery",
    "virtual_synchrony",
)  # fmt: skip

BASE = "A views 0 A B; B views 0 A B\n"


def grown(story: str) -> History:
    """V-G1: A and B are in view 0; C joins in the course of the story."""
    return told(BASE + story, everybody="AB")


@pytest.mark.parametrize(
    ("appended", "fires"),
    [
        (
            "A submits A1\nA delivers A1; B delivers A1\nC joins 1\nC views 1 A B C; A views 1 A B C; B views 1 A B C",
            (),
        ),
        ("C joins 1\nA views 1 B C", ("self_inclusion",)),
        ("C joins 1\nA views 2 A B C\nA views 1 A B C", ("view_monotonicity",)),
        (
            "A submits A1; A delivers A1\nC joins 1\nB views 1 A B C\nB delivers A1",
            ("sending_view_delivery", "same_view_delivery"),
        ),
        ("A submits A1; A delivers A1\nC joins 1\nA views 1 A B C; B views 1 A B C", ("virtual_synchrony",)),
        ("A delivers A1", ("integrity",)),
        ("A submits A1\nA delivers A1; A delivers A1", ("no_duplication",)),
    ],
    ids=["ok", "a", "b", "d", "e", "f", "g"],
)
def test_exactly_the_expected_properties_are_violated(appended: str, fires: tuple[str, ...]) -> None:
    """V-G1 (its cases c and h to j are about properties that are not checked here)."""
    results = check(grown(appended), ON_VIEWS)
    assert tuple(name for name, found in results.items() if found) == fires


def test_a_view_without_the_one_who_installs_it() -> None:
    """P6.1."""
    (found,) = self_inclusion(grown("A views 1 B C"))
    assert (found.kind, found.words) == ("left-out", "A installed view 1 (B and C), which leaves it out.")


def test_a_station_is_in_no_view() -> None:
    assert self_inclusion(grown("S views 1 A B")) == []


def test_numbers_that_do_not_grow() -> None:
    """P6.2."""
    found = view_monotonicity(grown("A views 0 A B\nB views 2 A B\nB views 1 A B"))
    assert [violation.kind for violation in found] == ["repeated", "backwards"]
    assert found[1].words == "B installed view 1 (A and B) after view 2 (A and B)."


def test_numbers_may_begin_again_in_a_new_life() -> None:
    assert view_monotonicity(grown("A views 1 A B\nA crashes\nA restarts\nA views 0 A B")) == []


def test_a_delivery_in_another_view_than_that_of_the_submission() -> None:
    """P6.7, D1."""
    (found,) = sending_view_delivery(grown("A submits A1\nB views 1 A B C\nB delivers A1"))
    assert found.kind == "other-view"
    assert found.words == "A submitted A1 in view 0 (A and B), B delivered it in view 1 (A, B and C)."


def test_a_delivery_before_any_view() -> None:
    (found,) = sending_view_delivery(told("A views 1 A B\nA submits A1\nB delivers A1"))
    assert found.kind == "before-any-view"


def test_views_of_one_number_and_different_members_are_different() -> None:
    story = "A views 1 A B C; B views 1 A B D\nA submits A1\nB delivers A1; A delivers A1"
    assert len(sending_view_delivery(grown(story))) == 1
    assert len(same_view_delivery(grown(story))) == 1


def test_a_submitter_without_views_says_nothing_about_views() -> None:
    assert sending_view_delivery(grown("D submits D1\nA delivers D1; B views 1 A B\nB delivers D1")) == []


def test_deliveries_in_different_views() -> None:
    """P6.8."""
    (found,) = same_view_delivery(grown("D submits D1\nA delivers D1\nB views 1 A B\nB delivers D1"))
    assert found.words == "A delivered D1 in view 0 (A and B), B in view 1 (A and B)."


def test_two_who_go_on_together_after_different_deliveries() -> None:
    """P6.9."""
    (found,) = virtual_synchrony(grown("A submits A1\nB delivers A1\nA views 1 A B; B views 1 A B"))
    assert found.words == ("B delivered A1 in view 0 (A and B), A did not, and both went on to view 1 (A and B).")


def test_a_message_for_one_of_them_is_no_matter() -> None:
    assert virtual_synchrony(grown("A submits A1 to B\nB delivers A1\nA views 1 A B; B views 1 A B")) == []


def test_who_goes_on_to_another_view_need_not_have_delivered_the_same() -> None:
    assert virtual_synchrony(grown("A submits A1\nB delivers A1\nA views 1 A B; B views 1 A B C")) == []


@pytest.mark.parametrize(
    "story",
    [
        "A submits A1\nB views {}1 A B C\nB delivers A1; A delivers A1",
        "A submits A1\nB delivers A1\nA views {}1 A B; B views {}1 A B",
    ],
)
def test_local_views_say_nothing_about_deliveries(story: str) -> None:
    properties = (sending_view_delivery, same_view_delivery, virtual_synchrony)
    assert any(property_(grown(story.replace("{}", ""))) for property_ in properties)
    local = grown(story.replace("{}", "local "))
    assert not any(property_(local) for property_ in properties)


def test_views_that_converged() -> None:
    assert convergent_views(grown("C joins 1\nA views 1 A B C; B views 1 A B C; C views 1 A B C")) == []
    assert convergent_views(told("")) == []


@pytest.mark.parametrize(
    ("story", "kinds"),
    [
        ("C joins 1\nA views 1 A B C; B views 1 A B C", ["no-view"]),
        ("C joins 1\nA views 1 A B C; C views 1 A B C", ["different", "absent-member"]),
        ("B leaves 1", ["not-a-member"]),
        ("A views 1 A B D; B views 1 A B D", ["not-a-member", "not-a-member"]),
    ],
)
def test_views_that_did_not_converge(story: str, kinds: list[str]) -> None:
    assert [found.kind for found in convergent_views(grown(story))] == kinds


@pytest.mark.parametrize("gone", ["B crashes", "B detaches", "B crashes\nA views 1 A", "B detaches\nA views 1 A"])
def test_one_who_crashed_or_is_away_may_be_listed_or_not(gone: str) -> None:
    assert convergent_views(grown(gone)) == []


def test_the_words_name_who_is_wrong() -> None:
    (found,) = convergent_views(grown("B leaves 1"))
    assert found.words == "At the end A is in view 0 (A and B), with B, not in the group."
    different, absent = convergent_views(grown("C joins 1\nA views 1 A B C; C views 1 A B C"))
    assert different.words == "At the end A is in view 1 (A, B and C) and B in view 0 (A and B)."
    assert absent.words == "At the end B is in view 0 (A and B), without C, present in the group."
