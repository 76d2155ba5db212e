"""Packet sockets: opened, bound to an interface, and what this machine lacks said in words."""

from __future__ import annotations

import ctypes
import socket
from collections import Counter
from struct import Struct

import msgspec

from castbed.errors import ConfigurationError, UnavailableError
from castbed_adapters.interfaces import flags_of, mtu_of
from castbed_adapters.receiving import ask_for_notes, make_room

ETH_P_ALL = 0x0003
ARPHRD_ETHER, ARPHRD_RADIOTAP = 1, 803
_IFF_UP, _IFF_RUNNING = 0x01, 0x40
_SO_ATTACH_FILTER = 26
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_STATISTICS = Struct("@II")  # frames, and of these the dropped ones
_INSTRUCTION = Struct("HBBI")
_PROGRAM = Struct("HxxxxxxP")
_TYPE_AT = 12  # in an Ethernet header


class PacketSocket(msgspec.Struct, frozen=True):
    """An open packet socket and what is known of its interface."""

    socket: socket.socket
    address: bytes
    hardware: int
    mtu: int


def interface_index(name: str) -> int:
    known = {interface: index for index, interface in socket.if_nameindex()}
    if name not in known:
        problem = f"there is no interface {name!r} (there are: {', '.join(sorted(known))})"
        raise ConfigurationError("transport.options.interface", problem)
    return known[name]


def open_packet_socket(
    name: str, ethertypes: tuple[int, int], receive_buffer: int, stamps: bool, counters: Counter[str] | None = None
) -> PacketSocket:
    """A socket that sends and hears on the interface, without blocking; on Ethernet it hears these ethertypes only.

    It is bound to all protocols, because only such sockets hear what other sockets of this machine send.
    """
    interface_index(name)
    try:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    except PermissionError:
        raise UnavailableError("raw frames need root (CAP_NET_RAW): run as root, or in a user namespace") from None
    try:
        make_room(opened, receive_buffer, Counter() if counters is None else counters)
        opened.bind((name, 0))
        _, _, _, hardware, address = opened.getsockname()
        if hardware == ARPHRD_ETHER:
            _attach_filter(opened, ethertypes)
        ask_for_notes(opened, stamps)
        opened.bind((name, ETH_P_ALL))
        return PacketSocket(opened, bytes(address), hardware, mtu_of(name, opened))
    except OSError as error:
        opened.close()
        raise UnavailableError(f"the interface {name!r} takes no raw frames ({error.strerror})") from None


def carries(opened: socket.socket, name: str) -> bool:
    """Whether the interface is up and has a carrier: before that the kernel drops what is sent without a word."""
    try:
        flags = flags_of(name, opened) & (_IFF_UP | _IFF_RUNNING)
    except OSError as error:
        raise UnavailableError(f"the interface {name!r} is gone ({error.strerror})") from None
    return flags == _IFF_UP | _IFF_RUNNING


def dropped_frames(opened: socket.socket) -> int:
    """How many frames the kernel had no room for since the socket was opened; asking sets it back to 0."""
    _, dropped = _STATISTICS.unpack(opened.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size))
    return int(dropped)


def _attach_filter(opened: socket.socket, ethertypes: tuple[int, int]) -> None:
    """Have the kernel drop what is not ours before it wakes this process (a classic BPF program)."""
    one, other = ethertypes
    program = [
        (0x28, 0, 0, _TYPE_AT),  # load the ethertype
        (0x15, 1, 0, one),  # one of ours: skip to the end
        (0x15, 0, 1, other),
        (0x06, 0, 0, 0xFFFFFFFF),  # take the whole frame
        (0x06, 0, 0, 0),  # take nothing
    ]
    code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*step) for step in program))
    attached = _PROGRAM.pack(len(program), ctypes.addressof(code))
    opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)
