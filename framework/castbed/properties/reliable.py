"""Who has to deliver what: the properties about deliveries that are missing.

A missing delivery leaves no event; its witness shows the node by the event with which it joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from castbed.history import History, LocalEvent
from castbed.properties.base import Violation, bounded, in_time, listed
from castbed.properties.facts import Facts, Submission
from castbed.properties.reading import facts_of
from castbed.values import Group, NodeNumber


@bounded
def agreement(history: History) -> Iterator[Violation]:
    """What one node that stays delivered, every node that stays and is addressed delivers. Kind: `missing`.

    Both joined before the message was submitted.
    """
    facts = facts_of(history)
    for submission in facts.submissions.values():
        delivered_by = facts.delivered_by.get(submission.number, set())
        owed = facts.owed(submission)
        missing = owed - delivered_by
        if not missing:
            continue
        witnesses = delivered_by & facts.staying(submission.event.group, submission.moment)
        if witnesses:
            shown = facts.delivery(submission.number, min(witnesses)).event
            for node in sorted(missing):
                words = f"{facts.name(shown.node)} delivered {facts.text(submission.number)}, {_never(facts, node)}."
                yield Violation("agreement", words, _without(facts, submission, node, shown), "missing")


@bounded
def validity(history: History) -> Iterator[Violation]:
    """Who submits a message and stays delivers it too, if addressed. Kinds: `own-message`, `lost`.

    `lost`: the message of a submitter who is no member, did not crash later and is not away was delivered by nobody of
    those who had to.
    """
    facts = facts_of(history)
    for submission in facts.submissions.values():
        event, owed = submission.event, facts.owed(submission)
        delivered_by = facts.delivered_by.get(submission.number, set())
        if submission.member:
            if event.node in owed - delivered_by:
                words = f"{facts.name(event.node)} never delivered {facts.text(submission.number)}, its own message."
                yield Violation("validity", words, (event,), "own-message")
        elif owed and not owed & delivered_by and facts.vouched(submission):
            words = f"{_sent(facts, submission)}; of {_names(facts, owed)}, nobody delivered it."
            yield Violation("validity", words, (event, *_joins(facts, event.group, owed)), "lost")


@bounded
def exactly_once(history: History) -> Iterator[Violation]:
    """Every node that stays delivers every message addressed to it, once. Kinds: `missing`, `repeated`.

    The submitter did not crash later and is not away at the end, or else some node that stays delivered the message.
    """
    facts = facts_of(history)
    yield from _repeated(facts)
    for submission in facts.submissions.values():
        delivered_by = facts.delivered_by.get(submission.number, set())
        owed = facts.owed(submission)
        missing = owed - delivered_by
        if missing and (facts.vouched(submission) or owed & delivered_by):
            yield from _missing(facts, "exactly_once", "missing", submission, missing)


def _repeated(facts: Facts) -> Iterator[Violation]:
    for node, deliveries in facts.deliveries.items():
        counts = Counter(delivery.number for delivery in deliveries)
        for number in (number for number, count in counts.items() if count > 1):
            if facts.stays(node, facts.messages[number][0]):
                events = in_time(*(delivery.event for delivery in deliveries if delivery.number == number))
                words = f"{facts.name(node)} delivered {facts.text(number)} {counts[number]} times."
                yield Violation("exactly_once", words, events[:2], "repeated")


@bounded
def liveness(history: History) -> Iterator[Violation]:
    """At the end nothing waits. Kinds: `held` (at a node that is present), `undelivered` (at a node that stays).

    A message has to be delivered if its submitter did not crash later and is not away at the end. A held message whose
    submitter did crash or is away, and that nobody present has delivered, may wait: what it waits for went with the
    submitter, the only one who is known to have had it.
    """
    facts = facts_of(history)
    for node, holds in facts.holds.items():
        for held in holds:
            due = held.release is None and node in facts.present[held.event.group]
            if due and not _went_with_submitter(facts, held.number, held.event.group):
                waiting = listed(mid.text(facts.name) for mid in held.event.waiting_for)
                for_whom = f", waiting for {waiting}" if held.event.waiting_for else ""
                words = f"{facts.name(node)} still holds {facts.text(held.number)} at the end{for_whom}."
                yield Violation("liveness", words, (held.event,), "held")
    for submission in facts.submissions.values():
        missing = facts.owed(submission) - facts.delivered_by.get(submission.number, set())
        if missing and facts.vouched(submission):
            yield from _missing(facts, "liveness", "undelivered", submission, missing)


@bounded
def recovery(history: History) -> Iterator[Violation]:
    """Whoever is present at the end has all that others who are present have. Kind: `missing`.

    This includes messages submitted before the node joined, or while it was away or down. What a node delivered counts
    as far as it remembers: in the memory that it has at the end.
    """
    facts = facts_of(history)
    for group, present in facts.present.items():
        had = {node: _remembered(facts, node, group) for node in present}
        everything = set().union(*had.values())
        for node in sorted(present):
            for number in sorted(everything - had[node]):
                submission = facts.submissions.get(number)
                if submission is not None and (submission.event.to is None or node in submission.event.to):
                    shown = facts.delivery(number, next(other for other in sorted(present) if number in had[other]))
                    words = f"{facts.name(shown.event.node)} has {facts.text(number)}, {_never(facts, node)}."
                    yield Violation("recovery", words, _without(facts, submission, node, shown.event), "missing")


def _went_with_submitter(facts: Facts, number: int, group: Group) -> bool:
    submission = facts.submissions.get(number)
    if submission is None or facts.vouched(submission):
        return False
    return not any(number in _remembered(facts, node, group) for node in facts.present[group])


def _remembered(facts: Facts, node: NodeNumber, group: Group) -> set[int]:
    memory = facts.memory[node]
    return {
        delivery.number
        for delivery in facts.deliveries.get(node, ())
        if delivery.memory == memory and delivery.event.group == group
    }


def _missing(
    facts: Facts, name: str, kind: str, submission: Submission, missing: Iterable[NodeNumber]
) -> Iterator[Violation]:
    for node in sorted(missing):
        words = f"{_sent(facts, submission)}, {_never(facts, node)}."
        yield Violation(name, words, _without(facts, submission, node), kind)


def _sent(facts: Facts, submission: Submission) -> str:
    return f"{facts.name(submission.event.node)} submitted {facts.text(submission.number)}"


def _never(facts: Facts, node: NodeNumber) -> str:
    return f"but {facts.name(node)} never delivered it"


def _names(facts: Facts, nodes: Iterable[NodeNumber]) -> str:
    return listed(facts.name(node) for node in sorted(nodes))


def _without(facts: Facts, submission: Submission, node: NodeNumber, *shown: LocalEvent) -> tuple[LocalEvent, ...]:
    """The events that show a message which is missing at a node."""
    return in_time(*_joins(facts, submission.event.group, (node,)), submission.event, *shown)


def _joins(facts: Facts, group: Group, nodes: Iterable[NodeNumber]) -> Iterator[LocalEvent]:
    return (facts.memberships[node, group][-1].joined for node in sorted(nodes))
