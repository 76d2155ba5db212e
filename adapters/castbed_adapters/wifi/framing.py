"""What is around a letter or a piece on the interface: an Ethernet header, or radiotap, 802.11 and SNAP."""

from __future__ import annotations

from struct import Struct
from typing import Protocol

from castbed.errors import PeerError
from castbed.values import NOBODY, NodeNumber
from castbed.wire import BROADCAST_ADDRESS, ETHERNET, ETHERNET_BYTES, ETHERTYPE, address
from castbed_adapters.wifi.envelope import PIECE_ETHERTYPE

INJECTED_RATE = 2  # of radiotap, in units of 500 kbit/s: the lowest rate, which every radio in the cell hears
DOT11_BODY_BYTES_MAX = 2_304  # of the standard, SNAP header included
_RADIOTAP = Struct("<BxHI")  # version, bytes, which fields are present
_WORD = Struct("<I")
_HAS_TIME, _HAS_FLAGS, _HAS_TX_FLAGS, _HAS_MORE_WORDS = 1 << 0, 1 << 1, 1 << 15, 1 << 31
_TIME_BYTES = 8
_DATAPAD, _PADDED_TO = 0x20, 4
_CONTROL = Struct("<BB")
_DATA, _QOS_DATA = 0x08, 0x88
_TO_DS, _FROM_DS, _PROTECTED, _MORE_FRAGMENTS = 0x01, 0x02, 0x40, 0x04
_DOT11_BYTES, _QOS_BYTES = 24, 2
_BSSID_AT = 16
_SNAP = bytes.fromhex("aaaa03000000")
_TYPE = Struct(">H")
_OURS = (ETHERTYPE, PIECE_ETHERTYPE)


class Framing(Protocol):
    """How bytes of an ethertype go onto an interface and come off it."""

    overhead: int

    def wrapped(self, ethertype: int, data: bytes, to: NodeNumber = NOBODY) -> bytes:
        """For everybody, or for the interface of one node."""

    def unwrapped(self, data: bytes, sent_here: bool) -> tuple[int, bytes]:
        """The ethertype and what it holds; PeerError for what is not ours. `sent_here`: by this machine, just now."""


class EthernetFraming:
    """Frames from the interface's own address: drivers send no others."""

    overhead = ETHERNET_BYTES

    def __init__(self, own: bytes) -> None:
        self._own = own
        self._heads = {kind: ETHERNET.pack(BROADCAST_ADDRESS, own, kind) for kind in _OURS}

    def wrapped(self, ethertype: int, data: bytes, to: NodeNumber = NOBODY) -> bytes:
        head = self._heads[ethertype] if to == NOBODY else ETHERNET.pack(address(to), self._own, ethertype)
        return head + data

    def unwrapped(self, data: bytes, sent_here: bool) -> tuple[int, bytes]:  # noqa: ARG002 (as in Framing)
        if len(data) < ETHERNET_BYTES:
            raise PeerError(f"an Ethernet frame of {len(data)} bytes")
        (ethertype,) = _TYPE.unpack_from(data, ETHERNET_BYTES - _TYPE.size)
        return ethertype, data[ETHERNET_BYTES:]


class MonitorFraming:
    """Data frames of an ad hoc cell, all of them to everybody.

    Their heads are made once by scapy, and read by offsets because there are many.
    """

    def __init__(self, own: bytes, bssid: bytes) -> None:
        self._bssid = bssid
        self._heads = {kind: dot11_head(own, bssid, kind) for kind in _OURS}
        self.overhead = len(self._heads[ETHERTYPE])

    def wrapped(self, ethertype: int, data: bytes, to: NodeNumber = NOBODY) -> bytes:  # noqa: ARG002 (as in Framing)
        return self._heads[ethertype] + data

    def unwrapped(self, data: bytes, sent_here: bool) -> tuple[int, bytes]:
        start, present = _radiotap(data)
        if present & _HAS_TX_FLAGS and not sent_here:
            raise PeerError("a driver's report of what it sent, which was heard when it was handed over")
        if len(data) < start + _DOT11_BYTES:
            raise PeerError("an 802.11 frame that ends too early")
        kind, flags = _CONTROL.unpack_from(data, start)
        if kind not in (_DATA, _QOS_DATA) or flags & (_TO_DS | _FROM_DS | _PROTECTED | _MORE_FRAGMENTS):
            raise PeerError("not a plain data frame of an ad hoc cell")
        if data[start + _BSSID_AT : start + _BSSID_AT + 6] != self._bssid:
            raise PeerError("a frame of another cell")
        head = _DOT11_BYTES + (_QOS_BYTES if kind == _QOS_DATA else 0)
        padded = present & _HAS_FLAGS and _is_padded(data, present)
        body = start + (-(-head // _PADDED_TO) * _PADDED_TO if padded else head)
        at = body + len(_SNAP)
        if data[body:at] != _SNAP or len(data) < at + _TYPE.size:
            raise PeerError("no SNAP header")
        return _TYPE.unpack_from(data, at)[0], data[at + _TYPE.size :]


def _radiotap(data: bytes) -> tuple[int, int]:
    """Where the 802.11 header begins, and which fields are present before it."""
    if len(data) < _RADIOTAP.size:
        raise PeerError("no radiotap header")
    version, size, present = _RADIOTAP.unpack_from(data)
    if version:
        raise PeerError(f"radiotap version {version}")
    return size, present


def _is_padded(data: bytes, present: int) -> bool:
    """Whether the driver padded the 802.11 header.

    Radiotap's flags come first, or second behind a time (TSFT), which begins at a multiple of eight.
    """
    at, more = _RADIOTAP.size, present
    while more & _HAS_MORE_WORDS and at + _WORD.size <= len(data):
        (more,) = _WORD.unpack_from(data, at)
        at += _WORD.size
    if present & _HAS_TIME:
        at = -(-at // _TIME_BYTES) * _TIME_BYTES + _TIME_BYTES
    return at < len(data) and bool(data[at] & _DATAPAD)


def dot11_head(own: bytes, bssid: bytes, ethertype: int) -> bytes:
    """Everything in front of the data: radiotap (rate, no acknowledgement), 802.11 data to everybody, LLC and SNAP."""
    from scapy.layers.dot11 import Dot11, RadioTap
    from scapy.layers.l2 import LLC, SNAP

    radio = RadioTap(present="Rate+TXFlags", Rate=INJECTED_RATE / 2, TXFlags="NOACK")
    everybody, me, cell = BROADCAST_ADDRESS.hex(":"), own.hex(":"), bssid.hex(":")
    data = Dot11(type="Data", subtype=0, FCfield=0, addr1=everybody, addr2=me, addr3=cell)
    return bytes(radio / data / LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP(OUI=0, code=ethertype))
