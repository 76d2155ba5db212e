"""The frame: what is encoded comes back, and nothing that arrives can do more than be refused."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castbed.errors import ContractError, PeerError
from castbed.packets import Packet
from castbed.values import NUMBER_MAX, Group, Mid, NodeNumber, Number
from castbed.wire import (
    ETHERNET_BYTES,
    FRAME_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    HEADER_FIELDS,
    Codec,
    FrameTooLargeError,
    address,
    ethernet_frame,
    family_number,
)


class Empty(Packet, frozen=True, tag=1):
    pass


class OneField(Packet, frozen=True, tag=2):
    parent: Mid | None


class Several(Packet, frozen=True, tag=3):
    heard: tuple[Mid, ...]
    text: str
    ratio: float
    pair: tuple[int, bool]


class Data(Packet, frozen=True, tag=4):
    group: int
    mid: Mid
    payload: bytes
    parent: Mid | None


class Shuffled(Packet, frozen=True, tag=5):
    clock: tuple[int, ...]
    payload: bytes
    count: int
    mid: Mid
    group: int


class OnlyHeader(Packet, frozen=True, tag=6):
    mid: Mid


class OnlyPayload(Packet, frozen=True, tag=7):
    payload: bytes


class OnlyGroup(Packet, frozen=True, tag=8):
    group: int


class Tree(msgspec.Struct, frozen=True, array_like=True):
    children: tuple[Tree, ...]


class Nested(Packet, frozen=True, tag=9):
    tree: Tree


PACKETS = (Empty, OneField, Several, Data, Shuffled, OnlyHeader, OnlyPayload, OnlyGroup, Nested)
CODEC = Codec({"example": PACKETS})

nodes = st.integers(1, 0xFFFF_FFFF)
long = st.integers(0, 2**64 - 1)
mids = st.builds(Mid, nodes, st.integers(0, NUMBER_MAX), st.integers(0, 0xFFFF_FFFF))
payloads = st.binary(max_size=40)
clocks = st.lists(long, max_size=5).map(tuple)
pairs = st.tuples(st.integers(-(2**63), 2**64 - 1), st.booleans())
packets = st.one_of(
    st.builds(Empty),
    st.builds(OneField, st.none() | mids),
    st.builds(Several, st.lists(mids, max_size=3).map(tuple), st.text(), st.floats(allow_nan=False), pairs),
    st.builds(Data, long, mids, payloads, st.none() | mids),
    st.builds(Shuffled, clocks, payloads, long, mids, long),
    st.builds(OnlyHeader, mids),
    st.builds(OnlyPayload, payloads),
    st.builds(OnlyGroup, long),
    st.builds(
        Nested, st.recursive(st.just(Tree(())), lambda t: st.lists(t, max_size=3).map(tuple).map(Tree), max_leaves=5)
    ),
)


@given(packets, nodes)
def test_what_is_encoded_comes_back(packet: Packet, sender: int) -> None:
    frame = CODEC.encode(packet, sender)
    assert CODEC.decode(frame) == (packet, sender)
    assert CODEC.decode(memoryview(frame)) == (packet, sender)


def header_of(frame: bytes) -> dict[str, int]:
    return dict(zip((name for name, _, _ in HEADER_FIELDS), HEADER.unpack_from(frame), strict=True))


@given(packets, nodes)
def test_the_header_states_the_sizes_without_decoding_anything(packet: Packet, sender: int) -> None:
    frame = CODEC.encode(packet, sender)
    header = header_of(frame)
    assert header["payload_bytes"] == len(getattr(packet, "payload", b""))
    assert HEADER_BYTES + header["control_bytes"] + header["payload_bytes"] == len(frame)
    assert header["family"] == family_number("example")
    assert PACKETS[header["kind"] - 1] is type(packet)


def accepted_or_refused(frame: bytes) -> None:
    try:
        packet, sender = CODEC.decode(frame)
    except PeerError:
        return
    assert isinstance(packet, PACKETS)
    assert sender > 0


@given(st.binary(max_size=120))
def test_arbitrary_bytes_are_refused_or_decoded_and_nothing_else(frame: bytes) -> None:
    accepted_or_refused(frame)


@given(packets, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4), st.integers(-3, 3))
def test_a_mutated_frame_is_refused_or_decoded_and_nothing_else(
    packet: Packet, changes: list[tuple[int, int]], longer: int
) -> None:
    frame = bytearray(CODEC.encode(packet, 1))
    for at, value in changes:
        frame[at % len(frame)] = value
    accepted_or_refused(bytes(frame) + b"\0" * longer if longer >= 0 else bytes(frame[:longer]))


@given(st.integers(0, 2**16 - 1), st.integers(0, 10), st.binary(max_size=60))
def test_any_body_behind_a_sound_header_is_refused_or_decoded(group: int, kind: int, body: bytes) -> None:
    header = HEADER.pack(0xCB5D, 1, kind & 1, family_number("example"), kind, group, 1, 2, 3, 0, len(body), 0)
    accepted_or_refused(header + body)


def test_a_body_nested_without_end_is_refused() -> None:
    body = b"\x91" * 100_000
    header = HEADER.pack(0xCB5D, 1, 0, family_number("example"), 9, 0, 0, 2, 0, 0, len(body), 0)
    with pytest.raises(PeerError, match="Nested"):
        CODEC.decode(header + body)


def test_a_text_that_is_no_unicode_is_refused() -> None:
    frame = CODEC.encode(Several((), "text", 0.5, (1, True)), 2)
    with pytest.raises(PeerError, match="Several"):
        CODEC.decode(frame.replace(b"text", b"te\xff\xfe"))


def changed(frame: bytes, **fields: int) -> bytes:
    return HEADER.pack(*(header_of(frame) | fields).values()) + frame[HEADER_BYTES:]


@pytest.mark.parametrize(
    "fields",
    [
        {"magic": 0xCB5C},
        {"version": 2},
        {"flags": 0},
        {"family": family_number("another")},
        {"kind": 99},
        {"sender": 0},
        {"control_bytes": 3},
        {"payload_bytes": 0xFFFF_FFFF},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_each_field_of_the_header_is_checked(fields: dict[str, int]) -> None:
    frame = CODEC.encode(Data(1, Mid(2, 3), b"payload", None), 2)
    assert changed(frame) == frame
    with pytest.raises(PeerError):
        CODEC.decode(changed(frame, **fields))


def test_an_identity_that_the_packet_type_does_not_have_is_refused() -> None:
    with pytest.raises(PeerError, match="OnlyPayload"):
        CODEC.decode(changed(CODEC.encode(OnlyPayload(b""), 2), flags=1))


def test_the_largest_frame_fits_and_the_next_larger_is_refused_by_the_sender() -> None:
    room = FRAME_BYTES_MAX - HEADER_BYTES
    assert CODEC.decode(CODEC.encode(OnlyPayload(bytes(room)), 1))[0] == OnlyPayload(bytes(room))
    with pytest.raises(FrameTooLargeError, match="OnlyPayload"):
        CODEC.encode(OnlyPayload(bytes(room + 1)), 1)


def test_a_packet_that_nobody_declared_cannot_be_sent() -> None:
    with pytest.raises(ContractError, match="Data"):
        Codec({"example": [Empty]}).encode(Data(1, Mid(1, 1), b"", None), 1)


def test_two_protocols_with_one_family_number_are_refused() -> None:
    numbers: dict[int, str] = {}
    for number in count():
        name = f"protocol-{number}"
        other = numbers.setdefault(family_number(name), name)
        if other != name:
            break
    with pytest.raises(ContractError, match="rename"):
        Codec({name: [Empty], other: [Empty]})


def test_an_ethernet_frame_names_its_nodes() -> None:
    frame = ethernet_frame(b"frame", 3)
    assert frame == b"\xff" * 6 + address(3) + b"\x88\xb5frame"
    assert ethernet_frame(b"", 3, 0x01020304)[:6] == b"\x02\xcb\x01\x02\x03\x04"
    assert len(frame) == ETHERNET_BYTES + 5


@pytest.mark.parametrize(
    "packet", [OnlyGroup(-1), OnlyGroup(1 << 64), OnlyHeader(Mid(1, 1 << 64)), OnlyHeader(Mid(1, 1, -1))]
)
def test_a_number_that_fits_no_frame_is_our_mistake(packet: Packet) -> None:
    with pytest.raises(ContractError, match="a number that fits no frame"):
        CODEC.encode(packet, 1)


class Bounded(Packet, frozen=True, tag=20):
    answers: tuple[Mid | None, ...] = ()
    node: NodeNumber = 0
    group_of: Group = 0
    count: Number = 0


@pytest.mark.parametrize(
    "packet",
    [
        OnlyHeader(Mid(0, 1)),
        OnlyHeader(Mid(0, 0)),
        OnlyHeader(Mid(1, NUMBER_MAX + 1)),
        OneField(Mid(0, 1)),
        OneField(Mid(1 << 32, 1)),
        OneField(Mid(1, -1)),
        OneField(Mid(1, NUMBER_MAX + 1)),
        OneField(Mid(1, 1, 1 << 32)),
        OneField(Mid(1, 1, -1)),
        Bounded((None, Mid(1, 1), Mid(-1, 1))),
        Bounded(node=-1),
        Bounded(node=1 << 32),
        Bounded(group_of=-1),
        Bounded(count=-1),
        Bounded(count=NUMBER_MAX + 1),
    ],
)
def test_what_fits_no_header_and_no_record_is_refused(packet: Packet) -> None:
    codec = Codec({"example": (*PACKETS, Bounded)})
    with pytest.raises(PeerError):
        codec.decode(codec.encode(packet, 1))


def test_the_largest_that_fits_comes_back() -> None:
    codec = Codec({"example": (Bounded,)})
    packet = Bounded((Mid(0xFFFF_FFFF, NUMBER_MAX, 0xFFFF_FFFF),), 0xFFFF_FFFF, (1 << 64) - 1, NUMBER_MAX)
    assert codec.decode(codec.encode(packet, 1)) == (packet, 1)


def test_a_number_in_a_body_that_no_frame_holds_is_our_mistake() -> None:
    with pytest.raises(ContractError, match="Several holds a number that fits no frame"):
        CODEC.encode(Several((), "", 0.0, (1 << 64, True)), 1)
