"""Captures and frames of Castbed in scapy: layers whose fields come from the definition of the format.

    from castbed_adapters.scapy_layer import CastbedEvent, CastbedFrame
    for packet in rdpcap("captures/A.pcapng"): packet.show()

Importing this module binds the layers: frames to their ethertype, local events to the link type of captures. The body
of a frame is its field `body`; the application's data is the scapy payload behind it, as is what an Ethernet adapter
appended to a short frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scapy.config import conf
from scapy.fields import ByteField, FieldLenField, IntField, LongField, ShortField, StrLenField
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw, bind_layers

from castbed import records, wire
from castbed.pcapng import LINKTYPE_USER0

_FIELD_TYPES: dict[str, Any] = {"B": ByteField, "H": ShortField, "I": IntField, "Q": LongField}
_PAYLOAD_SIZE_AT = wire.HEADER_BYTES - 4  # the last field of the header


def _fields(
    definition: Iterable[tuple[str, str, str]], constants: dict[str, int | None], body: str, size: str
) -> list[Any]:
    """One scapy field per field of the format, then the variable part, whose size is computed unless given."""
    fields: list[Any] = [
        FieldLenField(name, None, length_of=body, fmt="!" + code)
        if name == size
        else _FIELD_TYPES[code](name, constants.get(name, 0))
        for name, code, _ in definition
    ]
    fields.append(StrLenField(body, b"", length_from=lambda packet: packet.getfieldval(size)))
    return fields


def _recognised(layer: type[Packet], data: bytes | None, magic: int, size: int) -> type[Packet]:
    """The layer for `data`: Raw for what is not of Castbed, such as others' use of the experimental ethertype."""
    ours = not data or (len(data) >= size and data.startswith(magic.to_bytes(2, "big")))
    return layer if ours else Raw


class CastbedFrame(Packet):
    """A frame: header and body; sizes that are None are filled in when it is built."""

    name = "Castbed frame"
    fields_desc = _fields(
        wire.HEADER_FIELDS,
        {"magic": wire.MAGIC, "version": wire.VERSION, "payload_bytes": None},
        "body",
        "control_bytes",
    )

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_args: Any, **_fields: Any) -> type[Packet]:
        return _recognised(cls, _pkt, wire.MAGIC, wire.HEADER_BYTES)

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.payload_bytes is None:
            size = len(pay).to_bytes(4, "big")
            pkt = pkt[:_PAYLOAD_SIZE_AT] + size + pkt[wire.HEADER_BYTES :]
        return pkt + pay

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        return s[: self.payload_bytes], s[self.payload_bytes :]


class CastbedEvent(Packet):
    """The record of a local event; `detail` is msgpack."""

    name = "Castbed event"
    fields_desc = _fields(
        records.RECORD_FIELDS, {"magic": records.MAGIC, "version": records.VERSION}, "detail", "detail_bytes"
    )

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_args: Any, **_fields: Any) -> type[Packet]:
        return _recognised(cls, _pkt, records.MAGIC, records.RECORD_BYTES)


bind_layers(Ether, CastbedFrame, type=wire.ETHERTYPE)
conf.l2types.register(LINKTYPE_USER0, CastbedEvent)
