"""integrity and no_duplication."""

from __future__ import annotations

import pytest

from castbed.errors import ConfigurationError
from castbed.history import History
from castbed.properties import CHECKS, VIOLATIONS_MAX, check
from castbed.properties.basic import integrity, no_duplication
from framework.histories import node, told


def kinds(found: list) -> list[str]:
    return [violation.kind for violation in found]


GOOD = """
    A submits A1; A delivers A1
    B delivers A1; C delivers A1
    B submits B1 after A1; B delivers B1 after A1
    A delivers B1 after A1; C delivers B1 after A1
"""


def test_a_good_history_violates_nothing() -> None:
    results = check(told(GOOD), [each.name for each in CHECKS])
    assert len(results) == 19
    assert results == {each.name: [] for each in CHECKS}


def test_an_empty_history_violates_nothing() -> None:
    assert not any(check(told("", everybody=""), [each.name for each in CHECKS]).values())


def test_an_unknown_property_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(ConfigurationError, match=r"no property 'cuasal' .*causal"):
        check(told(""), ["cuasal"])


def test_only_the_first_violations_are_returned() -> None:
    history = told("\n".join(["B delivers A1"] * (VIOLATIONS_MAX + 5)))
    assert len(no_duplication(history)) == VIOLATIONS_MAX


def test_a_delivery_of_what_nobody_submitted() -> None:
    """P6.5, V-G1 f."""
    (found,) = integrity(told("B delivers A1"))
    assert found.kind == "unknown-message"
    assert found.words == "B delivered A1, which nobody submitted."
    assert [event.node for event in found.events] == [node("B")]


def test_the_same_number_in_another_group_is_another_message() -> None:
    story = "A joins 2; B joins 2\nA submits A1\nB delivers A1 in 2"
    (found,) = integrity(told(story))
    assert found.kind == "unknown-message"
    assert "A1 of group 2" in found.words


def test_an_altered_payload() -> None:
    (found,) = integrity(told("A submits A1\nB delivers A1 as forged"))
    assert found.kind == "altered-payload"
    assert found.words == "B delivered A1 with another payload than A submitted."
    assert [event.node for event in found.events] == [node("A"), node("B")]


def test_an_altered_parent() -> None:
    (found,) = integrity(told("A submits A1\nA submits A2 after A1\nB delivers A2"))
    assert found.kind == "altered-parent"
    assert "as an answer to nothing; it was submitted as an answer to A1" in found.words


@pytest.mark.parametrize(
    "story",
    [
        "A submits A1\nD delivers A1",
        "B leaves 1\nA submits A1\nB delivers A1",
        "B crashes\nA submits A1\nB delivers A1",
        "A submits A1\nC joins 2; C delivers A1 in 1; C leaves 1\nC delivers A1",
        "A submits A1 to C\nD delivers A1",
    ],
)
def test_a_delivery_at_a_node_that_is_no_member_then(story: str) -> None:
    assert kinds(integrity(told(story))) == ["not-a-member"]


def test_a_node_that_is_listed_need_not_be_a_member() -> None:
    assert integrity(told("A submits A1 to D\nD delivers A1")) == []


def test_a_delivery_before_the_submission_at_the_same_node() -> None:
    (found,) = integrity(told("A delivers A1; A submits A1"))
    assert found.kind == "before-submission"


def test_two_messages_of_one_identity() -> None:
    (found,) = integrity(told("A submits A1\nA submits A1"))
    assert found.kind == "reused-identity"
    (other,) = integrity(told("A submits A1\nB submits A1"))
    assert other.words == "B submitted another message as A1, the identity of a message of A."


def test_a_message_delivered_twice() -> None:
    """P6.6, V-G1 g."""
    (found,) = no_duplication(told("A submits A1\nB delivers A1\nB delivers A1"))
    assert found.kind == "repeated"
    assert found.words == "B delivered A1 again."
    assert len(found.events) == 2


def test_a_restart_forgets_only_with_the_storage() -> None:
    story = "A submits A1\nB delivers A1\nB crashes\nB {}\nB delivers A1"
    (found,) = no_duplication(told(story.format("restarts")))
    assert found.kind == "repeated-after-restart"
    assert no_duplication(told(story.format("restarts empty"))) == []


def test_facts_are_read_anew_for_another_history() -> None:
    history = told("B delivers A1")
    assert kinds(integrity(history)) == ["unknown-message"]
    assert kinds(integrity(History(history.identity, history.events[:-1]))) == []
