"""From bytes to the places of packets, with numpy: no Python object per packet.

All words that look like the start of a packet are found at once, and those whose block states the same length twice
are kept. Where each of them ends at the start of the next one, the chain is proven and no block was looked at alone.
Only where it breaks (another kind of block, damage, the end) a step is taken in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from castbed import pcapng
from castbed.errors import ConfigurationError
from castbed_spark.chains import PACKET_BYTES_MIN, RESUME_BLOCKS, Chains
from castbed_spark.heads import Head, add_interface, head_of

WINDOW_BYTES = 4 * 2**20  # read at a time: what fits into a cache, and some ten thousand packets
PADDING_BYTES = 256  # zeros behind a window, so that the fixed parts of a short last packet can be gathered
FIRST_BYTES = 64 * 1024  # after damage, windows grow from this: damaged places may be close to each other
OVERLAP_BYTES = RESUME_BLOCKS * pcapng.SNAP_BYTES  # so that a chain is seen whole

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


class Packets(msgspec.Struct):
    """Packets of one window: where their blocks begin in `data`, which starts at byte `base` of the file."""

    data: Bytes
    places: Places
    base: int
    head: Head
    belongs: bool


class Count(msgspec.Struct):
    """What was found besides packets. `cut` says that the file ends inside a block."""

    bad_blocks: int = 0
    skipped_bytes: int = 0
    cut: bool = False


class _Window:
    """The blocks that lie wholly in a stretch of the file that begins with a block."""

    def __init__(self, data: Bytes, size: int, mark: str) -> None:
        self.words = data[: size & ~3].view(mark + "u4")
        self.starts, self.ends = self._sound_packets()
        self.breaks = np.flatnonzero(self.ends[:-1] != self.starts[1:])
        self.taken: list[Places] = []

    def _sound_packets(self) -> tuple[Places, Places]:
        words = self.words
        starts = np.flatnonzero(words[:-1] == pcapng.ENHANCED_PACKET)
        lengths = words[starts + 1]
        kept = (lengths & 3 == 0) & (lengths >= PACKET_BYTES_MIN) & (lengths <= pcapng.BLOCK_BYTES_MAX)
        starts, lengths = starts[kept], lengths[kept]
        ends = starts + (lengths >> 2).astype(np.int64)
        kept = ends <= len(words)
        starts, lengths, ends = starts[kept], lengths[kept], ends[kept]
        kept = words[ends - 1] == lengths
        return starts[kept], ends[kept]

    def follow(self, at: int) -> int:
        """Take the packets that follow each other from word `at` on; where the chain of packets ends."""
        while True:
            first = int(np.searchsorted(self.starts, at))
            if first == len(self.starts) or self.starts[first] != at:
                return at
            place = int(np.searchsorted(self.breaks, first))
            last = int(self.breaks[place]) if place < len(self.breaks) else len(self.starts) - 1
            self.taken.append(self.starts[first : last + 1])
            at = int(self.ends[last])

    def places(self) -> Places:
        """Byte offsets of the packets taken so far."""
        return np.concatenate(self.taken) * 4 if self.taken else np.empty(0, np.int64)


class Walk:
    """Iterates over the packets between two cuts of a file; afterwards `count` says what else was met.

    `head` is the section in force at the start. A file that is read in several slices must not change its section or
    its interfaces on the way, because the next slice would not know: that is refused.
    """

    def __init__(self, path: Path, start: int, end: int, head: Head, whole: bool) -> None:
        self.path, self.start, self.end = path, start, end
        self.head, self.whole = head, whole
        self.whose = head.whose
        self._interfaces = len(head.interfaces)
        self.count = Count()
        self._size = path.stat().st_size

    def __iter__(self) -> Iterator[Packets]:
        at, window_bytes = self.start, WINDOW_BYTES
        with self.path.open("rb") as self._file:
            while at < self.end:
                data, size = self._window(at, window_bytes)
                packets, stop, needed = self._through(at, data, size)
                if len(packets.places):
                    yield packets
                if stop == at and not needed:
                    stop, window_bytes = self._after_damage(at), FIRST_BYTES
                else:
                    window_bytes = max(min(2 * window_bytes, WINDOW_BYTES), needed)
                at = stop

    def _window(self, at: int, size: int) -> tuple[Bytes, int]:
        data = np.empty(size + PADDING_BYTES, np.uint8)
        self._file.seek(at)
        found = self._file.readinto(data[:size])  # type: ignore[arg-type]
        data[found:] = 0
        return data, found

    def _through(self, base: int, data: Bytes, size: int) -> tuple[Packets, int, int]:
        """The packets of a window, where it stops, and how many bytes are needed to go on if more than it has."""
        window, head, belongs = _Window(data, size, self.head.mark), self.head, self.head.whose == self.whose
        at, needed = window.follow(0), 0
        while base + at * 4 < self.end:
            kind, length = _block(window.words, at)
            if at * 4 + length > size or length == 0:
                needed = length if at == 0 and base + length <= self._size else 0
                break
            block = data[at * 4 : at * 4 + length].tobytes()
            at += length // 4
            if kind == pcapng.SECTION_HEADER:
                self._open(block)
                break
            self._other(kind, block)
            at = window.follow(at)
        places = window.places()
        return Packets(data, self._before_end(base, places), base, head, belongs), self._stop(base, at, places), needed

    def _before_end(self, base: int, places: Places) -> Places:
        return places[: int(np.searchsorted(places, self.end - base))]

    def _stop(self, base: int, at: int, places: Places) -> int:
        """Where to go on; a slice has to end where a block begins."""
        stop = base + at * 4
        if stop <= self.end:
            return stop
        if self.end - base not in places:
            raise ConfigurationError(str(self.path), f"no block begins at byte {self.end}; read it with split=false")
        return self.end

    def _open(self, block: bytes) -> None:
        head = head_of(block)
        if head is None:
            self.count.bad_blocks += 1
            return
        if not self.whole and head.whose != self.whose:
            raise ConfigurationError(str(self.path), "holds several captures; read it with split=false")
        self.head = head

    def _other(self, kind: int, block: bytes) -> None:
        """A packet without room for its fixed part is damage; blocks that say nothing to us are passed over."""
        described = kind == pcapng.INTERFACE_DESCRIPTION and add_interface(self.head, block)
        if kind == pcapng.ENHANCED_PACKET or (kind == pcapng.INTERFACE_DESCRIPTION and not described):
            self.count.bad_blocks += 1
        if len(self.head.interfaces) > self._interfaces and not self.whole:
            raise ConfigurationError(str(self.path), "describes interfaces late; read it with split=false")

    def _after_damage(self, at: int) -> int:
        """Where the next chain of blocks begins, or the end."""
        chains = Chains(self.head.mark, len(self.head.interfaces))
        base, size = at + 1, FIRST_BYTES
        while base < self.end:
            self._file.seek(base)
            data = self._file.read(size + OVERLAP_BYTES)
            found = chains.resume_after(data, 0, ends=base + len(data) == self._size)
            if found is not None and found < size:
                return self._skipped(at, min(base + found, self.end))
            base, size = base + size, min(2 * size, WINDOW_BYTES)
        return self._nothing_left(at, chains)

    def _skipped(self, at: int, end: int) -> int:
        self.count.bad_blocks += 1
        self.count.skipped_bytes += end - at
        return end

    def _nothing_left(self, at: int, chains: Chains) -> int:
        self._file.seek(at)
        if self.end == self._size and chains.is_cut(self._file.read(pcapng.BLOCK_BYTES_MAX), 0):
            self.count.cut = True
            self.count.skipped_bytes += self.end - at
            return self.end
        return self._skipped(at, self.end)


def _block(words: NDArray[np.uint32], at: int) -> tuple[int, int]:
    """Kind and length of the block at word `at` as it states them; (0, 0) when it is damaged."""
    if at + 3 > len(words):
        return 0, 0
    kind, stated, magic = int(words[at]), int(words[at + 1]), int(words[at + 2])
    length = stated
    if kind == pcapng.SECTION_HEADER and magic != pcapng.BYTE_ORDER_MAGIC:
        if _swapped(magic) != pcapng.BYTE_ORDER_MAGIC:
            return 0, 0
        length = _swapped(stated)
    if not pcapng.BLOCK_BYTES_MIN <= length <= pcapng.BLOCK_BYTES_MAX or length & 3:
        return 0, 0
    end = at + length // 4
    if end <= len(words) and int(words[end - 1]) != stated:
        return 0, 0
    return kind, length


def _swapped(word: int) -> int:
    return int.from_bytes(word.to_bytes(4, "little"), "big")
