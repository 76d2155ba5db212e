"""No message waits for one that it does not depend on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from castbed.history import History
from castbed.properties.base import Violation, bounded, in_time
from castbed.properties.causality import Causality
from castbed.properties.facts import Delivery, Facts, Held
from castbed.properties.reading import facts_of

SEMANTIC = "semantic"


@bounded
def no_needless_wait(history: History) -> Iterator[Violation]:
    """A held message is delivered in the step in which its last true predecessor was.

    True predecessors are the ancestors of the message if the run guarantees `semantic`, else the messages that happened
    before it and address the node. Kinds: `late-release` (the last of them was delivered in an earlier step),
    `needless-hold` (none of them was missing).
    """
    facts = facts_of(history)
    if SEMANTIC in history.identity.guarantees:
        return _after_ancestors(facts)
    return _after_past(facts)


def _after_ancestors(facts: Facts) -> Iterator[Violation]:
    for node, holds in facts.holds.items():
        delivered = _first_of(facts.deliveries[node])
        for held in holds:
            if held.release is not None:
                waited, missing = _ancestors_after(facts, held, held.release, delivered)
                yield from _judge(facts, held, held.release, waited, missing)


def _first_of(deliveries: list[Delivery]) -> dict[tuple[int, int], Delivery]:
    """The first delivery of each message, by memory and message."""
    return {(delivery.memory, delivery.number): delivery for delivery in reversed(deliveries)}


def _ancestors_after(
    facts: Facts, held: Held, release: Delivery, delivered: dict[tuple[int, int], Delivery]
) -> tuple[Delivery | None, bool]:
    """The last ancestor delivered since the hold, and whether one was missing even at the release."""
    last, event = None, held.event
    while event.parent is not None:
        parent = delivered.get((release.memory, facts.numbers.get((event.group, event.parent), -1)))
        if parent is None or parent.moment > release.moment:
            return last, True
        if parent.moment < held.moment:
            return last, False
        last = parent if last is None else max(last, parent, key=lambda delivery: delivery.moment)
        event = parent.event
    return last, False


def _after_past(facts: Facts) -> Iterator[Violation]:
    waits: dict[int, list[Held]] = defaultdict(list)
    for holds in facts.holds.values():
        for held in holds:
            if held.release is not None and held.number in facts.submissions:
                waits[held.number].append(held)
    if waits:
        yield from _Pasts(facts, Causality(facts)).judge(waits)


class _Pasts:
    """Goes through each thread of messages with the vector of what happened before."""

    def __init__(self, facts: Facts, causality: Causality) -> None:
        self.facts = facts
        self.causality = causality
        self.places = {
            node: {delivery.moment: at for at, delivery in enumerate(facts.deliveries[node])} for node in facts.holds
        }
        self.first = {node: _first_of(facts.deliveries[node]) for node in facts.holds}

    def judge(self, waits: dict[int, list[Held]]) -> Iterator[Violation]:
        causality = self.causality
        for thread, numbers in enumerate(causality.threads):
            past = [0] * len(causality.threads)
            for count, number in enumerate(numbers, start=1):
                for other, reach in causality.news[thread][count]:
                    past[other] = reach
                past[thread] = count - 1
                for held in waits.get(number, ()):
                    yield from self._judge_one(held, past)

    def _judge_one(self, held: Held, past: list[int]) -> Iterator[Violation]:
        assert held.release is not None
        waited = self._last_since(held, held.release, past)
        missing = waited is None and self._misses_one(held, held.release, past)
        yield from _judge(self.facts, held, held.release, waited, missing)

    def _last_since(self, held: Held, release: Delivery, past: list[int]) -> Delivery | None:
        """The last message of the past that was delivered between the hold and its release."""
        deliveries = self.facts.deliveries[held.event.node]
        for at in range(self.places[held.event.node][release.moment] - 1, -1, -1):
            if deliveries[at].moment < held.moment:
                break
            place = self.causality.place.get(deliveries[at].number)
            if place is not None and past[place[0]] >= place[1]:
                return deliveries[at]
        return None

    def _misses_one(self, held: Held, release: Delivery, past: list[int]) -> bool:
        """Whether something of the past that has to come first was not delivered even before the release."""
        return any(
            self._misses(number, held, release)
            for thread, reach in enumerate(past)
            for number in reversed(self.causality.threads[thread][:reach])
        )

    def _misses(self, number: int, held: Held, release: Delivery) -> bool:
        node = held.event.node
        got = self.first[node].get((release.memory, number))
        if got is not None and got.moment < release.moment:
            return False
        return self.facts.is_bound(self.facts.submissions[number], node, held.moment)


def _judge(facts: Facts, held: Held, release: Delivery, waited: Delivery | None, missing: bool) -> Iterator[Violation]:
    """What is wrong with a wait whose last true predecessor was `waited`."""
    if missing or (waited is not None and waited.event.at == release.event.at):
        return
    name, text = facts.name(held.event.node), facts.text(held.number)
    sources = [facts.submissions[n].event for n in (held.number,) if n in facts.submissions]
    if waited is None:
        words = f"{name} held {text} back although nothing that {text} depends on was missing."
        yield Violation("no_needless_wait", words, in_time(*sources, held.event, release.event), "needless-hold")
    else:
        words = f"{name} went on holding {text} after {facts.text(waited.number)}, the last that it had to wait for."
        events = in_time(*sources, held.event, waited.event, release.event)
        yield Violation("no_needless_wait", words, events, "late-release")
