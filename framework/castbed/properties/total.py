"""Orders that nodes share: any two agree (`total`), and all together do (`acyclic_total`).

Both look at each different sequence of deliveries once, however many nodes have it, and compare only messages of one
*tangle*: a set of messages each of which comes, going from sequence to sequence, before all others of the set. A
history in which all is in order has no tangle and costs one walk through its sequences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, islice, pairwise

from castbed.history import History
from castbed.properties.base import Violation, bounded, in_time
from castbed.properties.facts import Delivery, Facts
from castbed.properties.reading import facts_of

STARTS_MAX = 200
"""From so many messages of a tangle the shortest circle is searched for; each search may read the whole tangle."""

Order = tuple[int, ...]
Hop = tuple[int, int, Order]
"""Two messages, and a sequence that has the first before the second."""

Owners = dict[Order, Mapping[int, Delivery]]
"""Sequences of messages, each with the deliveries of a node that has it."""


@bounded
def total(history: History) -> Iterator[Violation]:
    """Any two nodes that deliver the same two messages, of whatever groups, deliver them in the same order.

    Kind: `wrong-order`; each pair of messages is reported once.
    """
    facts = facts_of(history)
    for tangled in _tangled(_sequences(facts)):
        reported: set[frozenset[int]] = set()
        for one, other in combinations(tangled, 2):
            for first, second in _inversions(one, other):
                if frozenset((first, second)) not in reported:
                    reported.add(frozenset((first, second)))
                    hops = [(first, second, one), (second, first, other)]
                    yield _disagreement(facts, "total", "wrong-order", hops, tangled)


@bounded
def acyclic_total(history: History) -> Iterator[Violation]:
    """No circle of messages, each delivered somewhere immediately before the next. Kind: `circle`; one per tangle.

    The witness is the circle with the fewest nodes: x before y at one, y before z at another, z before x at a third.
    """
    facts = facts_of(history)
    for tangled in _tangled(_sequences(facts)):
        yield _disagreement(facts, "acyclic_total", "circle", _shortest_circle(tangled), tangled)


def _sequences(facts: Facts) -> Owners:
    """Every different sequence of deliveries."""
    found: Owners = {}
    for node in sorted(facts.deliveries):
        for delivered in facts.first_deliveries(node):
            found.setdefault(tuple(delivered), delivered)
    return found


def _tangled(sequences: Owners) -> Iterator[Owners]:
    """For each tangle the different sequences of its messages."""
    tangles = list(_tangles(sequences))
    tangle_of = {number: at for at, tangle in enumerate(tangles) for number in tangle}
    found: list[Owners] = [{} for _ in tangles]
    for sequence, delivered in sequences.items() if tangles else ():
        parts: dict[int, list[int]] = {}
        for number in sequence:
            if number in tangle_of:
                parts.setdefault(tangle_of[number], []).append(number)
        for at, part in parts.items():
            found[at].setdefault(tuple(part), delivered)
    return iter(found)


def _inversions(one: Order, other: Order) -> Iterator[tuple[int, int]]:
    """Messages in this order in the one sequence and in the opposite order, with no other between, in the other."""
    place = {number: at for at, number in enumerate(one)}
    common = [number for number in other if number in place]
    return ((second, first) for first, second in pairwise(common) if place[second] < place[first])


def _disagreement(facts: Facts, name: str, kind: str, hops: list[Hop], owners: Owners) -> Violation:
    """The witness of a circle of hops: who delivered what before what."""
    pairs = [(owners[order][first].event, owners[order][second].event) for first, second, order in hops]
    parts = [
        f"{facts.name(event.node)} delivered {facts.text(first)} before {facts.text(second)}"
        for (first, second, _), (event, _) in zip(hops, pairs, strict=True)
    ]
    words = f"{', '.join(parts[:-1])}, but {parts[-1]}."
    return Violation(name, words, in_time(*(event for pair in pairs for event in pair)), kind)


# --- tangles: the strongly connected components of "immediately before" --------------------------------------------

Links = Mapping[int, Iterable[int]]


def _tangles(sequences: Iterable[Order]) -> Iterator[list[int]]:
    """All tangles (S. R. Kosaraju's two walks: forwards for an order, then backwards in that order)."""
    following: dict[int, set[int]] = {}
    preceding: dict[int, set[int]] = {}
    for sequence in sequences:
        for first, second in pairwise(sequence):
            following.setdefault(first, set()).add(second)
            preceding.setdefault(second, set()).add(first)
    visited: set[int] = set()
    finished = [number for start in sorted(following) for number in _walk(start, following, visited)]
    visited = set()
    for start in reversed(finished):
        tangle = list(_walk(start, preceding, visited))
        if len(tangle) > 1:
            yield tangle


def _walk(start: int, links: Links, visited: set[int]) -> Iterator[int]:
    """Depth first through all that was not visited; each message comes after those that it leads to."""
    if start in visited:
        return
    visited.add(start)
    stack = [(start, iter(links.get(start, ())))]
    while stack:
        number, others = stack[-1]
        fresh = next((other for other in others if other not in visited), None)
        if fresh is None:
            stack.pop()
            yield number
        else:
            visited.add(fresh)
            stack.append((fresh, iter(links.get(fresh, ()))))


# --- the shortest circle -------------------------------------------------------------------------------------------

Occurrences = dict[int, list[tuple[Order, int]]]


def _shortest_circle(tangled: Owners) -> list[Hop]:
    """The circle of fewest hops, from sequence to sequence, through any of the first messages of a tangle."""
    occurrences: Occurrences = {}
    for sequence in tangled:
        for at, number in enumerate(sequence):
            occurrences.setdefault(number, []).append((sequence, at))
    best: list[Hop] = []
    for start in islice(sorted(occurrences), STARTS_MAX):
        circle = _circle_through(start, occurrences)
        if not best or len(circle) < len(best):
            best = circle
        if len(best) == 2:
            break
    return best


def _circle_through(start: int, occurrences: Occurrences) -> list[Hop]:
    came: dict[int, tuple[int, Order]] = {}
    unread: dict[Order, int] = {}
    queue = deque([start])
    while start not in came:
        message = queue.popleft()
        for sequence, at in occurrences[message]:
            end = unread.get(sequence, len(sequence))
            for number in sequence[at + 1 : end]:
                if number not in came:
                    came[number] = message, sequence
                    queue.append(number)
            unread[sequence] = min(at + 1, end)
    return _back(start, came)


def _back(start: int, came: Mapping[int, tuple[int, Order]]) -> list[Hop]:
    """The hops that lead from the message to itself."""
    hops: list[Hop] = []
    message = start
    while message != start or not hops:
        previous, sequence = came[message]
        hops.append((previous, message, sequence))
        message = previous
    return hops[::-1]
