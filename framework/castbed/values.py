"""The values that protocols, hosts and checks share: message identities, messages, views, groups.

Nodes are numbers (1, 2, 3, ...) inside machines and on the wire; the topology knows their names, and everything that
people read shows names. The types say what fits into headers and records: whatever a peer writes beyond that is refused
where a frame is decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

NUMBER_MAX = (1 << 62) - 1  # nobody counts further, and sums of a few such numbers still have 64 bits

_Narrow = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF_FFFF)]
Number = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
"""What is counted: messages, views, moves, bytes."""
NodeNumber = _Narrow
Group = Annotated[int, msgspec.Meta(ge=0)]  # 64 bits; MessagePack has no more

NOBODY: NodeNumber = 0
DEFAULT_GROUP: Group = 1
_CREATOR_BITS = 32


class Mid(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The identity of a message: who wrote it, its number, and which life of the writer numbered it."""

    sender: Annotated[int, msgspec.Meta(ge=1, le=0xFFFF_FFFF)]
    seqno: Number
    incarnation: _Narrow = 0

    def text(self, name: Callable[[NodeNumber], str] = str) -> str:
        """`B3`, or `B3~2` in the third life of B; `h7.3` where the name ends in a digit."""
        writer = name(self.sender)
        dot = "." if writer[-1:].isdigit() else ""
        life = f"~{self.incarnation}" if self.incarnation else ""
        return f"{writer}{dot}{self.seqno}{life}"


UNNUMBERED = Mid(NOBODY, 0)


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an application submits and gets delivered.

    `parent` is the message that this one answers (None: it answers nothing). `to` lists the addressed nodes where that
    is not simply the whole group. `mid` is UNNUMBERED until a machine accepts the message.
    """

    mid: Mid = UNNUMBERED
    group: Group = DEFAULT_GROUP
    payload: bytes = b""
    parent: Mid | None = None
    to: tuple[NodeNumber, ...] | None = None


class View(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One membership of a group. `local` marks a view that nobody agreed on: what this node happens to know."""

    group: Group
    number: Number
    members: tuple[NodeNumber, ...]
    stations: tuple[NodeNumber, ...] = ()
    local: bool = False


def created_group(counter: int, creator: NodeNumber) -> Group:
    """The identity of the counter-th group that `creator` made; unique without any agreement."""
    return counter << _CREATOR_BITS | creator


def creator_of(group: Group) -> NodeNumber | None:
    """Who created the group; None for one that the experiment declares."""
    return group & (1 << _CREATOR_BITS) - 1 if group >> _CREATOR_BITS else None


def parse_group(text: str, number: Callable[[str], NodeNumber]) -> Group:
    """The group that `group_text` shows as `text`; ValueError when it shows none so."""
    counter, dot, creator = text.partition(".")
    readable = counter.isascii() and counter.isdigit() and int(counter) < 1 << _CREATOR_BITS
    if not readable or (dot and not creator):
        raise ValueError(f"{text!r} is no group: write `1`, or `1.C` for the first group that C created")
    try:
        return created_group(int(counter), number(creator)) if dot else int(counter)
    except KeyError:
        raise ValueError(f"{text!r} is no group: there is no node {creator!r}") from None


def group_text(group: Group, name: Callable[[NodeNumber], str] = str) -> str:
    """`1.C` for a group that C created, plain `1` for one that the experiment declares."""
    counter, creator = group >> _CREATOR_BITS, group & (1 << _CREATOR_BITS) - 1
    return f"{counter}.{name(creator)}" if counter else str(creator)
