"""What travels in EOMP (spec, section 3): the paper's messages, one type per hop where hops have different fields.

Going up, `...From` is what a station makes of a host's packet: it names the host. Going down, `...For` tells a station
which host a packet is for, and the station sends the plain one. `last` is the host's LastSeqRecv, `sent` the SeqSent of
the station that speaks. Messages carry their identity for captures and checks; the protocol never reads it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from castbed import Group, Message, Mid, NodeNumber, Number, Packet
from castbed_plugins.eomp.vectors import Vector

Bit = Annotated[int, msgspec.Meta(ge=0, le=1)]


class Carrier(Packet, frozen=True):
    """What all packets with a message have."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None

    @property
    def message(self) -> Message:
        return Message(self.mid, self.group, self.payload, self.parent)


def content(message: Message) -> tuple[Group, Mid, bytes, Mid | None]:
    """The fields of a Carrier."""
    return message.group, message.mid, message.payload, message.parent


class McastReq(Carrier, frozen=True, tag=1):
    """MCASTREQ, host to station: multicast this for me."""

    last: Vector
    tx: Bit


class McastReqFrom(Carrier, frozen=True, tag=2):
    """MCASTREQ, station to coordinator."""

    host: NodeNumber
    last: Vector
    sent: Vector
    tx: Bit


class McastAckFor(Packet, frozen=True, tag=3):
    """MCASTACK, coordinator to station: the request with this bit was heard."""

    group: Group
    host: NodeNumber
    tx: Bit


class McastAck(Packet, frozen=True, tag=4):
    """MCASTACK, station to host."""

    group: Group
    tx: Bit


class McastSeq(Carrier, frozen=True, tag=5):
    """MCASTSEQ, coordinator to sequencer: number this."""


class McastDel(Carrier, frozen=True, tag=6):
    """MCASTDEL, sequencer to coordinators to stations to the members in the cell: message `seq` of its group."""

    seq: Number


class SyncSeq(Packet, frozen=True, tag=7):
    """SYNCSEQ, coordinator to coordinators: the next request of `host` has this bit."""

    host: NodeNumber
    rx: Bit


class Nack(Packet, frozen=True, tag=8):
    """NACK, host to station: what I have; asks for the next message and acknowledges the others."""

    last: Vector


class NackFrom(Packet, frozen=True, tag=9):
    """NACK, station to coordinator."""

    host: NodeNumber
    last: Vector


class RetransFor(Carrier, frozen=True, tag=10):
    """RETRANS, coordinator to station: the message that `host` lacks."""

    seq: Number
    host: NodeNumber


class Retrans(Carrier, frozen=True, tag=11):
    """RETRANS, station to host."""

    seq: Number


class SyncAck(Packet, frozen=True, tag=12):
    """SYNCACK, coordinator to coordinators: what hosts reported here since the last one."""

    reports: tuple[tuple[NodeNumber, Vector], ...]


class Greet(Packet, frozen=True, tag=13):
    """GREET, host to new station: where I was registered (NOBODY: nowhere) and what I have."""

    my_mss: NodeNumber
    my_coord: NodeNumber
    last: Vector


class GreetFrom(Packet, frozen=True, tag=14):
    """GREET, station to coordinator."""

    host: NodeNumber
    last: Vector
    sent: Vector
    my_coord: NodeNumber


class GreetAckFor(Packet, frozen=True, tag=15):
    """GREETACK, coordinator to station."""

    host: NodeNumber


class GreetAck(Packet, frozen=True, tag=16):
    """GREETACK, station to host: you are registered here."""

    sent: Vector
    coord: NodeNumber


class Cancel(Packet, frozen=True, tag=17):
    """CANCEL, new station to old: pass nothing on to `host` any more."""

    host: NodeNumber


class JoinReq(Packet, frozen=True, tag=18):
    """JOIN, host to station."""

    group: Group


class LeaveReq(Packet, frozen=True, tag=19):
    """LEAVE, host to station."""

    group: Group


class JoinFrom(Packet, frozen=True, tag=20):
    """JOIN, station to coordinator."""

    group: Group
    host: NodeNumber


class LeaveFrom(Packet, frozen=True, tag=21):
    """LEAVE, station to coordinator."""

    group: Group
    host: NodeNumber


class JoinAckFor(Packet, frozen=True, tag=22):
    """JOINACK, coordinator to station."""

    group: Group
    host: NodeNumber


class LeaveAckFor(Packet, frozen=True, tag=23):
    """LEAVEACK, coordinator to station."""

    group: Group
    host: NodeNumber


class JoinAck(Packet, frozen=True, tag=24):
    """JOINACK, station to host: your first message is the one after `sent`."""

    group: Group
    sent: Vector


class LeaveAck(Packet, frozen=True, tag=25):
    """LEAVEACK, station to host."""

    group: Group
    sent: Vector


class Insert(Packet, frozen=True, tag=26):
    """INSERT, coordinator to coordinators: `host` is a member."""

    group: Group
    host: NodeNumber


class Delete(Packet, frozen=True, tag=27):
    """DELETE, coordinator to coordinators: `host` is no longer a member."""

    group: Group
    host: NodeNumber


class Replaced(Packet, frozen=True, tag=28):
    """Station to coordinator: I replace one that crashed. Not in the paper, which says what, not how (MSS-11)."""


class Restored(Packet, frozen=True, tag=29):
    """Coordinator to replacement station: what was sent so far, and the groups that have members (MSS-11)."""

    sent: Vector
    groups: tuple[Group, ...]


REQUESTS = (McastReq, McastReqFrom, McastAckFor, McastAck, McastSeq, McastDel, SyncSeq)
REPAIRS = (Nack, NackFrom, RetransFor, Retrans, SyncAck)
HANDOFFS = (Greet, GreetFrom, GreetAckFor, GreetAck, Cancel, Replaced, Restored)
JOINS = (JoinReq, JoinFrom, JoinAckFor, JoinAck, Insert)
LEAVES = (LeaveReq, LeaveFrom, LeaveAckFor, LeaveAck, Delete)
PACKETS: tuple[type[Packet], ...] = (*REQUESTS, *REPAIRS, *HANDOFFS, *JOINS, *LEAVES)
