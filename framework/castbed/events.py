"""What happens to a machine. An event knows the handler it selects (`key`) and what that one is given.

Every handler is called with `first` and `second`, because a plain call with two values is the quickest that Python has.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from castbed.packets import Command, Packet
from castbed.values import Message, NodeNumber, View

TimerName = Hashable


class Event:
    """Base of all events; treat as frozen. One event object may be shown to many machines."""

    __slots__ = ("first", "key", "second")
    key: Hashable
    first: Any
    second: Any

    def __repr__(self) -> str:
        given = [repr(value) for value in (self.first, self.second) if value is not None]
        return f"{type(self).__name__}({', '.join(given)})"


class Started(Event):
    """The node is up; nothing else has happened yet."""

    __slots__ = ()

    def __init__(self) -> None:
        self.key, self.first, self.second = "started", None, None


class Submitted(Event):
    """The application wants this message sent."""

    __slots__ = ()

    def __init__(self, message: Message) -> None:
        self.key, self.first, self.second = "submitted", message, None


class SubmittedTogether(Event):
    """The application wants these messages sent, one after the other, and more than one is there at once."""

    __slots__ = ()

    def __init__(self, messages: Sequence[Message]) -> None:
        self.key, self.first, self.second = "submitted_together", messages, None


class Asked(Event):
    """The application asks for something else (join, leave, ...)."""

    __slots__ = ()

    def __init__(self, command: Command) -> None:
        self.key, self.first, self.second = command.__class__, command, None


class Received(Event):
    """A packet came from `sender`, the node that transmitted this copy."""

    __slots__ = ()

    def __init__(self, packet: Packet, sender: NodeNumber) -> None:
        self.key, self.first, self.second = packet.__class__, packet, sender


class Expired(Event):
    """A timer that the machine set ran out."""

    __slots__ = ()

    def __init__(self, timer: TimerName) -> None:
        self.key, self.first, self.second = "expired", timer, None


class Attached(Event):
    """The node is in range again: of `station`, or (NOBODY) of the one shared medium."""

    __slots__ = ()

    def __init__(self, station: NodeNumber) -> None:
        self.key, self.first, self.second = "attached", station, None


class Detached(Event):
    """The node is out of range of everybody."""

    __slots__ = ()

    def __init__(self) -> None:
        self.key, self.first, self.second = "detached", None, None


class ViewChanged(Event):
    """The membership below installed a view."""

    __slots__ = ()

    def __init__(self, view: View) -> None:
        self.key, self.first, self.second = "view_changed", view, None
