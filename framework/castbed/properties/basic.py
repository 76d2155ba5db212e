"""What a delivery may be at all: of a message that was submitted, unaltered, to a member, and only once."""

from __future__ import annotations

from collections.abc import Iterator

from castbed.history import History
from castbed.properties.base import Violation, bounded, in_time
from castbed.properties.facts import Delivery, Facts, Submission
from castbed.properties.reading import facts_of


@bounded
def integrity(history: History) -> Iterator[Violation]:
    """Every delivery is of a message that was submitted, with that content, at a node that it may reach.

    Kinds: `reused-identity`, `unknown-message`, `before-submission` (seen at the submitter itself), `altered-payload`,
    `altered-parent`, `not-a-member` (neither a member at that moment nor listed in the message's `to`).
    """
    facts = facts_of(history)
    for first, again in facts.reused:
        words = f"{facts.name(again.node)} submitted another message as {facts.text(first.number)}"
        if again.node != first.event.node:
            words += f", the identity of a message of {facts.name(first.event.node)}"
        yield Violation("integrity", f"{words}.", in_time(first.event, again), "reused-identity")
    for deliveries in facts.deliveries.values():
        for delivery in deliveries:
            submission = facts.submissions.get(delivery.number)
            if submission is None:
                words = f"{_did(facts, delivery)}, which nobody submitted."
                yield Violation("integrity", words, (delivery.event,), "unknown-message")
            else:
                yield from _wrong(facts, submission, delivery)


def _wrong(facts: Facts, submission: Submission, delivery: Delivery) -> Iterator[Violation]:
    """What is wrong with the delivery of a message that was submitted."""
    sent, got = submission.event, delivery.event
    if sent.node == got.node and delivery.moment[1] < submission.moment[1]:
        words = f"{_did(facts, delivery)} before it submitted it."
        yield Violation("integrity", words, (got, sent), "before-submission")
    if (sent.digest, sent.size) != (got.digest, got.size):
        words = f"{_did(facts, delivery)} with another payload than {facts.name(sent.node)} submitted."
        yield Violation("integrity", words, in_time(sent, got), "altered-payload")
    if sent.parent != got.parent:
        was, is_now = ("nothing" if mid is None else mid.text(facts.name) for mid in (sent.parent, got.parent))
        words = f"{_did(facts, delivery)} as an answer to {is_now}; it was submitted as an answer to {was}."
        yield Violation("integrity", words, in_time(sent, got), "altered-parent")
    if not delivery.member and (sent.to is None or got.node not in sent.to):
        words = f"{_did(facts, delivery)}, but is no member of group {facts.group_text(got.group)} then."
        yield Violation("integrity", words, in_time(sent, got), "not-a-member")


def _did(facts: Facts, delivery: Delivery) -> str:
    return f"{facts.name(delivery.event.node)} delivered {facts.text(delivery.number)}"


@bounded
def no_duplication(history: History) -> Iterator[Violation]:
    """No node delivers a message twice in one memory. Kinds: `repeated`, `repeated-after-restart`."""
    facts = facts_of(history)
    for node, deliveries in facts.deliveries.items():
        first: dict[tuple[int, int], Delivery] = {}
        for delivery in deliveries:
            before = first.setdefault((delivery.memory, delivery.number), delivery)
            if before is not delivery:
                restarted = facts.crashed_between(node, before.moment, delivery.moment)
                words = f"{_did(facts, delivery)} again" + (
                    ", after a restart that its storage survived." if restarted else "."
                )
                kind = "repeated-after-restart" if restarted else "repeated"
                yield Violation("no_duplication", words, (before.event, delivery.event), kind)
