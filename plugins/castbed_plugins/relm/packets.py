"""What RelM sends (spec, section 4). `host` names the mobile host that a packet is about, because stations relay.

`move` counts the cell switches of a host, so that a packet about an earlier switch is known as such.
"""

from __future__ import annotations

from castbed import Group, Message, Mid, NodeNumber, Number, Packet

Key = tuple[Group, Mid]
"""The identity of a message: *msg* = (src, g, seq); source and number are in the Mid."""
Last = tuple[tuple[Group, NodeNumber, Number], ...]
"""For each group and source, the last number that a host delivered or that a supervisor received."""


class _Carrier(Packet, frozen=True):
    """What all packets with a message have."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None

    @property
    def message(self) -> Message:
        return Message(self.mid, self.group, self.payload, self.parent)

    @property
    def key(self) -> Key:
        return self.group, self.mid


class Data(_Carrier, frozen=True, tag=1):
    """A message, from its source to the other supervisors, and from a station to one host."""


class Downward(_Carrier, frozen=True, tag=2):
    """A message from a supervisor to a station, for these hosts (*DATA(msg, payload, hosts)*)."""

    hosts: tuple[NodeNumber, ...]


class Ack(Packet, frozen=True, tag=3):
    """`host` has delivered the message; up to its station and on to the supervisor."""

    group: Group
    mid: Mid
    host: NodeNumber


class Delivered(Packet, frozen=True, tag=4):
    """The sender's whole domain has acknowledged the message, or moved away with it."""

    group: Group
    mid: Mid


class Discard(Packet, frozen=True, tag=5):
    """All domains have delivered the message."""

    group: Group
    mid: Mid


class Hello(Packet, frozen=True, tag=6):
    """`host` has come from the cell of `old_station`; `groups` are its own, with the request that made it a member."""

    host: NodeNumber
    move: Number
    old_station: NodeNumber
    groups: tuple[tuple[Group, Number], ...]
    last: Last


class HelloAck(Packet, frozen=True, tag=7):
    """The supervisor knows of the move."""

    host: NodeNumber
    move: Number


class Pull(Packet, frozen=True, tag=8):
    """Hand everything for `host` to the supervisor `to`; up to `last` it has delivered."""

    host: NodeNumber
    move: Number
    to: NodeNumber
    last: Last


class Forward(_Carrier, frozen=True, tag=9):
    """A message that `host` has not acknowledged, on its way to the supervisor `to` and the new station."""

    host: NodeNumber
    move: Number
    to: NodeNumber


class Pulled(Packet, frozen=True, tag=10):
    """The end of the answer to a Pull; `stale`: the host has moved on since, nothing was handed over."""

    host: NodeNumber
    move: Number
    to: NodeNumber
    stale: bool


class Moved(Packet, frozen=True, tag=11):
    """The sender is responsible for `host` and for these messages of it."""

    host: NodeNumber
    move: Number
    messages: tuple[Key, ...]


class JoinRequest(Packet, frozen=True, tag=12):
    """`host` wants to be a member (*JOIN*)."""

    group: Group
    host: NodeNumber
    request: Number
    move: Number


class JoinAck(Packet, frozen=True, tag=13):
    """`host` is a member, from the messages on that follow `last`."""

    group: Group
    host: NodeNumber
    request: Number
    last: Last


class LeaveRequest(Packet, frozen=True, tag=14):
    """`host` is no member any more (*LEAVE*)."""

    group: Group
    host: NodeNumber
    request: Number
    move: Number


class LeaveAck(Packet, frozen=True, tag=15):
    """The supervisor has noted it."""

    group: Group
    host: NodeNumber
    request: Number


PACKETS = (
    Data, Downward, Ack, Delivered, Discard, Hello, HelloAck, Pull, Forward, Pulled, Moved, JoinRequest, JoinAck,
    LeaveRequest, LeaveAck,
)  # fmt: skip
