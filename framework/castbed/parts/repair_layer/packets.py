"""What repair layers say to each other, and how a packet of the protocol above travels inside one of theirs.

The carried packet keeps its place in the header: its group, its message identity and its payload are those of the frame
that carries it, so that captures show them as without the layer. Its body travels in the carrier's body, behind the
four bytes (family and kind) that say which packet type it is.
"""

from __future__ import annotations

from struct import Struct

from castbed.errors import PeerError
from castbed.packets import Packet
from castbed.topology import Topology
from castbed.values import Group, Mid, NodeNumber
from castbed.wire import (
    FRAME_BYTES_MAX,
    HAS_MID,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    Codec,
    FrameTooLargeError,
)

LIFE_LIMIT = 1 << 32  # width of the header field that knows lives
NUMBER_LIMIT = 1 << 62  # more than any node sends
AGE_LIMIT = 1 << 62
RANGES_MAX = 128  # in one ask: with the longest numbers about two frames of 1400 bytes, usually a tenth of one
RANGES_PER_SOURCE_MAX = 16  # so that no writer keeps the gaps of the others out of an ask
HEARTBEAT_SOURCES_MAX = 128  # 1400 bytes; with more writers, heartbeats take turns
CARRIER_BYTES_MAX = 96  # that carrying adds, with the longest numbers, and a seal
ADDRESSEE_BYTES = 5  # the longest way to write a node number
MICROSECOND = 1_000
_TYPE = Struct(">HH")  # family and kind

Source = tuple[NodeNumber, int]
"""One life of one writer."""
Place = tuple[NodeNumber, int, int]
"""Writer, life and number: the identity of a carried packet."""
Ranges = tuple[tuple[int, int], ...]


class Carried(Packet, frozen=True, tag=1):
    """A packet of the protocol above that has no message identity; `to` is empty when it is for everybody."""

    group: Group
    payload: bytes
    writer: NodeNumber
    life: int
    number: int
    age_us: int
    to: tuple[NodeNumber, ...]
    inner: bytes


class CarriedMessage(Packet, frozen=True, tag=2):
    """A packet of the protocol above that carries a message; `age_us` is 0 when it is sent for the first time."""

    group: Group
    mid: Mid
    payload: bytes
    writer: NodeNumber
    life: int
    number: int
    age_us: int
    to: tuple[NodeNumber, ...]
    inner: bytes


class Missing(Packet, frozen=True, tag=3):
    """The sender lacks these and has been listening for `listening_us`; older ones are none of its business."""

    listening_us: int
    wanted: tuple[tuple[NodeNumber, int, Ranges], ...]


class Heartbeat(Packet, frozen=True, tag=4):
    """The highest number of each writer that the sender has heard of."""

    heard: tuple[Place, ...]


class Bygone(Packet, frozen=True, tag=5):
    """All numbers up to `upto` are at least `age_us` old; the writer itself no longer has those up to `gone`."""

    writer: NodeNumber
    life: int
    upto: int
    age_us: int
    gone: int


AnyCarried = Carried | CarriedMessage


def carry(packet: Packet, codec: Codec, place: Place, to: tuple[NodeNumber, ...]) -> AnyCarried:
    """The packet as the layer sends it for the first time; FrameTooLargeError when no frame holds it."""
    frame = codec.encode(packet, place[0])
    if len(frame) + CARRIER_BYTES_MAX + ADDRESSEE_BYTES * len(to) > FRAME_BYTES_MAX:
        raise FrameTooLargeError(f"{type(packet).__name__} of {len(frame)} bytes leaves no room for a number")
    _, _, flags, family, kind, group, seqno, _, origin, incarnation, control, _ = HEADER.unpack_from(frame)
    body_end = HEADER_BYTES + control
    inner = _TYPE.pack(family, kind) + frame[HEADER_BYTES:body_end]
    if flags & HAS_MID:
        return CarriedMessage(group, Mid(origin, seqno, incarnation), frame[body_end:], *place, 0, to, inner)
    return Carried(group, frame[body_end:], *place, 0, to, inner)


def carried_packet(carrier: AnyCarried, codec: Codec) -> Packet:
    """The packet inside; PeerError when there is none that the protocol knows."""
    if len(carrier.inner) < _TYPE.size:
        raise PeerError("a carried packet without a type")
    mid = carrier.mid if isinstance(carrier, CarriedMessage) else None
    flags, identity = (0, Mid(0, 0)) if mid is None else (HAS_MID, mid)
    family, kind = _TYPE.unpack_from(carrier.inner)
    body = carrier.inner[_TYPE.size :]
    header = HEADER.pack(
        MAGIC, VERSION, flags, family, kind, carrier.group, identity.seqno, carrier.writer, identity.sender,
        identity.incarnation, len(body), len(carrier.payload),
    )  # fmt: skip
    return codec.decode(header + body + carrier.payload)[0]


def check_place(place: Place, topology: Topology) -> None:
    """PeerError unless a node of this network can have sent it."""
    writer, life, number = place
    if not (topology.knows(writer) and 0 <= life < LIFE_LIMIT and 0 < number < NUMBER_LIMIT):
        raise PeerError(f"nobody sent the packet {number} of node {writer} in its life {life}")


def check_age(age: int) -> None:
    if not 0 <= age < AGE_LIMIT:
        raise PeerError(f"nothing is {age} old")


def check_heartbeat(packet: Heartbeat, topology: Topology) -> None:
    if len(packet.heard) > HEARTBEAT_SOURCES_MAX:
        raise PeerError(f"a heartbeat about more than {HEARTBEAT_SOURCES_MAX} lives")
    for place in packet.heard:
        check_place(place, topology)


def check_missing(packet: Missing, topology: Topology) -> None:
    """PeerError unless the ask is short and each of its ranges makes sense."""
    check_age(packet.listening_us)
    if sum(len(ranges) for _, _, ranges in packet.wanted) > RANGES_MAX:
        raise PeerError(f"an ask for more than {RANGES_MAX} ranges")
    for writer, life, ranges in packet.wanted:
        for low, high in ranges:
            check_place((writer, life, low), topology)
            check_place((writer, life, high), topology)
            if low > high:
                raise PeerError(f"an ask for the range {low}..{high}")
