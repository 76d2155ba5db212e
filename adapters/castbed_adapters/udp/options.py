"""Options of the transport `udp`, apart from its sockets, so that listing plugins stays quick."""

from __future__ import annotations

from typing import Literal

import msgspec

from castbed.links import LinkOptions
from castbed.units import ByteSize
from castbed_adapters.receive_buffer import ReceiveBuffer

LOOPBACK = "lo"


class UdpOptions(LinkOptions, frozen=True, forbid_unknown_fields=True):
    """`interface` by name, `ip` version; frames that leave together share datagrams of up to `datagram` bytes.

    The default fits the interface: 60000 bytes on loopback, else 1400, which leaves room for tunnels in an Ethernet of
    1500. `receive_buffer` is what the kernel keeps for a node that is busy. `namespaces` says which nodes live in a
    network namespace, which is named as by `ip netns` or by its path, and has to exist.
    """

    interface: str = LOOPBACK
    ip: Literal[4, 6] = 4
    datagram: ByteSize | None = None
    receive_buffer: ReceiveBuffer = ReceiveBuffer(4 * 1024 * 1024)
    namespaces: dict[str, str] = msgspec.field(default_factory=dict)
