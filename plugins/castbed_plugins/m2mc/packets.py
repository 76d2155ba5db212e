"""What M2MC broadcasts (spec, section 3): every packet is for everybody in range."""

from __future__ import annotations

import msgspec

from castbed import Group, Message, Mid, NodeNumber, Number, Packet


class GroupInfo(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one process knows about a group (*grpInfo*): its name, its members and those that left, oldest first."""

    group: Group
    desc: str
    current: tuple[NodeNumber, ...]
    departed: tuple[NodeNumber, ...]


class Logged(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message inside a synchronisation packet; its group is that of the packet."""

    mid: Mid
    parent: Mid | None
    payload: bytes


class SyncId(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The identity of a synchronisation request within its group (*SyncMsgId*)."""

    pid: NodeNumber
    number: Number


class Data(Packet, frozen=True, tag=1):
    """A message of a group (*DataPacket*)."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None


class Adv(Packet, frozen=True, tag=2):
    """`pid` is new, or back, in the network and wants to know the groups (*advMsg*)."""

    pid: NodeNumber


class GroupList(Packet, frozen=True, tag=3):
    """The groups that the sender belongs to (*GrpsInfoList*)."""

    groups: tuple[GroupInfo, ...]


class Join(Packet, frozen=True, tag=4):
    """`pid` is a member from now on (*joinMsg*)."""

    group: Group
    pid: NodeNumber


class Leave(Packet, frozen=True, tag=5):
    """`pid` is no longer a member (*leaveMsg*)."""

    group: Group
    pid: NodeNumber


class SyncReq(Packet, frozen=True, tag=6):
    """Please send what is missing in `messages`, which is all that the requester has (*SyncReqMsg*)."""

    group: Group
    sync_id: SyncId
    messages: tuple[Logged, ...]


class SyncResp(Packet, frozen=True, tag=7):
    """What the requester lacks, as far as `responder` knows (*SyncRespMsg*)."""

    group: Group
    responder: NodeNumber
    sync_id: SyncId
    messages: tuple[Logged, ...]


class Standing(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """How `pid` stands to a group: the higher stamp is the newer word, and a departure wins a tie."""

    pid: NodeNumber
    stamp: Number
    departed: bool


class Roster(Packet, frozen=True, tag=8):
    """What the sender knows about a group: GroupList, Join and Leave in one, which may be repeated and cut at will."""

    group: Group
    desc: str
    standings: tuple[Standing, ...]


GJLP_PACKETS = (Adv, GroupList, Join, Leave)
ROSTER_PACKETS = (Adv, Roster)


def logged(message: Message) -> Logged:
    """The message as it travels inside a synchronisation packet."""
    return Logged(message.mid, message.parent, message.payload)


def message_of(group: Group, entry: Logged) -> Message:
    """The message that a synchronisation packet of `group` carries."""
    return Message(entry.mid, group, entry.payload, entry.parent)
