"""MOP, the message ordering protocol: S_B order within one group (spec 4.3, and section 4 of the S_B spec)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from castbed import Context, Group, Machine, Message, Mid
from castbed_plugins.sb.ordering import Ordering


class Mop(Machine):
    """One process's ordering state for one group."""

    def __init__(self, context: Context, options: Any = None, group: Group = 0) -> None:
        super().__init__(context, options)
        self.group = group
        self.seqno = 0
        self.ordering = Ordering()

    @classmethod
    def for_group(cls, group: Group) -> Callable[[Context, Any], Mop]:
        """What `Machine.part` needs to make the part of one group."""
        return lambda context, options: cls(context, options, group)

    def next_mid(self, incarnation: int = 0) -> Mid:
        """The identity of the next own message."""
        self.seqno += 1
        return Mid(self.me, self.seqno, incarnation)

    def can_answer(self, parent: Mid | None) -> bool:
        """Whether a message may be a reply to `parent` (SB-S7)."""
        return self.ordering.is_delivered(parent)

    def receive(self, message: Message) -> None:
        """Deliver the message and what waited for it, or hold it."""
        released = self.ordering.receive(message)
        for ready in released:
            self.deliver(ready)
        if not released:
            self._hold(message)

    def replay(self, messages: Iterable[Message]) -> None:
        """Take up what an earlier life received: what it delivered is not delivered again, what it held is held."""
        for message in messages:
            self.ordering.receive(message)
        for message in self.ordering.held():
            self._hold(message)

    def _hold(self, message: Message) -> None:
        assert message.parent is not None
        self.hold(message, (message.parent,))
