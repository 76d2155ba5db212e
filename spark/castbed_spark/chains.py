"""Where blocks begin, when nobody says so: a place counts only if a chain of sound blocks starts there.

A block states its length at both ends. A chain is one block behind the other, each with two equal lengths, a known
interface and data that fits. Cuts between slices ask for a chain longer than the largest packet, so that a capture
that travels as the payload of a packet is never mistaken for blocks of the file itself.

This module is plain Python: Spark plans each query in a process of its own, where imports are paid every time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct

from castbed import pcapng

CUT_BYTES = 2 * pcapng.SNAP_BYTES
RESUME_BLOCKS = 4
PACKET_BYTES_MIN = 32
_SECTION = pcapng.SECTION_HEADER.to_bytes(4, "big")

Chain = tuple[int, int, bool]
"""How many blocks follow each other, where they end, and whether the data ends there too."""


class Chains:
    """Follows blocks in one byte order; `interfaces` is how many there are."""

    def __init__(self, mark: str, interfaces: int) -> None:
        self.interfaces = interfaces
        packet = pcapng.ENHANCED_PACKET.to_bytes(4, "little" if mark == "<" else "big")
        self._start = re.compile(re.escape(packet) + b"|" + re.escape(_SECTION))
        self._head = Struct(mark + "II").unpack_from
        self._word = Struct(mark + "I").unpack_from
        self._packet = Struct(mark + "IIIII").unpack_from

    def block(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Kind and length of the sound block at `at` that `data` holds to its end."""
        if at + pcapng.BLOCK_BYTES_MIN > len(data):
            return None
        kind, length = self._head(data, at)
        if not pcapng.BLOCK_BYTES_MIN <= length <= pcapng.BLOCK_BYTES_MAX or length & 3 or at + length > len(data):
            return None
        return (kind, length) if self._word(data, at + length - 4)[0] == length else None

    def is_cut(self, data: bytes, at: int) -> bool:
        """Whether what begins at `at` may be a block that goes on behind the end of `data`."""
        left = len(data) - at
        if left < pcapng.BLOCK_BYTES_MIN:
            return True
        kind, length = self._head(data, at)
        return bool(kind == pcapng.ENHANCED_PACKET and left < length <= pcapng.BLOCK_BYTES_MAX and not length & 3)

    def follow(self, data: bytes, at: int, blocks_max: int, bytes_max: int) -> Chain:
        """The chain from `at` on, as far as it goes or is asked for."""
        start, count = at, 0
        while count < blocks_max and at - start < bytes_max:
            found = self.block(data, at)
            if found is None or not self._fits(data, at, *found):
                break
            at += found[1]
            count += 1
        return count, at, self.is_cut(data, at)

    def _fits(self, data: bytes, at: int, kind: int, length: int) -> bool:
        if kind != pcapng.ENHANCED_PACKET:
            return True
        if length < PACKET_BYTES_MIN:
            return False
        number, _, _, captured, _ = self._packet(data, at + 8)
        return bool(number < self.interfaces and captured <= length - PACKET_BYTES_MIN)

    # --- looking for a start ---------------------------------------------------------------------------------------

    def cut_after(self, data: bytes, at: int) -> int | None:
        """The first place from `at` on where a chain of CUT_BYTES starts."""
        for start in self._candidates(data, at):
            _, end, _ = self.follow(data, start, CUT_BYTES, CUT_BYTES)
            if end - start >= CUT_BYTES:
                return start
        return None

    def resume_after(self, data: bytes, at: int, ends: bool) -> int | None:
        """Where reading may go on after damage: RESUME_BLOCKS in a chain, or fewer if `data` ends behind them.

        `ends` says that the end of `data` is that of the file.
        """
        for start in self._candidates(data, at):
            count, _, cut = self.follow(data, start, RESUME_BLOCKS, CUT_BYTES * RESUME_BLOCKS)
            if count >= RESUME_BLOCKS or (count and cut and ends):
                return start
        return None

    def _candidates(self, data: bytes, at: int) -> Iterator[int]:
        """Every place where a packet or a section might begin."""
        while found := self._start.search(data, at):
            yield found.start()
            at = found.start() + 1
