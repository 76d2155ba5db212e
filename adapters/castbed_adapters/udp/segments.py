"""Many datagrams of one size as one, as far as the kernel: it cuts and joins them where it has to, and seldom has to.

What is sent so passes through the system at the cost of little more than one datagram, while an IP packet that is cut
into fragments costs as much for each of them.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from struct import Struct

from castbed_adapters.udp.addresses import SocketAddress

SEGMENTS_MAX = 64  # at once, in all kernels that can do it
_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104  # Linux; Python has no names for them
_SIZE_OUT, _SIZE_IN = Struct("@H"), Struct("@i")
ANCILLARY_BYTES = socket.CMSG_SPACE(_SIZE_IN.size)


def take_joined(receiver: socket.socket) -> None:
    """Have the kernel hand over at once what came together, if it can."""
    with suppress(OSError):
        receiver.setsockopt(_SOL_UDP, _UDP_GRO, 1)


def can_be_cut(sender: socket.socket) -> bool:
    """Whether the kernel knows of segments; the interface may still refuse them."""
    try:
        sender.getsockopt(_SOL_UDP, _UDP_SEGMENT)
    except OSError:
        return False
    return True


def send_to_be_cut(sender: socket.socket, data: bytes, step: int, address: SocketAddress) -> None:
    """As datagrams of `step` bytes each, but for the last."""
    sender.sendmsg([data], [(_SOL_UDP, _UDP_SEGMENT, _SIZE_OUT.pack(step))], 0, address)


def joined_step(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The size of the datagrams that were joined, 0 if it is one that came by itself."""
    for level, kind, data in ancillary:
        if level == _SOL_UDP and kind == _UDP_GRO and len(data) >= _SIZE_IN.size:
            return int(_SIZE_IN.unpack_from(data)[0])
    return 0
