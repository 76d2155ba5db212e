"""The scapy layers agree with the codec and with captures, and lose no byte."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("scapy", reason="scapy is not installed")

from scapy.layers.l2 import Ether
from scapy.packet import Packet as ScapyPacket
from scapy.packet import Padding, Raw
from scapy.utils import rdpcap

from castbed.capture import AIR, WIRE, CaptureWriter
from castbed.history import Kind, LocalEvent, RunIdentity
from castbed.packets import Packet
from castbed.records import RECORD, RECORD_BYTES, RECORD_FIELDS, decode_event, encode_event
from castbed.values import Mid
from castbed.wire import HAS_MID, HEADER, HEADER_FIELDS, Codec, ethernet_frame, family_number
from castbed_adapters.scapy_layer import CastbedEvent, CastbedFrame


class Data(Packet, frozen=True, tag=1):
    group: int
    mid: Mid
    payload: bytes
    parent: Mid | None


class Hello(Packet, frozen=True, tag=2):
    pass


CODEC = Codec({"sb": (Data, Hello)})
mids = st.builds(Mid, st.integers(1, 2**32 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
packets = st.builds(Data, st.integers(0, 2**64 - 1), mids, st.binary(max_size=30), st.none() | mids) | st.builds(Hello)
EVENT = LocalEvent(3, 5, Kind.HOLD, 1, Mid(2, 3), None, size=5, digest=crc32(b"hello"), waiting_for=(Mid(1, 1),))


def rebuilt(packet: ScapyPacket) -> bytes:
    """Built from its fields, not from the bytes that scapy remembers."""
    for layer in packet.iterpayloads():
        layer.raw_packet_cache = None
    return bytes(packet)


@given(packets, st.integers(1, 9))
def test_a_frame_has_the_fields_of_its_header(packet: Packet, sender: int) -> None:
    frame = CODEC.encode(packet, sender)
    layer = CastbedFrame(frame)
    for (name, _, _), value in zip(HEADER_FIELDS, HEADER.unpack_from(frame), strict=True):
        assert layer.getfieldval(name) == value
    assert bytes(layer.payload) == getattr(packet, "payload", b"")
    assert len(layer.body) == layer.control_bytes


@given(packets, st.integers(1, 9), st.binary(max_size=20))
def test_a_frame_is_built_as_it_was_dissected_with_whatever_follows_it(
    packet: Packet, sender: int, more: bytes
) -> None:
    ethernet = ethernet_frame(CODEC.encode(packet, sender), sender) + more
    layers = Ether(ethernet)
    assert CastbedFrame in layers
    assert rebuilt(layers) == ethernet
    assert (layers[Padding].load if Padding in layers else b"") == more


@given(st.sampled_from((CastbedFrame, CastbedEvent)), st.booleans(), st.binary(min_size=1, max_size=120))
def test_any_bytes_are_built_as_they_were_dissected(layer: type[ScapyPacket], ours: bool, data: bytes) -> None:
    data = bytes(layer())[:4] + data if ours else data
    assert rebuilt(layer(data)) == data


def test_what_others_send_on_the_ethertype_stays_raw() -> None:
    layers = Ether(ethernet_frame(b"something else on the experimental ethertype, long enough", 1))
    assert CastbedFrame not in layers
    assert Raw in layers


def test_a_frame_made_with_scapy_is_decoded_by_the_codec() -> None:
    header = {"flags": HAS_MID, "family": family_number("sb"), "kind": 1, "group": 4, "origin": 2, "seqno": 3}
    made = CastbedFrame(**header, sender=2, body=b"\x91\xc0") / Raw(b"hello")
    assert CODEC.decode(bytes(made)) == (Data(4, Mid(2, 3), b"hello", None), 2)


def test_an_event_has_the_fields_of_its_record() -> None:
    record = encode_event(EVENT)
    layer = CastbedEvent(record)
    for (name, _, _), value in zip(RECORD_FIELDS, RECORD.unpack_from(record), strict=True):
        assert layer.getfieldval(name) == value
    assert layer.detail == record[RECORD_BYTES:]
    assert rebuilt(layer) == record


def test_an_event_made_with_scapy_is_decoded() -> None:
    made = CastbedEvent(kind=Kind.ATTACH, node=3, peer=1)
    assert decode_event(bytes(made), 5) == LocalEvent(3, 5, Kind.ATTACH, peer=1)


def test_scapy_reads_a_capture(tmp_path: Path) -> None:
    frames = [ethernet_frame(CODEC.encode(Data(1, Mid(2, 3), b"hello", None), 2), 2)]
    frames.append(ethernet_frame(CODEC.encode(Hello(), 1), 1, 2))
    writer = CaptureWriter(tmp_path / "C.pcapng", RunIdentity(), 3)
    writer.frame(AIR, 1_000_000_001, frames[0], outgoing=True)
    writer.frame(WIRE, 2, frames[1], outgoing=False)
    writer.event(EVENT)
    writer.close()
    packets = rdpcap(str(writer.path))
    assert [type(packet) for packet in packets] == [Ether, Ether, CastbedEvent]
    assert [bytes(packet) for packet in packets] == [*frames, encode_event(EVENT)]
    assert packets[0][CastbedFrame].seqno == 3
    assert packets[0].time == pytest.approx(1.000000001, abs=1e-12)
