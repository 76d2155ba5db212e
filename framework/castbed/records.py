"""A local event as bytes: a fixed part, then a detail that most events do not have.

The fixed part has fixed offsets, so that a vectorised reader takes columns straight from the bytes; RECORD_FIELDS is
the definition that dissectors are made from. The time of an event is that of the capture's packet. Decoding is total:
whatever the bytes, the result is an event or a PeerError.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Annotated

import msgspec

from castbed.errors import ContractError, PeerError
from castbed.history import Kind, LocalEvent
from castbed.values import Mid

MAGIC = 0xCB5E
VERSION = 1
RECORD_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("magic", "H", "always 0xcb5e"),
    ("version", "B", "of the record format"),
    ("kind", "B", "what happened"),
    ("node", "I", "where it happened"),
    ("group", "Q", "group, 0 if the event is about none"),
    ("seqno", "Q", "message identity: number"),
    ("parent_seqno", "Q", "identity of the message it answers: number"),
    ("number", "Q", "of the view; at a restart 1 if the storage survived; the value of a gauge"),
    ("origin", "I", "message identity: node that wrote the message, 0 if the event is about none"),
    ("incarnation", "I", "message identity: life of the writer"),
    ("parent_origin", "I", "identity of the message it answers: its writer, 0 if it answers none"),
    ("parent_incarnation", "I", "identity of the message it answers: life of its writer"),
    ("peer", "I", "station of an attachment"),
    ("size", "I", "bytes of the message's payload"),
    ("digest", "I", "CRC-32 of the message's payload"),
    ("detail_bytes", "I", "size of the detail behind the fixed part"),
)
RECORD_CODES = "".join(code for _, code, _ in RECORD_FIELDS)
RECORD = Struct(">" + RECORD_CODES)
RECORD_BYTES = RECORD.size
EVENT_BYTES_MAX = 262_144  # the largest packet that Wireshark reads
TEXT_BYTES_MAX = 4096  # a reason or a note is a sentence; what is longer is cut

_Number = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF_FFFF)]
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_BYTES_MAX)]
_KINDS = {int(kind): kind for kind in Kind}


class Detail(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The fields of an event that have no fixed size; the body is a msgpack map of those that say something."""

    waiting_for: tuple[Mid, ...] = ()
    members: tuple[_Number, ...] = ()
    stations: tuple[_Number, ...] = ()
    to: tuple[_Number, ...] | None = None
    local: bool = False
    text: _Text = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Detail).decode


def has_detail(event: LocalEvent) -> bool:
    """Whether anything in the event needs more than the fixed part."""
    return bool(
        event.waiting_for or event.text or event.members or event.stations or event.to is not None or event.local
    )


def _detail_of(event: LocalEvent) -> bytes:
    text = event.text.encode("utf-8", "replace")[:TEXT_BYTES_MAX].decode("utf-8", "ignore")
    return _encode(Detail(event.waiting_for, event.members, event.stations, event.to, event.local, text))


def record_values(event: LocalEvent, detail_bytes: int) -> tuple[int, ...]:
    """The values of RECORD_FIELDS, in order."""
    mid, parent = event.mid, event.parent
    if mid is None:
        origin = seqno = incarnation = 0
    else:
        origin, seqno, incarnation = mid.sender, mid.seqno, mid.incarnation
    if parent is None:
        parent_origin = parent_seqno = parent_incarnation = 0
    else:
        parent_origin, parent_seqno, parent_incarnation = parent.sender, parent.seqno, parent.incarnation
    return (
        MAGIC, VERSION, event.kind, event.node, event.group, seqno, parent_seqno, event.number, origin, incarnation,
        parent_origin, parent_incarnation, event.peer, event.size, event.digest, detail_bytes,
    )  # fmt: skip


def encode_event(event: LocalEvent) -> bytes:
    """The record of `event`, without its time; ContractError when a number or the whole does not fit."""
    detail = _detail_of(event) if has_detail(event) else b""
    if RECORD_BYTES + len(detail) > EVENT_BYTES_MAX:
        raise ContractError(f"{event.kind.name} of node {event.node}: a detail of {len(detail)} bytes is too long")
    try:
        return RECORD.pack(*record_values(event, len(detail))) + detail
    except struct_error as error:
        raise unencodable(event, error) from None


def unencodable(event: LocalEvent, error: Exception) -> ContractError:
    return ContractError(f"{event.kind.name} of node {event.node} does not fit into a record: {error}")


def decode_event(record: bytes | memoryview, at: int) -> LocalEvent:
    """The event that happened at time `at`; PeerError for anything that is not exactly one record."""
    if not RECORD_BYTES <= len(record) <= EVENT_BYTES_MAX:
        raise PeerError(f"a record of {len(record)} bytes")
    (
        magic, version, kind_number, node, group, seqno, parent_seqno, number, origin, incarnation,
        parent_origin, parent_incarnation, peer, size, digest, detail_bytes,
    ) = RECORD.unpack_from(record)  # fmt: skip
    kind = _KINDS.get(kind_number)
    if magic != MAGIC or version != VERSION or kind is None:
        raise PeerError("not a record of this version of Castbed")
    if RECORD_BYTES + detail_bytes != len(record):
        raise PeerError("the record's sizes make no sense")
    mid = Mid(origin, seqno, incarnation) if origin else None
    parent = Mid(parent_origin, parent_seqno, parent_incarnation) if parent_origin else None
    if not detail_bytes:
        return LocalEvent(node, at, kind, group, mid, parent, number, peer, size, digest)
    detail = _decoded(record[RECORD_BYTES:])
    return LocalEvent(
        node, at, kind, group, mid, parent, number, peer, size, digest,
        detail.waiting_for, detail.members, detail.stations, detail.to, detail.local, detail.text,
    )  # fmt: skip


def _decoded(detail: bytes | memoryview) -> Detail:
    try:
        return _decode(detail)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PeerError(f"the detail of a record: {error}") from None
