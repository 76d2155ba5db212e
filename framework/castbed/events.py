"""What happens to a machine. An event knows the handler it selects (`key`) and what that one is given (`args`)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from castbed.packets import Command, Packet
from castbed.values import Message, NodeNumber, View

TimerName = Hashable


class Event:
    """Base of all events; treat as frozen. One event object may be shown to many machines."""

    __slots__ = ("args", "key")
    key: Hashable
    args: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.args!r}"


class Started(Event):
    """The node is up; nothing else has happened yet."""

    __slots__ = ()

    def __init__(self) -> None:
        self.key, self.args = "started", ()


class Submitted(Event):
    """The application wants this message sent."""

    __slots__ = ()

    def __init__(self, message: Message) -> None:
        self.key, self.args = "submitted", (message,)


class Asked(Event):
    """The application asks for something else (join, leave, ...)."""

    __slots__ = ()

    def __init__(self, command: Command) -> None:
        self.key, self.args = command.__class__, (command,)


class Received(Event):
    """A packet came from `sender`, the node that transmitted this copy."""

    __slots__ = ()

    def __init__(self, packet: Packet, sender: NodeNumber) -> None:
        self.key, self.args = packet.__class__, (packet, sender)


class Expired(Event):
    """A timer that the machine set ran out."""

    __slots__ = ()

    def __init__(self, timer: TimerName) -> None:
        self.key, self.args = "expired", (timer,)


class Attached(Event):
    """The node is in range again: of `station`, or (NOBODY) of the one shared medium."""

    __slots__ = ()

    def __init__(self, station: NodeNumber) -> None:
        self.key, self.args = "attached", (station,)


class Detached(Event):
    """The node is out of range of everybody."""

    __slots__ = ()

    def __init__(self) -> None:
        self.key, self.args = "detached", ()


class ViewChanged(Event):
    """The membership below installed a view."""

    __slots__ = ()

    def __init__(self, view: View) -> None:
        self.key, self.args = "view_changed", (view,)
