"""What a machine asks of its host, as small frozen values, carried out in order before the next event."""

from __future__ import annotations

from typing import Any

import msgspec

from castbed.events import TimerName
from castbed.packets import Notice, Packet
from castbed.values import Group, Message, Mid, NodeNumber, View


class Action(msgspec.Struct, frozen=True, gc=False):
    """Base of all actions."""


class Send(Action, frozen=True):
    """One copy to one node, over the wire if both ends have one, else over the air."""

    to: NodeNumber
    packet: Packet


class Multicast(Action, frozen=True):
    """One copy to each of the listed nodes; over the air this is a single transmission."""

    to: tuple[NodeNumber, ...]
    packet: Packet


class Broadcast(Action, frozen=True):
    """One transmission on the air, for everybody in range."""

    packet: Packet


class Accept(Action, frozen=True):
    """The submitted message now has an identity and is the protocol's to deliver."""

    message: Message


class Refuse(Action, frozen=True):
    """The submitted message is not taken; the reason is for people."""

    message: Message
    reason: str


class Deliver(Action, frozen=True):
    """Hand the message to the application."""

    message: Message


class Hold(Action, frozen=True):
    """The message is here but has to wait for others."""

    message: Message
    waiting_for: tuple[Mid, ...]


class SetTimer(Action, frozen=True):
    """Expire under this name after `delay` nanoseconds; a running timer of the name is replaced.

    With `when_sent` the time counts from when all that this node has put on the air is sent; a host that cannot tell
    counts from now.
    """

    name: TimerName
    delay: int
    when_sent: bool = False


class CancelTimer(Action, frozen=True):
    """Forget the timer, if it runs."""

    name: TimerName


class Install(Action, frozen=True):
    """This view is in force here from now on."""

    view: View


class Persist(Action, frozen=True):
    """Keep the value over a restart; done before any later action of the step takes effect. None forgets the key."""

    key: str
    value: Any


class Join(Action, frozen=True):
    """This node counts as a member of the group from now on."""

    group: Group


class Leave(Action, frozen=True):
    """This node no longer counts as a member of the group."""

    group: Group


class Tell(Action, frozen=True):
    """Tell the application something that is not a delivery."""

    notice: Notice


class Note(Action, frozen=True):
    """Leave a line in the capture, for people and for counters: `what` is the counter, `about` a message or None."""

    what: str
    about: Mid | None = None
    group: Group = 0


class Gauge(Action, frozen=True):
    """From now on this much of something is in use here: a level, where a note is an occurrence."""

    what: str
    value: int
