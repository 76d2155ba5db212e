"""What renderers say to each other in the payloads of ordered messages."""

from __future__ import annotations

import msgspec

from castbed import NodeNumber
from castbed_plugins.eomp.render.schedule import Entity


class TaskId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The client and a number that it drew, so that no two of its lives use one number."""

    client: NodeNumber
    number: int


class Announce(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A task: how many frames of which size, and the volume that `fragments` fragments bring."""

    task: TaskId
    frames: int
    image_side: int
    slices: int
    side: int
    fragments: int
    digest: bytes


class Fragment(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """One piece of the volume."""

    task: TaskId
    index: int
    data: bytes


class Result(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """One of `count` pieces of a frame, computed."""

    task: TaskId
    frame: int
    index: int
    count: int
    data: bytes


class Increment(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """An entity joins. A newcomer's `attempt` says which ID shall welcome it, for the first one asked may be gone."""

    entity: Entity
    attempt: int | None = None


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The roster as it was when the Increment of `entity` was delivered."""

    entity: Entity
    attempt: int
    roster: tuple[Entity, ...]


class Decrement(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """An entity leaves. The paper names it by its ID alone, which may be another's when this is delivered."""

    identity: int
    entity: Entity | None = None


class Reassign(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """The client still misses these frames: whoever works now shares them anew."""

    task: TaskId
    frames: tuple[int, ...]
    turn: int


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    """Nobody needs the task any more."""

    task: TaskId


Said = Announce | Fragment | Result | Increment | Welcome | Decrement | Reassign | Cancel
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Said)


def encoded(said: Said) -> bytes:
    return _encoder.encode(said)


def decoded(payload: bytes) -> Said | None:
    """What a renderer said; None for what is no renderer's."""
    try:
        said: Said = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return said
