"""S_B ordering itself: a message waits for the one message that it answers, and for nothing else (spec, section 4).

This is the part that the `sb` protocol and M2MC's message ordering share. It keeps, per writer, which numbers were
delivered, and the held messages by the parent they wait for; the cost of a message is that of two dictionary lookups
and of an interval insert.
"""

from __future__ import annotations

from collections import deque

from castbed import IntervalSet, Message, Mid

Writer = tuple[int, int]


class Ordering:
    """What one member of one group has delivered, and what waits."""

    __slots__ = ("_held", "delivered", "held_count", "held_max")

    def __init__(self) -> None:
        self.delivered: dict[Writer, IntervalSet] = {}
        self._held: dict[Mid, deque[Message]] = {}
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
            self._hold(message)
            return []
        self._mark(message.mid)
        released = [message]
        if self._held:
            self._release(released)
        return released

    def held(self) -> list[Message]:
        """Everything that waits, in no promised order."""
        return [message for waiting in self._held.values() for message in waiting]

    def missing_parents(self) -> list[Mid]:
        """What held messages wait for and is not itself held."""
        held = {message.mid for message in self.held()}
        return [parent for parent in self._held if parent not in held]

    def _hold(self, message: Message) -> None:
        assert message.parent is not None
        self._held.setdefault(message.parent, deque()).append(message)
        self.held_count += 1
        self.held_max = max(self.held_max, self.held_count)

    def _release(self, released: list[Message]) -> None:
        """Depth first, pre-order, as a loop: a thread may be 100 000 deep (spec 4.4)."""
        stack = [released[0].mid]
        while stack:
            waiting = self._held.get(stack[-1])
            if not waiting:
                self._held.pop(stack.pop(), None)
                continue
            message = waiting.popleft()
            self.held_count -= 1
            self._mark(message.mid)
            released.append(message)
            stack.append(message.mid)

    def _mark(self, mid: Mid) -> None:
        self.delivered.setdefault((mid.sender, mid.incarnation), IntervalSet()).add(mid.seqno)
