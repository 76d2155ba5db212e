"""pcapng, as far as captures need it: blocks written whole, and a reader that survives whatever it finds.

Written blocks are little-endian. The reader takes either byte order, any number of sections and blocks that it does not
know; every length is checked before it is used, and what cannot be read is counted and never raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

import msgspec

SECTION_HEADER = 0x0A0D0D0A
INTERFACE_DESCRIPTION = 1
ENHANCED_PACKET = 6
BYTE_ORDER_MAGIC = 0x1A2B3C4D

LINKTYPE_ETHERNET = 1
LINKTYPE_USER0 = 147

END_OF_OPTIONS = 0
COMMENT = 1
USER_APPLICATION = 4  # of a section header
INTERFACE_NAME = 2  # the meaning of an option's number depends on the block
TIME_RESOLUTION = 9
TIME_OFFSET = 14
PACKET_FLAGS = 2
INBOUND, OUTBOUND, DIRECTION_MASK = 1, 2, 3

SNAP_BYTES = 262_144  # the largest packet that Wireshark reads
BLOCK_BYTES_MIN = 12
BLOCK_BYTES_MAX = 16 * 1024 * 1024  # as in Wireshark: whatever claims to be longer is damage
OPTION_BYTES_MAX = 0xFFFF
INTERFACES_MAX = 1024  # per section; a capture has three
NANOSECONDS = 10**9
DECIMAL_DIGITS_MAX = 18  # a finer time resolution than this has no meaning in 64 bits
BINARY_DIGITS_MAX = 63

_WORD = Struct("<I")
_SECTION_BODY = Struct("<IHHq")
_INTERFACE_BODY = Struct("<HHI")
_OPTION_HEAD = Struct("<HH")
_LENGTH_UNKNOWN = -1
_SECTION_START = SECTION_HEADER.to_bytes(4, "big")  # the same in either byte order


def padding(size: int) -> bytes:
    """What makes `size` bytes a whole number of 32-bit words."""
    return bytes(-size & 3)


def option(code: int, value: bytes) -> bytes:
    return _OPTION_HEAD.pack(code, len(value)) + value + padding(len(value))


def block(kind: int, body: bytes) -> bytes:
    """A complete block; the body must be padded."""
    length = _WORD.pack(len(body) + BLOCK_BYTES_MIN)
    return _WORD.pack(kind) + length + body + length


def section_header(application: str, comment: str) -> bytes:
    """The block that opens a file; an ASCII comment longer than one option continues in the next comment."""
    text = comment.encode("ascii")
    pieces = [text[at : at + OPTION_BYTES_MAX] for at in range(0, len(text), OPTION_BYTES_MAX)]
    options = [option(COMMENT, piece) for piece in pieces] + [option(USER_APPLICATION, application.encode())]
    body = _SECTION_BODY.pack(BYTE_ORDER_MAGIC, 1, 0, _LENGTH_UNKNOWN)
    return block(SECTION_HEADER, body + b"".join(options) + option(END_OF_OPTIONS, b""))


def interface_description(link_type: int, name: str) -> bytes:
    """An interface whose packets have nanosecond times."""
    options = option(INTERFACE_NAME, name.encode()) + option(TIME_RESOLUTION, b"\x09") + option(END_OF_OPTIONS, b"")
    return block(INTERFACE_DESCRIPTION, _INTERFACE_BODY.pack(link_type, 0, SNAP_BYTES) + options)


# --- reading ---------------------------------------------------------------------------------------------------------


class ByteOrder:
    """The fixed parts of blocks in one byte order."""

    def __init__(self, mark: str) -> None:
        self.block_head = Struct(mark + "II").unpack_from
        self.word = Struct(mark + "I").unpack_from
        self.offset = Struct(mark + "q").unpack_from
        self.interface = Struct(mark + "HHI").unpack_from
        self.packet = Struct(mark + "IIIII").unpack_from
        self.option_head = Struct(mark + "HH").unpack_from

    def options(self, data: bytes, at: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Number and value of each option between `at` and `end`; a damaged one ends the list."""
        while at + 4 <= end:
            code, size = self.option_head(data, at)
            at += 4
            if code == END_OF_OPTIONS or at + size > end:
                return
            yield code, data[at : at + size]
            at += size + (-size & 3)


_ORDERS = {BYTE_ORDER_MAGIC.to_bytes(4, "little"): ByteOrder("<"), BYTE_ORDER_MAGIC.to_bytes(4, "big"): ByteOrder(">")}


class Interface(msgspec.Struct, frozen=True):
    """Where packets were seen, and what a tick of their times is."""

    what: tuple[str, int]  # name and link type
    ticks_per_second: int
    offset_ns: int
    in_nanoseconds: bool  # a tick is what we count in, as in every capture that Castbed wrote

    def nanoseconds(self, ticks: int) -> int:
        return ticks * NANOSECONDS // self.ticks_per_second + self.offset_ns


class Section:
    """A section header and the interfaces described after it."""

    def __init__(self, order: ByteOrder, comments: tuple[str, ...]) -> None:
        self.order = order
        self.comments = comments
        self.interfaces: list[Interface] = []


Found = tuple[Section, Interface, int, int, int, int]
"""A packet: section, interface, time in nanoseconds; where its data begins, where it ends, and where its options do."""


class Reader:
    """Iterates over the packets of a file; afterwards `sections`, `bad_blocks` and `problem` say what was found.

    `problem` is why the end of the file was not reached, empty when it was.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sections: list[Section] = []
        self.bad_blocks = 0
        self.problem = ""

    def first_section(self) -> Section | None:
        """What the file opens with; None when that is no whole section header."""
        self._restart()
        return self.sections[0] if self._block(0) else None

    def _restart(self) -> None:
        self.sections, self.bad_blocks, self.problem = [], 0, ""

    def __iter__(self) -> Iterator[Found]:
        self._restart()
        at = 0
        while found := self._block(at):
            kind, length = found
            end = at + length - 4
            if kind == ENHANCED_PACKET:
                packet = self._packet(at, end)
                if packet is not None:
                    yield packet
            elif kind == INTERFACE_DESCRIPTION:
                self._add_interface(at, end)
            at += length

    def _block(self, at: int) -> tuple[int, int] | None:
        """Kind and length of the whole and sound block at `at`, None where there is none; opens sections."""
        left = len(self.data) - at
        if left < BLOCK_BYTES_MIN:
            self.problem = f"cut off at byte {at}, inside a block" if left else ""
            return None
        opens = self.data.startswith(_SECTION_START, at)
        order = self._order_at(at) if opens else self.sections[-1].order if self.sections else None
        if order is None:
            self.problem = f"not pcapng from byte {at} on"
            return None
        kind, length = order.block_head(self.data, at)
        if not BLOCK_BYTES_MIN <= length <= BLOCK_BYTES_MAX or length & 3:
            self.problem = f"unreadable from byte {at} on: a block of {length} bytes"
        elif length > left:
            self.problem = f"cut off at byte {at}, inside a block"
        elif order.word(self.data, at + length - 4)[0] != length:
            self.problem = f"unreadable from byte {at} on: a block that states two lengths"
        else:
            if opens:
                self._open_section(order, at, at + length - 4)
            return kind, length
        return None

    def _order_at(self, at: int) -> ByteOrder | None:
        return _ORDERS.get(self.data[at + 8 : at + 12])

    def _open_section(self, order: ByteOrder, at: int, end: int) -> None:
        options = order.options(self.data, at + 24, end)
        self.sections.append(Section(order, tuple(v.decode("utf-8", "replace") for c, v in options if c == COMMENT)))

    def _add_interface(self, at: int, end: int) -> None:
        section = self.sections[-1]
        if at + 16 > end or len(section.interfaces) >= INTERFACES_MAX:
            self.bad_blocks += 1
            return
        link_type = section.order.interface(self.data, at + 8)[0]
        options = dict(section.order.options(self.data, at + 16, end))
        name = options.get(INTERFACE_NAME, b"").decode("utf-8", "replace")
        offset = options.get(TIME_OFFSET, b"")
        offset_ns = section.order.offset(offset)[0] * NANOSECONDS if len(offset) == 8 else 0
        ticks = _ticks_per_second(options.get(TIME_RESOLUTION, b""))
        section.interfaces.append(
            Interface((name, link_type), ticks, offset_ns, (ticks, offset_ns) == (NANOSECONDS, 0))
        )

    def _packet(self, at: int, end: int) -> Found | None:
        section = self.sections[-1]
        start = at + 28
        if start <= end:
            number, high, low, captured, _ = section.order.packet(self.data, at + 8)
            if start + captured <= end and number < len(section.interfaces):
                interface = section.interfaces[number]
                ticks = high << 32 | low
                time = ticks if interface.in_nanoseconds else interface.nanoseconds(ticks)
                return section, interface, time, start, start + captured, end
        self.bad_blocks += 1
        return None


def is_outbound(data: bytes, found: Found) -> bool:
    """Whether the packet's flags say that it was sent, rather than received."""
    section, _, _, _, data_end, end = found
    for code, value in section.order.options(data, data_end + (-data_end & 3), end):
        if code == PACKET_FLAGS and len(value) == 4:
            flags: int = section.order.word(value)[0]
            return flags & DIRECTION_MASK == OUTBOUND
    return False


def _ticks_per_second(resolution: bytes) -> int:
    if len(resolution) != 1:
        return 10**6
    digits = resolution[0] & 0x7F
    if resolution[0] & 0x80:
        return 1 << min(digits, BINARY_DIGITS_MAX)
    return int(10 ** min(digits, DECIMAL_DIGITS_MAX))
