"""no_needless_wait, for protocols that promise semantic order and for those that promise causal order."""

from __future__ import annotations

from castbed.properties import Violation
from castbed.properties.waiting import no_needless_wait
from framework.histories import told

SEMANTIC = ("semantic",)


def waits(story: str, guarantees: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    found: list[Violation] = no_needless_wait(told(story, guarantees=guarantees))
    return [(violation.kind, violation.words) for violation in found]


TWO = "A submits A1\nA submits A2\n"
LATE = ("late-release", "B went on holding A2 after A1, the last that it had to wait for.")
NEEDLESS = ("needless-hold", "B held A2 back although nothing that A2 depends on was missing.")


def test_a_message_released_with_its_last_predecessor_did_not_wait_needlessly() -> None:
    assert waits(TWO + "B holds A2 for A1\nB delivers A1; B delivers A2") == []


def test_a_message_released_in_a_later_step() -> None:
    assert waits(TWO + "B holds A2 for A1\nB delivers A1\nB delivers A2") == [LATE]


def test_a_message_held_when_nothing_was_missing() -> None:
    assert waits(TWO + "B delivers A1\nB holds A2\nB delivers A2") == [NEEDLESS]


def test_waiting_for_a_concurrent_message_is_needless() -> None:
    assert waits("A submits A2\nC submits C1\nB holds A2 for C1\nB delivers C1; B delivers A2") == [NEEDLESS]


def test_waiting_through_others_for_the_last_predecessor() -> None:
    story = "A submits A1\nC delivers A1; C submits C1\nA delivers C1; A submits A2\nB holds A2\n"
    assert waits(story + "B delivers A1; B delivers C1; B delivers A2") == []
    assert waits(story + "B delivers A1\nB delivers C1\nB delivers A2") == [(LATE[0], LATE[1].replace("A1", "C1"))]


def test_a_message_delivered_without_its_past_waited_for_it_all_the_same() -> None:
    assert waits(TWO + "B holds A2 for A1\nB delivers A2") == []
    assert waits(TWO + "B holds A2 for A1\nB delivers A2\nB delivers A1") == []


def test_a_past_that_addresses_others_is_no_reason_to_wait() -> None:
    assert waits("A submits A1 to C\nA submits A2\nB holds A2 for A1\nB delivers A2") == [NEEDLESS]


def test_semantic_order_waits_for_ancestors_only() -> None:
    story = TWO + "B holds A2 for A1\nB delivers A1; B delivers A2"
    assert waits(story, SEMANTIC) == [NEEDLESS]
    child = story.replace("submits A2", "submits A2 after A1").replace("holds A2 for", "holds A2 after A1 for")
    child = child.replace("delivers A2", "delivers A2 after A1")
    assert waits(child, SEMANTIC) == []
    assert waits(child.replace("B delivers A1; ", "B delivers A1\n"), SEMANTIC) == [LATE]


def test_semantic_order_looks_at_all_ancestors() -> None:
    tree = "A submits A1\nC submits C1 after A1\nA submits A2 after C1\nB holds A2 after C1\n"
    assert waits(tree + "B delivers A1; B delivers C1 after A1; B delivers A2 after C1", SEMANTIC) == []
    assert waits(tree + "B delivers A1; B delivers C1 after A1\nB delivers A2 after C1", SEMANTIC) == [
        (LATE[0], LATE[1].replace("A1", "C1"))
    ]
    assert waits(tree + "B delivers A2 after C1", SEMANTIC) == []


def test_a_hold_of_an_earlier_life_is_forgotten() -> None:
    assert waits(TWO + "B holds A2 for A1\nB crashes\nB restarts\nB delivers A1\nB delivers A2") == []


def test_a_redelivery_after_the_loss_of_the_storage_is_worth_waiting_for() -> None:
    story = "A submits A1\nA submits A2 after A1\nB delivers A1\nB crashes\nB restarts empty\nB holds A2 after A1\n"
    assert waits(story + "B delivers A1; B delivers A2 after A1", SEMANTIC) == []
