"""What a node knows of one life of one writer: which numbers are settled, which are missing, which wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from castbed.intervals import IntervalSet
from castbed.parts.repair_layer.packets import Ranges

T = TypeVar("T")


class Pressed(NamedTuple):
    """Since when all that is missing up to `upto` has been asked for while nothing beyond `prefix` was settled."""

    since: int
    upto: int
    prefix: int


class Reception(Generic[T]):
    """Numbers are settled once they were taken or skipped; `waiting` holds what came and may not be handed up yet."""

    __slots__ = ("highest", "pressed", "settled", "waiting")

    def __init__(self) -> None:
        self.settled = IntervalSet()
        self.highest = 0
        self.waiting: dict[int, T] = {}
        self.pressed: Pressed | None = None

    def heard_of(self, number: int) -> None:
        """The writer has sent this number, and all before it."""
        self.highest = max(self.highest, number)

    def take(self, number: int) -> bool:
        """Settle a number that came; False when it was settled already."""
        self.heard_of(number)
        return self.settled.add(number)

    def skip(self, upto: int) -> int:
        """Settle everything up to a number; returns how many were still missing."""
        before = len(self.settled)
        self.settled = IntervalSet(((1, upto), *self.settled.intervals()))
        self.heard_of(upto)
        return len(self.settled) - before

    @property
    def complete(self) -> bool:
        return self.prefix == self.highest

    @property
    def prefix(self) -> int:
        """All numbers up to this one are settled."""
        first = next(iter(self.settled.intervals()), None)
        return first[1] if first is not None and first[0] == 1 else 0

    def in_vain(self, now: int, patience: int) -> int:
        """Up to which number nothing has come of asking for longer than `patience`; 0 while there is hope."""
        prefix = self.prefix
        if self.pressed is None or self.pressed.prefix < prefix:
            self.pressed = Pressed(now, self.highest, prefix)
        if now - self.pressed.since <= patience:
            return 0
        upto, self.pressed = self.pressed.upto, None
        return upto

    def gaps(self, limit: int) -> Ranges:
        """The lowest missing ranges, at most `limit` of them."""
        found: list[tuple[int, int]] = []
        below = 0
        for low, high in (*self.settled.intervals(), (self.highest + 1, self.highest + 1)):
            if low > below + 1 and len(found) < limit:
                found.append((below + 1, low - 1))
            below = high
        return tuple(found)

    def ready(self) -> Iterator[T]:
        """What waited and is in turn now, in order."""
        prefix = self.prefix
        for number in sorted(number for number in self.waiting if number <= prefix):
            yield self.waiting.pop(number)
