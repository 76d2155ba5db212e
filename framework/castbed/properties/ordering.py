"""Orders that each node keeps for itself: first in first out, causal, semantic."""

from __future__ import annotations

from collections.abc import Iterator

from castbed.history import History, LocalEvent
from castbed.properties.base import Violation, bounded, in_time, listed
from castbed.properties.causality import Causality, Thread
from castbed.properties.facts import Delivery, Facts
from castbed.properties.reading import facts_of
from castbed.values import Group, NodeNumber

EXPLAINED_MAX = 100
"""Of so many violations the chain of messages is searched for; each search may read the whole history."""


@bounded
def fifo(history: History) -> Iterator[Violation]:
    """Every node delivers the messages of one submitter to one group in the order of submission. Kind: `wrong-order`.

    A message that is never delivered is no violation, and a submitter that lost its storage counts as another one.
    """
    facts = facts_of(history)
    order = {number: place for place, number in enumerate(facts.submissions)}
    for node in facts.deliveries:
        for delivered in facts.first_deliveries(node):
            latest: dict[tuple[NodeNumber, int, Group], Delivery] = {}
            for number, delivery in delivered.items():
                if number not in order:
                    continue
                submission = facts.submissions[number]
                lane = submission.event.node, submission.memory, submission.event.group
                overtaker = latest.setdefault(lane, delivery)
                if order[number] < order[overtaker.number]:
                    yield _overtaken(facts, overtaker, delivery)
                else:
                    latest[lane] = delivery


def _overtaken(facts: Facts, overtaker: Delivery, late: Delivery) -> Violation:
    first, second = facts.submissions[late.number].event, facts.submissions[overtaker.number].event
    early_text, late_text = facts.text(overtaker.number), facts.text(late.number)
    words = (
        f"{facts.name(late.event.node)} delivered {early_text} before {late_text}, "
        f"although {facts.name(first.node)} submitted {late_text} first."
    )
    return Violation("fifo", words, in_time(first, second, overtaker.event, late.event), "wrong-order")


@bounded
def semantic(history: History) -> Iterator[Violation]:
    """A message is delivered only after its parent (SB-S3). Kinds: `parent-later`, `parent-missing`."""
    facts = facts_of(history)
    for node in facts.deliveries:
        for delivered in facts.first_deliveries(node):
            seen: set[int] = set()
            for number, delivery in delivered.items():
                seen.add(number)
                parent = delivery.event.parent
                above = None if parent is None else facts.numbers.get((delivery.event.group, parent))
                if parent is not None and (above is None or above not in seen):
                    yield _orphan(facts, delivery, None if above is None else delivered.get(above))


def _orphan(facts: Facts, child: Delivery, parent: Delivery | None) -> Violation:
    assert child.event.parent is not None
    text = child.event.parent.text(facts.name)
    answer = f"{facts.name(child.event.node)} delivered {facts.text(child.number)}, which answers {text},"
    sources = [facts.submissions[n].event for n in (child.number,) if n in facts.submissions]
    if parent is None:
        return Violation("semantic", f"{answer} without {text}.", in_time(*sources, child.event), "parent-missing")
    return Violation(
        "semantic", f"{answer} before {text}.", in_time(*sources, child.event, parent.event), "parent-later"
    )


@bounded
def causal(history: History) -> Iterator[Violation]:
    """What happened before a message is delivered before it, at every node that both address.

    Kinds: `wrong-order` (the node delivered both), `missing` (it delivered only the later one, although the earlier one
    addressed it and it has neither crashed nor left that group since).
    """
    facts = facts_of(history)
    causality = Causality(facts)
    explained = 0
    for node in sorted(facts.deliveries):
        for delivered in facts.first_deliveries(node):
            for before, after in _Receiver(facts, causality, node, delivered).overtaken():
                explained += 1
                path = causality.path(before, after.number) if explained <= EXPLAINED_MAX else []
                yield _causal_violation(facts, before, after, delivered.get(before), path)


class _Receiver:
    """One memory of one node: which messages were overtaken by others whose past they are in.

    `passed[thread]` counts the messages of a thread that need no more looking at, `checked[thread]` those whose news
    were looked at. Both only grow, so that every message is looked at once.
    """

    def __init__(self, facts: Facts, causality: Causality, node: NodeNumber, delivered: dict[int, Delivery]) -> None:
        self.facts = facts
        self.causality = causality
        self.node = node
        self.delivered = delivered
        self.seen: set[int] = set()
        self.passed = [0] * len(causality.threads)
        self.checked = [0] * len(causality.threads)

    def overtaken(self) -> Iterator[tuple[int, Delivery]]:
        """Pairs of a message and the first delivery that should have come after it."""
        for number, delivery in self.delivered.items():
            place = self.causality.place.get(number)
            if place is not None and place[1] > self.checked[place[0]]:
                yield from self._check(delivery, *place)
            self.seen.add(number)

    def _check(self, delivery: Delivery, thread: Thread, count: int) -> Iterator[tuple[int, Delivery]]:
        passed = self.passed
        for news in self.causality.news[thread][self.checked[thread] + 1 : count + 1]:
            for other, reach in news:
                if passed[other] < reach:
                    yield from self._pass(delivery, other, reach)
        self.checked[thread] = count
        if passed[thread] < count - 1:
            yield from self._pass(delivery, thread, count - 1)

    def _pass(self, delivery: Delivery, thread: Thread, reach: int) -> Iterator[tuple[int, Delivery]]:
        for number in self.causality.threads[thread][self.passed[thread] : reach]:
            if number not in self.seen and self._matters(number, delivery):
                yield number, delivery
        self.passed[thread] = reach

    def _matters(self, number: int, delivery: Delivery) -> bool:
        if number in self.delivered:
            return number != delivery.number
        return self.facts.is_bound(self.facts.submissions[number], self.node, delivery.moment)


def _causal_violation(
    facts: Facts, before: int, after: Delivery, late: Delivery | None, path: list[LocalEvent]
) -> Violation:
    name, early_text, late_text = facts.name(after.event.node), facts.text(after.number), facts.text(before)
    shown = path or [facts.submissions[before].event, facts.submissions[after.number].event]
    if late is not None:
        words = f"{name} delivered {early_text} before {late_text}, although {_reason(facts, before, after, path)}."
        return Violation("causal", words, in_time(*shown, after.event, late.event), "wrong-order")
    words = f"{name} delivered {early_text} without {late_text}, although {_reason(facts, before, after, path)}."
    return Violation("causal", words, in_time(*shown, after.event), "missing")


def _reason(facts: Facts, before: int, after: Delivery, path: list[LocalEvent]) -> str:
    """Why the one message is before the other."""
    first, second = facts.text(before), facts.text(after.number)
    submitter = facts.name(facts.submissions[after.number].event.node)
    if len(path) == 2:
        return f"{submitter} submitted {first} first"
    if len(path) == 3 and path[1].node == path[2].node:
        return f"{submitter} delivered {first} before it submitted {second}"
    between = list(dict.fromkeys(facts.text(facts.numbers[event.message]) for event in path[1:-1]))
    through = [text for text in between if text not in (first, second)]
    return f"{first} happened before {second}" + (f", through {listed(through)}" if through else "")
