"""What the controller and the processes of nodes say to each other, and how it travels.

A message is four bytes of length and a msgpack document. The stream below may be any: today a local socket pair, made
before the process is, which nobody else can reach. Where the experiment has a key, both ends prove that they have it
before anything is said, and every message carries a code.
"""

from __future__ import annotations

import asyncio
import os
from struct import Struct
from typing import Any

import msgspec

from castbed.handshake import (
    CHALLENGE_BYTES,
    HELLO_BYTES,
    PROOF_BYTES,
    Handshake,
    HandshakeError,
    Session,
)
from castbed.links import Cell
from castbed.values import NodeNumber

LENGTH = Struct(">I")
MESSAGE_BYTES_MAX = 1 << 24  # addresses and counters of a million nodes fit; anything longer is not ours
PROOF_S_MAX = 60.0  # until the other end has proved itself, on a busy machine


class Counts(msgspec.Struct):
    """What one life of a node has counted so far."""

    submitted: int = 0
    delivered: int = 0
    frames: int = 0
    steps: int = 0
    dropped: int = 0
    oversize: int = 0
    effects: dict[str, int] = {}
    links: dict[str, int] = {}


class ControlMessage(msgspec.Struct, frozen=True, tag=True):
    """Base of all that is said."""


class Opened(ControlMessage, frozen=True):
    """Node: the capture is running, links are bound; `address` is what the others need to reach this node."""

    node: NodeNumber
    address: Any


class Linked(ControlMessage, frozen=True):
    """Node: every link is up, in both directions."""

    node: NodeNumber


class Begun(ControlMessage, frozen=True):
    """Node: its life has begun."""

    node: NodeNumber


class Counted(ControlMessage, frozen=True):
    """Node: what this life has counted so far; comes now and then, because a killed node says nothing any more."""

    node: NodeNumber
    counts: Counts


class Failed(ControlMessage, frozen=True):
    """Nodes: one of these cannot go on. `kind` is the name of the error."""

    nodes: list[NodeNumber]
    kind: str
    words: str


class Ended(ControlMessage, frozen=True):
    """Node: the capture is complete."""

    node: NodeNumber


class Connect(ControlMessage, frozen=True):
    """Controller: reach these nodes."""

    node: NodeNumber
    addresses: dict[NodeNumber, Any]


class Go(ControlMessage, frozen=True):
    """Controller: the run has its origin at this time (CLOCK_MONOTONIC, nanoseconds); begin then, or at once.

    `ahead` is how much more CLOCK_REALTIME shows, with which the kernel stamps frames.
    """

    origin: int
    ahead: int


class Move(ControlMessage, frozen=True):
    """Controller: the node is in this cell from now on."""

    node: NodeNumber
    cell: Cell


class Ask(ControlMessage, frozen=True):
    """Controller: do what the happening at this place of the schedule wants of a node."""

    happening: int


class Stop(ControlMessage, frozen=True):
    """Controller: the run is over."""


Message = Opened | Linked | Begun | Counted | Failed | Ended | Connect | Go | Move | Ask | Stop

_encode = msgspec.msgpack.Encoder().encode
_decode: Any = msgspec.msgpack.Decoder(Message).decode


class Channel:
    """One end of a conversation."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._session: Session | None = None

    async def authenticate(self, role: bytes, key: bytes) -> None:
        """Prove that we have the key, and have the other end prove it; HandshakeError unless it does."""
        ours = Handshake(role, key, os.urandom(CHALLENGE_BYTES))
        try:
            async with asyncio.timeout(PROOF_S_MAX):
                self._writer.write(ours.hello())
                self._writer.write(ours.answer(await self._reader.readexactly(HELLO_BYTES)))
                ours.check(await self._reader.readexactly(PROOF_BYTES))
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            raise HandshakeError("the other end went away before it proved that it has the key") from None
        self._session = ours.session()

    def say(self, message: ControlMessage) -> None:
        """Say it; who is gone does not hear it."""
        data = _encode(message)
        if self._session is not None:
            data = self._session.seal(data)
        self._writer.write(LENGTH.pack(len(data)) + data)

    async def hear(self) -> Message | None:
        """What the other end says next; None when it is gone, or somebody else speaks."""
        try:
            (size,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if size > MESSAGE_BYTES_MAX:
                return None
            data = await self._reader.readexactly(size)
            heard: Message = _decode(data if self._session is None else self._session.opened(data))
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError, HandshakeError):
            return None
        return heard

    def drop(self) -> None:
        """Hang up at once, whatever was still to be said."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Say what was said to the end, and hang up."""
        try:
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()
        except ConnectionError:
            return
