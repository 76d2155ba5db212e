"""The frame: a fixed header, then the body (control information), then the payload.

The header has fixed offsets, so that a vectorised reader takes columns straight from the bytes and the size of the
control information is known without decoding anything. HEADER_FIELDS is the definition that dissectors are made from.
Decoding is total: whatever the bytes, the result is a packet or a PeerError, and sizes are checked before parsing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter, itemgetter
from struct import Struct
from struct import error as struct_error
from typing import Any, get_type_hints
from zlib import crc32

import msgspec

from castbed.errors import ContractError, PeerError
from castbed.packets import Packet, kind_of
from castbed.values import NOBODY, NUMBER_MAX, Mid, NodeNumber

MAGIC = 0xCB5D
VERSION = 1
HEADER_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("magic", "H", "always 0xcb5d"),
    ("version", "B", "of the frame format"),
    ("flags", "B", "bit 0: a message identity is present; bit 1: a seal follows the payload"),
    ("family", "H", "which protocol the kind belongs to: a checksum of its name"),
    ("kind", "H", "packet type within the family"),
    ("group", "Q", "group, 0 if the packet is about none"),
    ("seqno", "Q", "message identity: number"),
    ("sender", "I", "node that transmitted this frame"),
    ("origin", "I", "message identity: node that wrote the message"),
    ("incarnation", "I", "message identity: life of the writer"),
    ("control_bytes", "I", "size of the body"),
    ("payload_bytes", "I", "size of the application's data behind the body"),
)
HEADER = Struct(">" + "".join(code for _, code, _ in HEADER_FIELDS))
HEADER_BYTES = HEADER.size
HAS_MID = 1
SEALED = 2
FLAGS_AT = 3
_CONSTANT_FIELDS = 5  # those up to the kind are the same in all frames of a packet type
_UP_TO_KIND = Struct(">" + "".join(code for _, code, _ in HEADER_FIELDS[:_CONSTANT_FIELDS]))
_AFTER_KIND = Struct(">" + "".join(code for _, code, _ in HEADER_FIELDS[_CONSTANT_FIELDS:]))

ETHERNET = Struct(">6s6sH")
ETHERTYPE = 0x88B5  # IEEE 802 local experimental ethertype 1
ETHERNET_BYTES = ETHERNET.size
FRAME_BYTES_MAX = 262_144 - ETHERNET_BYTES  # the largest packet that Wireshark reads
BROADCAST_ADDRESS = b"\xff" * 6


class FrameTooLargeError(ContractError):
    """A packet does not fit into a frame; the host drops it and counts it, as a network would."""


def family_number(name: str) -> int:
    """The number of a protocol or membership on the wire, computed from its name, so that nobody has to hand it out."""
    return crc32(name.encode()) & 0xFFFF or 1


@lru_cache(maxsize=4096)
def address(number: NodeNumber) -> bytes:
    """The locally administered Ethernet address of a node; NOBODY is everybody."""
    return BROADCAST_ADDRESS if number == NOBODY else b"\x02\xcb" + number.to_bytes(4, "big")


def ethernet_frame(frame: bytes, sender: NodeNumber, to: NodeNumber = NOBODY) -> bytes:
    """The frame as it is captured: with an Ethernet header in front."""
    return ETHERNET.pack(address(to), address(sender), ETHERTYPE) + frame


class _Layout:
    """How one packet type maps to header, body and payload."""

    def __init__(self, packet_type: type[Packet], family: int) -> None:
        names = packet_type.__struct_fields__
        body = [name for name in names if name not in ("group", "mid", "payload")]
        hints = get_type_hints(packet_type, include_extras=True)
        self.packet_type = packet_type
        self.family = family
        self.kind = kind_of(packet_type)
        self.start = _UP_TO_KIND.pack(MAGIC, VERSION, 0, family, self.kind)
        self.start_with_mid = _UP_TO_KIND.pack(MAGIC, VERSION, HAS_MID, family, self.kind)
        self.has_group, self.has_mid, self.has_payload = (n in names for n in ("group", "mid", "payload"))
        self.body: Callable[[Any], Any] | None = _getter(body)
        self.decoder = msgspec.msgpack.Decoder(tuple[tuple(hints[n] for n in body)])  # type: ignore[misc]
        source = {"group": 0, "mid": 1, "payload": 2} | {name: at + 3 for at, name in enumerate(body)}
        self.arrange = _picker([source[name] for name in names])


def _getter(names: list[str]) -> Callable[[Any], Any] | None:
    if not names:
        return None
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda packet: (one(packet),)
    return attrgetter(*names)


def _picker(order: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    if len(order) > 1:
        return itemgetter(*order)
    return lambda values: tuple(values[at] for at in order)


class Codec:
    """Encodes and decodes the packets of one run: those of its protocol and of its membership."""

    def __init__(self, families: Mapping[str, Iterable[type[Packet]]]) -> None:
        self._by_type: dict[type[Packet], _Layout] = {}
        self._by_number: dict[tuple[int, int], _Layout] = {}
        numbers: dict[int, str] = {}
        self._encoder = msgspec.msgpack.Encoder()
        for name, packet_types in families.items():
            family = family_number(name)
            if numbers.setdefault(family, name) != name:
                raise ContractError(f"{name!r} and {numbers[family]!r} have the same family number; rename one")
            for packet_type in packet_types:
                self._add(_Layout(packet_type, family))

    def _add(self, layout: _Layout) -> None:
        self._by_type.setdefault(layout.packet_type, layout)
        self._by_number[layout.family, layout.kind] = layout

    def encode(self, packet: Packet, sender: NodeNumber) -> bytes:
        """The frame that carries `packet`, transmitted by `sender`."""
        try:
            layout = self._by_type[packet.__class__]
        except KeyError:
            raise ContractError(f"{type(packet).__name__} is not among the protocol's declared packets") from None
        payload: bytes = packet.payload if layout.has_payload else b""  # type: ignore[attr-defined]
        mid: Mid | None = packet.mid if layout.has_mid else None  # type: ignore[attr-defined]
        origin, seqno, incarnation = (0, 0, 0) if mid is None else (mid.sender, mid.seqno, mid.incarnation)
        group = packet.group if layout.has_group else 0  # type: ignore[attr-defined]
        start = layout.start if mid is None else layout.start_with_mid
        try:
            body = b"" if layout.body is None else self._encoder.encode(layout.body(packet))
            rest = _AFTER_KIND.pack(group, seqno, sender, origin, incarnation, len(body), len(payload))
        except (struct_error, OverflowError) as error:
            raise ContractError(f"{type(packet).__name__} holds a number that fits no frame: {error}") from None
        frame = start + rest + body + payload
        if len(frame) > FRAME_BYTES_MAX:
            raise FrameTooLargeError(
                f"{type(packet).__name__} needs {len(frame)} bytes, a frame holds {FRAME_BYTES_MAX}"
            )
        return frame

    def decode(self, frame: bytes | memoryview) -> tuple[Packet, NodeNumber]:
        """The packet and who transmitted it; PeerError for anything that is not exactly one of our frames."""
        size = len(frame)
        if not HEADER_BYTES <= size <= FRAME_BYTES_MAX:
            raise PeerError(f"a frame of {size} bytes")
        fields = HEADER.unpack_from(frame)
        magic, version, flags, family, kind, group, seqno, sender, origin, incarnation, control, payload = fields
        if magic != MAGIC or version != VERSION:
            raise PeerError("not a frame of this version of Castbed")
        layout = self._by_number.get((family, kind))
        if layout is None:
            raise PeerError(f"unknown packet kind {kind} of family {family:#06x}")
        body_end = HEADER_BYTES + control
        if body_end + payload != size or sender == NOBODY:
            raise PeerError("the frame's sizes or its sender make no sense")
        mid = Mid(origin, seqno, incarnation) if flags & HAS_MID else None
        if (mid is None) is layout.has_mid or seqno > NUMBER_MAX or (layout.has_mid and not origin):
            raise PeerError(f"{layout.packet_type.__name__} with or without identity, against its definition")
        body = _decoded(layout, frame[HEADER_BYTES:body_end])
        values = (group, mid, bytes(frame[body_end:]), *body)
        return layout.packet_type(*layout.arrange(values)), sender


def _decoded(layout: _Layout, body: bytes | memoryview) -> tuple[Any, ...]:
    if layout.body is None:
        if body:
            raise PeerError(f"{layout.packet_type.__name__} has no body")
        return ()
    try:
        decoded: tuple[Any, ...] = layout.decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(f"{layout.packet_type.__name__}: {error}") from None
    return decoded
