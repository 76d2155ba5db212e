"""What travels behind a frame on a raw interface.

A frame goes out as it is, so that every tool that knows Castbed's frames shows it; behind it come the run, the sender's
cell, the nodes it is for (none: everybody) and a checksum. The frame's own header says where it ends: what a driver
appends to short frames does no harm. What is longer than the interface takes goes out in pieces
(`castbed_adapters.pieces`) under an ethertype of their own.

The checksum is against garbled frames, which raw interfaces may hand over; against people there are keys.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import NamedTuple
from zlib import crc32

from castbed.authentication import SEAL_BYTES
from castbed.errors import PeerError
from castbed.links import Cell
from castbed.values import NodeNumber
from castbed.wire import ETHERTYPE, HEADER_BYTES, HEADER_FIELDS, MAGIC, SEALED
from castbed_adapters.pieces import TOKEN_BYTES

PIECE_ETHERTYPE = ETHERTYPE + 1  # IEEE 802 local experimental ethertype 2
_TAIL = Struct(f">{TOKEN_BYTES}sIH")  # run, cell, how many nodes it is for
_NUMBER = Struct(">I")
_CHECKSUM = Struct(">I")  # CRC-32 of everything before it
LETTER_OVERHEAD = _TAIL.size + 64 * _NUMBER.size + _CHECKSUM.size  # for a letter to so many nodes
_READ = ("magic", "flags", "sender", "control_bytes", "payload_bytes")  # of the frame's header; the rest is skipped
_GLANCE = Struct(">" + "".join(code if name in _READ else f"{Struct(code).size}x" for name, code, _ in HEADER_FIELDS))


class Letter(NamedTuple):
    """A frame and whom it is for."""

    token: bytes
    sender: NodeNumber
    cell: Cell
    to: tuple[NodeNumber, ...]
    frame: bytes


def letter_bytes(token: bytes, frame: bytes, cell: Cell, to: tuple[NodeNumber, ...]) -> bytes:
    letter = frame + _TAIL.pack(token, cell, len(to)) + b"".join(map(_NUMBER.pack, to))
    return letter + _CHECKSUM.pack(crc32(letter))


def read_letter(data: bytes) -> Letter:
    """The letter at the beginning of `data`; PeerError when there is none."""
    if len(data) < HEADER_BYTES:
        raise PeerError(f"a letter of {len(data)} bytes")
    magic, flags, sender, control, payload = _GLANCE.unpack_from(data)
    end = HEADER_BYTES + control + payload + (SEAL_BYTES if flags & SEALED else 0)
    try:
        token, cell, count = _TAIL.unpack_from(data, end)
        checked = end + _TAIL.size + count * _NUMBER.size
        (checksum,) = _CHECKSUM.unpack_from(data, checked)
    except struct_error:
        raise PeerError("a letter that ends too early") from None
    if magic != MAGIC:
        raise PeerError("not a frame of Castbed")
    if checksum != crc32(data[:checked]):
        raise PeerError("a letter that was garbled on its way")
    to = _addressees(data, end + _TAIL.size, count) if count else ()
    return Letter(token, sender, cell, to, data[:end])


def _addressees(data: bytes, start: int, count: int) -> tuple[NodeNumber, ...]:
    return tuple(_NUMBER.unpack_from(data, start + at * _NUMBER.size)[0] for at in range(count))
