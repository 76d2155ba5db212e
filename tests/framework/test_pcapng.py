"""pcapng: what a reader has to survive."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castbed import pcapng
from castbed.pcapng import Reader, block, interface_description, is_outbound, option, section_header

END = option(pcapng.END_OF_OPTIONS, b"")


def packet(interface: int, ticks: int, data: bytes, flags: int | None = None) -> bytes:
    options = b"" if flags is None else option(pcapng.PACKET_FLAGS, pack("<I", flags)) + END
    head = pack("<IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(pcapng.ENHANCED_PACKET, head + data + pcapng.padding(len(data)) + options)


HEADER = section_header("test", "a comment") + interface_description(pcapng.LINKTYPE_ETHERNET, "air")


def seen(data: bytes) -> list[tuple[str, int, bytes]]:
    return [(interface.what[0], at, data[start:end]) for _, interface, at, start, end, _ in Reader(data)]


def big_endian(kind: int, body: bytes) -> bytes:
    length = pack(">I", len(body) + 12)
    return pack(">I", kind) + length + body + length


def test_packets_are_found_with_their_time_and_data() -> None:
    data = HEADER + packet(0, 5_000_000_000, b"abc") + packet(0, 2**63, b"") + packet(0, 7, b"abcd")
    assert seen(data) == [("air", 5_000_000_000, b"abc"), ("air", 2**63, b""), ("air", 7, b"abcd")]


def test_comments_of_the_section_are_kept() -> None:
    assert Reader(HEADER).first_section().comments == ("a comment",)


def test_a_comment_longer_than_an_option_continues_in_the_next() -> None:
    text = "x" * 150_000
    comments = Reader(section_header("test", text)).first_section().comments
    assert len(comments) == 3
    assert "".join(comments) == text


def test_the_other_byte_order_is_read() -> None:
    section = big_endian(pcapng.SECTION_HEADER, pack(">IHHq", pcapng.BYTE_ORDER_MAGIC, 1, 0, -1))
    options = pack(">HH4s", 2, 3, b"air") + pack(">HH4s", 9, 1, b"\x09") + bytes(4)
    interface = big_endian(pcapng.INTERFACE_DESCRIPTION, pack(">HHI", 1, 0, 0) + options)
    flags = pack(">HHI", pcapng.PACKET_FLAGS, 4, pcapng.OUTBOUND)
    sent = big_endian(pcapng.ENHANCED_PACKET, pack(">IIIII", 0, 1, 2, 3, 3) + b"abc\0" + flags)
    data = section + interface + sent
    assert seen(data) == [("air", 2**32 + 2, b"abc")]
    assert [is_outbound(data, found) for found in Reader(data)] == [True]


def test_unknown_blocks_are_skipped() -> None:
    data = HEADER + block(0x0BAD, b"what?!!!") + packet(0, 1, b"x")
    assert seen(data) == [("air", 1, b"x")]


def test_each_section_has_its_own_interfaces() -> None:
    second = section_header("test", "") + interface_description(1, "wire")
    data = HEADER + packet(0, 1, b"x") + second + packet(0, 2, b"y")
    assert [name for name, _, _ in seen(data)] == ["air", "wire"]


@pytest.mark.parametrize(
    ("options", "ticks", "nanoseconds"),
    [
        (b"", 3, 3000),  # the default is microseconds
        (option(pcapng.TIME_RESOLUTION, b"\x03"), 5, 5_000_000),
        (option(pcapng.TIME_RESOLUTION, b"\x8a"), 512, 500_000_000),  # 2 to the power of -10
        (option(pcapng.TIME_RESOLUTION, b"\x09") + option(pcapng.TIME_OFFSET, pack("<q", 2)), 1, 2_000_000_001),
        (option(pcapng.TIME_RESOLUTION, b"\xff"), 2**63, 1_000_000_000),
        (option(pcapng.TIME_RESOLUTION, b"\x7f"), 10**18, 1_000_000_000),
    ],
)
def test_other_time_resolutions_become_nanoseconds(options: bytes, ticks: int, nanoseconds: int) -> None:
    interface = block(pcapng.INTERFACE_DESCRIPTION, pack("<HHI", 1, 0, 0) + options)
    data = section_header("test", "") + interface + packet(0, ticks, b"")
    assert [at for _, at, _ in seen(data)] == [nanoseconds]


@pytest.mark.parametrize(
    ("flags", "outbound"), [(None, False), (pcapng.INBOUND, False), (pcapng.OUTBOUND, True), (0x1E, True), (0, False)]
)
def test_the_direction_is_read_from_the_flags(flags: int | None, outbound: bool) -> None:
    for size in range(5):
        data = HEADER + packet(0, 1, bytes(size), flags)
        assert [is_outbound(data, found) for found in Reader(data)] == [outbound]


def read_all(data: bytes) -> tuple[Reader, int]:
    reader = Reader(data)
    return reader, sum(1 for _ in reader)


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        (pack("<II", 6, 0) + bytes(20), "a block of 0 bytes"),
        (pack("<II", 6, 13) + bytes(20), "a block of 13 bytes"),
        (pack("<II", 6, pcapng.BLOCK_BYTES_MAX + 4) + bytes(20), "a block of"),
        (pack("<II", 6, 1000) + bytes(20), "cut off"),
        (packet(0, 1, b"")[:-4] + pack("<I", 8), "two lengths"),
        (b"\0" * 5, "cut off"),
        (pack(">III", pcapng.SECTION_HEADER, 28, 0xDEADBEEF), "not pcapng"),
    ],
)
def test_a_damaged_tail_ends_the_reading_and_is_named(tail: bytes, said: str) -> None:
    start = HEADER + packet(0, 1, b"x")
    reader, found = read_all(start + tail)
    assert found == 1
    assert said in reader.problem
    assert f"byte {len(start)}" in reader.problem


@pytest.mark.parametrize(
    "bad",
    [
        packet(7, 1, b"x"),  # on an interface that does not exist
        block(pcapng.ENHANCED_PACKET, pack("<IIIII", 0, 0, 0, 99, 99)),  # with more data than its block
        block(pcapng.ENHANCED_PACKET, b"\0" * 8),
        block(pcapng.INTERFACE_DESCRIPTION, b""),
    ],
)
def test_a_block_that_makes_no_sense_is_skipped_and_counted(bad: bytes) -> None:
    reader, found = read_all(HEADER + bad + packet(0, 2, b"y"))
    assert (found, reader.bad_blocks, reader.problem) == (1, 1, "")


def test_more_interfaces_than_the_limit_are_not_kept() -> None:
    reader, _ = read_all(section_header("test", "") + interface_description(1, "") * (pcapng.INTERFACES_MAX + 5))
    assert len(reader.sections[0].interfaces) == pcapng.INTERFACES_MAX
    assert reader.bad_blocks == 5


@pytest.mark.parametrize("data", [b"", b"short", b"\xd4\xc3\xb2\xa1" + bytes(40), packet(0, 1, b"x"), HEADER[:20]])
def test_what_does_not_open_with_a_section_has_no_first_section(data: bytes) -> None:
    assert Reader(data).first_section() is None
    assert seen(data) == []


@given(st.binary(max_size=300), st.booleans())
def test_arbitrary_bytes_never_raise(data: bytes, behind_a_header: bool) -> None:
    data = HEADER + data if behind_a_header else data
    for found in Reader(data):
        assert 0 <= found[3] <= found[4] <= len(data)
        is_outbound(data, found)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_mutated_file_never_raises(changes: list[tuple[int, int]]) -> None:
    data = bytearray(HEADER + packet(0, 1, b"abc", pcapng.OUTBOUND) + packet(0, 2, b"", pcapng.INBOUND))
    for at, value in changes:
        data[at % len(data)] = value
    for found in Reader(bytes(data)):
        is_outbound(bytes(data), found)
