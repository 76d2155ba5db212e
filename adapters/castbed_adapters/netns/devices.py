"""Interfaces in namespaces: the radio of each node has its other end at the medium, its wire on a bridge.

A radio is a TAP, which vanishes with the process that holds its descriptor, or, for those who may not open TAPs, a veth
with a packet socket at the other end. Veths vanish with the namespaces of their ends.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections import Counter
from collections.abc import Sequence

from pyroute2 import IPRoute

from castbed.values import NodeNumber
from castbed.wire import ETHERTYPE, address
from castbed_adapters.netns.spaces import Space
from castbed_adapters.receiving import make_room

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
AIR, WIRE, BRIDGE = "air0", "wire0", "wires"
MTU = 1500
QUEUE_FRAMES = 4096  # of a TAP, until the medium reads them; then its node has to wait
RECEIVE_BUFFER = 4 * 2**20  # of the medium, for each node without a TAP
WIRE_PREFIX = 16


def wire_address(number: NodeNumber) -> str:
    """The address of a node on the wires: 10.77.x.y, where x.y is its number."""
    return f"10.77.{number >> 8}.{number & 0xFF}"


def open_radio(hub: Space, space: Space, number: NodeNumber, mtu: int = MTU) -> int:
    """Give a node its air interface; returns the descriptor that reads what it sends and writes what it hears."""
    if os.access(TUN, os.R_OK | os.W_OK):
        descriptor = space.run(_made_tap)
    else:
        descriptor = hub.run(lambda: _made_pair(space, number))
    space.run(lambda: _up(number, mtu))
    return descriptor


def _made_tap() -> int:
    descriptor = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", AIR.encode(), IFF_TAP | IFF_NO_PI))
    return descriptor


def _made_pair(space: Space, number: NodeNumber) -> int:
    name = f"a{number}"
    with IPRoute() as route:
        route.link("add", ifname=name, kind="veth", peer={"ifname": AIR, "net_ns_fd": space.descriptor})
        _quiet(name)
        route.link("set", index=route.link_lookup(ifname=name)[0], state="up")
    there = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    there.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    make_room(there, RECEIVE_BUFFER, Counter())
    there.bind((name, ETHERTYPE))
    there.setblocking(False)
    return there.detach()


def _up(number: NodeNumber, mtu: int) -> None:
    with IPRoute() as route:
        _quiet(AIR)
        index = route.link_lookup(ifname=AIR)[0]
        written = ":".join(f"{byte:02x}" for byte in address(number))
        route.link("set", index=index, address=written, mtu=mtu, txqlen=QUEUE_FRAMES)
        route.link("set", index=index, state="up")
        route.tc("replace", "noqueue", index)  # or a node would not hear that its TAP is full


def lay_wires(hub: Space, spaces: Sequence[tuple[NodeNumber, Space]]) -> None:
    """Connect the nodes by a bridge in the hub's namespace; each gets `wire0` with an address of its own."""
    hub.run(lambda: _laid(spaces))
    for number, space in spaces:
        space.run(lambda number=number: _addressed(number))  # type: ignore[misc]


def _laid(spaces: Sequence[tuple[NodeNumber, Space]]) -> None:
    with IPRoute() as route:
        route.link("add", ifname=BRIDGE, kind="bridge")
        bridge = route.link_lookup(ifname=BRIDGE)[0]
        route.link("set", index=bridge, state="up")
        for number, space in spaces:
            name = f"w{number}"
            route.link("add", ifname=name, kind="veth", peer={"ifname": WIRE, "net_ns_fd": space.descriptor})
            index = route.link_lookup(ifname=name)[0]
            route.link("set", index=index, master=bridge, state="up")


def _addressed(number: NodeNumber) -> None:
    with IPRoute() as route:
        _quiet(WIRE)
        index = route.link_lookup(ifname=WIRE)[0]
        route.addr("add", index=index, address=wire_address(number), prefixlen=WIRE_PREFIX)
        route.link("set", index=index, state="up")


def bring_loopback_up(space: Space) -> None:
    """What TCP connections of a node to itself need."""

    def up() -> None:
        with IPRoute() as route:
            route.link("set", index=1, state="up")

    space.run(up)


def _quiet(interface: str) -> None:
    """No IPv6 on the interface: neighbour discovery would fill captures with what no protocol sent."""
    try:
        with open(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6", "w", encoding="ascii") as setting:
            setting.write("1")
    except OSError:
        return  # a kernel without IPv6 is quiet already
