"""What every property shares: the witness it returns, and the most it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from itertools import islice

import msgspec

from castbed.history import History, LocalEvent

VIOLATIONS_MAX = 1000  # nobody reads more, and a history that breaks a property everywhere must not fill the memory


class Violation(msgspec.Struct, frozen=True):
    """One way in which a history breaks a property: the witness, in words and as the events that show it.

    `kind` tells apart the ways in which one property can be broken.
    """

    property: str
    words: str
    events: tuple[LocalEvent, ...]
    kind: str = ""


Property = Callable[[History], list[Violation]]


def bounded(search: Callable[[History], Iterator[Violation]]) -> Property:
    """Turns a search for violations into a property, which returns the first VIOLATIONS_MAX of them."""

    @wraps(search)
    def violations(history: History) -> list[Violation]:
        return list(islice(search(history), VIOLATIONS_MAX))

    return violations


def in_time(*events: LocalEvent) -> tuple[LocalEvent, ...]:
    """The events in time order; those of one moment stay as they were given."""
    return tuple(sorted(events, key=lambda event: event.at))


def listed(names: Iterable[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    *first, last = list(names) or ["nobody"]
    return f"{', '.join(first)} and {last}" if first else last
