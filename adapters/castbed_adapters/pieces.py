"""What is too long for one packet of an interface, in pieces that travel one by one, or many of them side by side.

Each piece names its run, its sender, the letter that it is of, and its place in that. What a letter says, and whether
it came undamaged, is for those to see who read the letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from castbed.errors import PeerError
from castbed.values import NodeNumber

TOKEN_BYTES = 8
PIECES_MAX = 512  # the largest frame in pieces of 540 bytes
PIECE_MAGIC = 0xCB7D
_PIECE = Struct(f">H{TOKEN_BYTES}sIIHHH")  # magic, run, sender, serial, which of how many, bytes
PIECE_OVERHEAD = _PIECE.size


class Piece(NamedTuple):
    """A part of a letter."""

    token: bytes
    sender: NodeNumber
    serial: int
    at: int
    of: int
    data: bytes


def pieces(token: bytes, sender: NodeNumber, serial: int, letter: bytes, size: int) -> Iterator[bytes]:
    """The letter in pieces of at most `size` bytes, their own heads included."""
    room = size - PIECE_OVERHEAD
    count = -(-len(letter) // room)
    for at in range(count):
        data = letter[at * room : (at + 1) * room]
        yield _PIECE.pack(PIECE_MAGIC, token, sender, serial, at, count, len(data)) + data


def read_piece(data: bytes) -> Piece:
    """The piece at the beginning of `data`; PeerError when there is none."""
    try:
        magic, token, sender, serial, at, count, size = _PIECE.unpack_from(data)
    except struct_error:
        raise PeerError(f"a piece of {len(data)} bytes") from None
    body = data[PIECE_OVERHEAD : PIECE_OVERHEAD + size]
    if magic != PIECE_MAGIC or not at < count <= PIECES_MAX or len(body) != size:
        raise PeerError("a piece that makes no sense")
    return Piece(token, sender, serial, at, count, body)


def all_pieces(batch: memoryview, step: int) -> Piece | None:
    """All pieces of a letter as one, if they are what stands there, one after the other, each but the last `step` long.

    Only the first and the last are looked at: if others came between them, the letter is damaged.
    """
    last = (len(batch) - 1) // step
    try:
        magic, token, sender, serial, at, count, size = _PIECE.unpack_from(batch)
        end = _PIECE.unpack_from(batch, last * step)
    except struct_error:
        return None
    size_of_last = len(batch) - last * step - PIECE_OVERHEAD
    if (at, count, size) != (0, last + 1, step - PIECE_OVERHEAD):
        return None
    if magic != PIECE_MAGIC or end != (magic, token, sender, serial, last, count, size_of_last):
        return None
    parts = [batch[start + PIECE_OVERHEAD : start + step] for start in range(0, len(batch), step)]
    return Piece(token, sender, serial, 0, 1, b"".join(parts))
