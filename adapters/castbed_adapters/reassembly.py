"""Letters from their pieces: bounded in number, in bytes and in time; what stays incomplete is dropped and counted."""

from __future__ import annotations

from collections import Counter

from castbed.values import NodeNumber
from castbed_adapters.pieces import Piece

INCOMPLETE_MAX = 64  # letters at once
INCOMPLETE_BYTES_MAX = 4 * 2**20
PATIENCE_NS = 1_000_000_000  # pieces of one letter leave together: a second is ages


class _Incomplete:
    """The pieces of one letter that have come."""

    __slots__ = ("count", "parts", "since", "size")

    def __init__(self, count: int, since: int) -> None:
        self.count = count
        self.since = since
        self.parts: dict[int, bytes] = {}
        self.size = 0


class Reassembly:
    """By sender and serial, in the order in which they began. `counters` gets `incomplete` and `malformed`."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._letters: dict[tuple[NodeNumber, int], _Incomplete] = {}
        self._bytes = 0

    def add(self, piece: Piece, now: int) -> bytes | None:
        """Take a piece in; the letter, when this was its last one."""
        self._expire(now)
        key = (piece.sender, piece.serial)
        letter = self._letters.setdefault(key, _Incomplete(piece.of, now))
        if piece.of != letter.count:
            self._counters["malformed"] += 1
            return None
        if piece.at not in letter.parts:
            letter.parts[piece.at] = piece.data
            letter.size += len(piece.data)
            self._bytes += len(piece.data)
        if len(letter.parts) == letter.count:
            self._forget(key)
            return b"".join(letter.parts[at] for at in range(letter.count))
        self._make_room()
        return None

    def end(self) -> None:
        """No piece comes any more."""
        for key in list(self._letters):
            self._drop(key)

    def _expire(self, now: int) -> None:
        for key, letter in list(self._letters.items()):
            if now - letter.since <= PATIENCE_NS:
                return
            self._drop(key)

    def _make_room(self) -> None:
        while len(self._letters) > INCOMPLETE_MAX or self._bytes > INCOMPLETE_BYTES_MAX:
            self._drop(next(iter(self._letters)))

    def _drop(self, key: tuple[NodeNumber, int]) -> None:
        self._forget(key)
        self._counters["incomplete"] += 1

    def _forget(self, key: tuple[NodeNumber, int]) -> None:
        self._bytes -= self._letters.pop(key).size

    def __len__(self) -> int:
        return len(self._letters)
