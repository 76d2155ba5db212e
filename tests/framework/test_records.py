"""The record of a local event: it comes back as it was, and arbitrary bytes are refused in one way."""

from __future__ import annotations

from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from castbed.errors import ContractError, PeerError
from castbed.history import Kind, LocalEvent
from castbed.records import (
    EVENT_BYTES_MAX,
    RECORD,
    RECORD_BYTES,
    RECORD_FIELDS,
    TEXT_BYTES_MAX,
    decode_event,
    encode_event,
)
from castbed.values import NUMBER_MAX, Mid

word = st.integers(0, 0xFFFF_FFFF)
nodes = st.integers(1, 0xFFFF_FFFF)
long = st.integers(0, 2**64 - 1)
mids = st.builds(Mid, nodes, st.integers(0, NUMBER_MAX), word)
many = st.lists(nodes, max_size=6).map(tuple)
events = st.builds(
    LocalEvent,
    node=nodes,
    at=st.integers(0, 2**63),
    kind=st.sampled_from(Kind),
    group=long,
    mid=st.none() | mids,
    parent=st.none() | mids,
    number=long,
    peer=word,
    size=word,
    digest=word,
    waiting_for=st.just(()) | st.lists(mids, max_size=4).map(tuple),
    members=st.just(()) | many,
    stations=st.just(()) | many,
    to=st.none() | many,
    local=st.booleans(),
    text=st.text(alphabet=st.characters(codec="utf-8"), max_size=50),
)
DELIVER = LocalEvent(3, 17, Kind.DELIVER, 1, Mid(2, 3), Mid(1, 2, 1), size=5, digest=crc32(b"hello"))


@given(events)
def test_what_is_encoded_comes_back(event: LocalEvent) -> None:
    assert decode_event(encode_event(event), event.at) == event
    assert decode_event(memoryview(encode_event(event)), event.at) == event


def test_the_fixed_part_has_fixed_offsets() -> None:
    values = dict(zip((name for name, _, _ in RECORD_FIELDS), RECORD.unpack(encode_event(DELIVER)), strict=True))
    assert values == {
        "magic": 0xCB5E, "version": 1, "kind": 7, "node": 3, "group": 1, "seqno": 3, "parent_seqno": 2, "number": 0,
        "origin": 2, "incarnation": 0, "parent_origin": 1, "parent_incarnation": 1, "peer": 0, "size": 5,
        "digest": crc32(b"hello"), "detail_bytes": 0,
    }  # fmt: skip


def test_only_what_says_something_is_in_the_detail() -> None:
    assert len(encode_event(DELIVER)) == RECORD_BYTES
    held = encode_event(msgspec.structs.replace(DELIVER, kind=Kind.HOLD, waiting_for=(Mid(1, 2, 1),)))
    assert msgspec.msgpack.decode(held[RECORD_BYTES:]) == {"waiting_for": [[1, 2, 1]]}


def test_to_nobody_differs_from_to_everybody() -> None:
    event = LocalEvent(1, 0, Kind.SUBMIT, mid=Mid(1, 1), to=())
    assert decode_event(encode_event(event), 0).to == ()


def test_origin_zero_means_no_identity() -> None:
    event = LocalEvent(1, 0, Kind.REFUSE, mid=Mid(0, 0), text="not a member")
    assert decode_event(encode_event(event), 0).mid is None


@pytest.mark.parametrize("text", ["x" * (TEXT_BYTES_MAX + 1), "é" * TEXT_BYTES_MAX, "€" * TEXT_BYTES_MAX])
def test_a_text_that_is_too_long_is_cut_between_characters(text: str) -> None:
    kept = decode_event(encode_event(LocalEvent(1, 0, Kind.NOTE, text=text)), 0).text
    assert text.startswith(kept)
    assert TEXT_BYTES_MAX - 3 < len(kept.encode()) <= TEXT_BYTES_MAX


def test_a_text_that_is_no_unicode_is_recorded_all_the_same() -> None:
    assert decode_event(encode_event(LocalEvent(1, 0, Kind.NOTE, text="a\udc80b")), 0).text == "a?b"


@pytest.mark.parametrize("fields", [{"node": 2**32}, {"digest": -1}, {"mid": Mid(1, 2**64)}, {"group": -1}])
def test_a_number_that_does_not_fit_is_our_bug(fields: dict[str, object]) -> None:
    with pytest.raises(ContractError, match="DELIVER"):
        encode_event(msgspec.structs.replace(DELIVER, **fields))


def test_a_detail_that_no_reader_would_take_is_our_bug() -> None:
    with pytest.raises(ContractError, match="VIEW of node 1"):
        encode_event(LocalEvent(1, 0, Kind.VIEW, members=tuple(range(EVENT_BYTES_MAX // 3))))


def record(detail: bytes = b"", **fields: int) -> bytes:
    values = {name: 0 for name, _, _ in RECORD_FIELDS}
    values |= {"magic": 0xCB5E, "version": 1, "kind": 14, "node": 1, "detail_bytes": len(detail)} | fields
    return RECORD.pack(*values.values()) + detail


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        record()[:-1],
        record() + b"\0",
        record(magic=0xCB5D),
        record(version=2),
        record(kind=0),
        record(kind=len(Kind) + 1),
        record(detail_bytes=1),
        record(b"\xc0"),
        record(b"\x81"),
        record(msgspec.msgpack.encode({"unknown": 1})),
        record(msgspec.msgpack.encode({"members": [2**32]})),
        record(msgspec.msgpack.encode({"members": [-1]})),
        record(msgspec.msgpack.encode({"text": "x" * (TEXT_BYTES_MAX + 1)})),
        record(b"\x81\xa4text\xa2\xff\xfe"),
        record(b"\x91" * 100_000),
        record(bytes(EVENT_BYTES_MAX)),
    ],
)
def test_a_damaged_record_is_refused(damaged: bytes) -> None:
    assert decode_event(record(), 5) == LocalEvent(1, 5, Kind.NOTE)
    with pytest.raises(PeerError):
        decode_event(damaged, 5)


def accepted_or_refused(data: bytes) -> None:
    try:
        event = decode_event(data, 5)
    except PeerError:
        return
    assert decode_event(encode_event(event), 5) == event


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_or_decoded_and_nothing_else(data: bytes) -> None:
    accepted_or_refused(data)


@given(st.binary(max_size=60), st.integers(0, 16))
def test_any_detail_is_refused_or_decoded_and_nothing_else(detail: bytes, kind: int) -> None:
    accepted_or_refused(record(detail, kind=kind))


@given(events, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4), st.integers(-3, 3))
def test_a_mutated_record_is_refused_or_decoded_and_nothing_else(
    event: LocalEvent, changes: list[tuple[int, int]], longer: int
) -> None:
    data = bytearray(encode_event(event))
    for at, value in changes:
        data[at % len(data)] = value
    accepted_or_refused(bytes(data) + b"\0" * longer if longer >= 0 else bytes(data[:longer]))
