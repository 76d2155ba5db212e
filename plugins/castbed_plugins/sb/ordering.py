"""S_B ordering itself: a message waits for the one message that it answers, and for nothing else (spec, section 4).

This is the part that the `sb` protocol and M2MC's message ordering share. `Ordering` keeps, per writer, which numbers
were delivered, and the held messages by the parent they wait for; the cost of a message is that of two dictionary
lookups and of an interval insert. `literal.py` keeps both as the paper does, for comparing the costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sized
from typing import Protocol

from castbed import IntervalSet, Message, Mid

Writer = tuple[int, int]


class Numbers(Protocol):
    """The delivered numbers of one writer."""

    def __contains__(self, number: int) -> bool: ...
    def add(self, number: int) -> bool: ...
    def intervals(self) -> tuple[tuple[int, int], ...]: ...


class OrderingSteps:
    """The receive path of the paper over any way to keep delivered numbers and held messages.

    Subclasses say how: `_new_numbers`, `_insert`, `_take_first`, `held`, and `_table`, which is empty as long as no
    held message can be found.
    """

    __slots__ = ("_table", "delivered", "held_count", "held_max")
    _table: Sized

    def __init__(self) -> None:
        self.delivered: dict[Writer, Numbers] = {}
        self.held_count = 0
        self.held_max = 0

    def is_delivered(self, mid: Mid | None) -> bool:
        """Whether a reply to `mid` could be delivered; the root (None) always was (M2-Q33)."""
        if mid is None:
            return True
        numbers = self.delivered.get((mid.sender, mid.incarnation))
        return numbers is not None and mid.seqno in numbers

    def receive(self, message: Message) -> list[Message]:
        """Take in one message; returns what can be delivered now, in order (empty: it is held). Spec 4.3."""
        if not self.is_delivered(message.parent):
            self._insert(message)
            self.held_count += 1
            self.held_max = max(self.held_max, self.held_count)
            return []
        self._mark(message.mid)
        released = [message]
        if self._table:
            self._release(released)
        return released

    def assume_delivered(self, writer: Writer, numbers: Iterable[int]) -> None:
        """Count these as delivered, because an earlier life delivered them; call before any `receive`."""
        for number in numbers:
            self._mark(Mid(writer[0], number, writer[1]))

    def held(self) -> list[Message]:
        """Everything that waits."""
        raise NotImplementedError

    def missing_parents(self) -> list[Mid]:
        """What held messages wait for and is not itself held."""
        waiting = self.held()
        held = {message.mid for message in waiting}
        return list(dict.fromkeys(m.parent for m in waiting if m.parent is not None and m.parent not in held))

    def _release(self, released: list[Message]) -> None:
        """Depth first, pre-order, as a loop: a thread may be 100 000 deep (spec 4.4)."""
        stack = [released[0].mid]
        while stack:
            message = self._take_first(stack[-1])
            if message is None:
                stack.pop()
                continue
            self.held_count -= 1
            self._mark(message.mid)
            released.append(message)
            stack.append(message.mid)

    def _mark(self, mid: Mid) -> None:
        writer = (mid.sender, mid.incarnation)
        numbers = self.delivered.get(writer)
        if numbers is None:
            numbers = self.delivered[writer] = self._new_numbers()
        numbers.add(mid.seqno)

    def _new_numbers(self) -> Numbers:
        raise NotImplementedError

    def _insert(self, message: Message) -> None:
        raise NotImplementedError

    def _take_first(self, parent: Mid) -> Message | None:
        raise NotImplementedError


class Ordering(OrderingSteps):
    """What one member of one group has delivered, and what waits: intervals by bisection, held messages by parent."""

    __slots__ = ("_by_parent",)

    def __init__(self) -> None:
        super().__init__()
        self._by_parent: dict[Mid, deque[Message]] = {}
        self._table = self._by_parent

    def held(self) -> list[Message]:
        """Everything that waits, in no promised order."""
        return list(self._waiting())

    def _waiting(self) -> Iterator[Message]:
        for replies in self._by_parent.values():
            yield from replies

    def _new_numbers(self) -> Numbers:
        return IntervalSet()

    def _insert(self, message: Message) -> None:
        assert message.parent is not None
        self._by_parent.setdefault(message.parent, deque()).append(message)

    def _take_first(self, parent: Mid) -> Message | None:
        replies = self._by_parent.get(parent)
        if replies is None:
            return None
        first = replies.popleft()
        if not replies:
            del self._by_parent[parent]
        return first
