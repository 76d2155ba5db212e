"""What the adapters bring, as a plugin like any other: transports that touch the world."""

from __future__ import annotations

from castbed import NEEDS, Transport, hookimpl
from castbed.registry import Register
from castbed_adapters.netns.options import NetnsOptions
from castbed_adapters.udp.options import UdpOptions
from castbed_adapters.wifi.options import WifiOptions

HOSTING = "castbed_testbed.hosting.runner:run"
RADIOS_LACK = frozenset({"wire", "reliable_wire", "fifo_wire", "reliable_air", "fifo_air"})


@hookimpl
def castbed_transports(register: Register[Transport]) -> None:
    register.add(
        Transport(
            "udp",
            "Real sockets: IP multicast for the air, TCP for wires; on loopback, or on an interface by name",
            frozenset(NEEDS),
            HOSTING,
            UdpOptions,
            "castbed_adapters.udp.network:UdpNetwork",
        )
    )
    register.add(
        Transport(
            "wifi",
            "Raw frames on an interface: an ad hoc Wi-Fi cell, monitor mode, or any Ethernet; needs root",
            frozenset(NEEDS) - RADIOS_LACK,
            HOSTING,
            WifiOptions,
            "castbed_adapters.wifi.network:WifiNetwork",
        )
    )
    register.add(
        Transport(
            "netns",
            "An emulated network on this machine: a namespace per node, a medium that plays the air, TCP on a bridge",
            frozenset(NEEDS),
            HOSTING,
            NetnsOptions,
            "castbed_adapters.netns.network:NetnsNetwork",
        )
    )
