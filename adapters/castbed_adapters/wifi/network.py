"""The network of a run on `wifi`: its interfaces, in a cell or in monitor mode where the experiment asks for that."""

from __future__ import annotations

from contextlib import suppress

from castbed.errors import CastbedError, ConfigurationError
from castbed.links import RunSetting
from castbed.topology import Topology
from castbed.values import NodeNumber
from castbed_adapters.plain_network import PlainNetwork
from castbed_adapters.wifi.links import WifiLinks
from castbed_adapters.wifi.options import WifiOptions
from castbed_adapters.wifi.radio import open_radio
from castbed_adapters.wifi.sockets import interface_index, open_packet_socket


class WifiNetwork(PlainNetwork):
    """What a run has: an interface for each node. Nodes that share one hear each other through this machine."""

    def __init__(self, setting: RunSetting) -> None:
        self._setting = setting
        self._options: WifiOptions = setting.options
        self._interfaces = interfaces_of(setting.topology, self._options)

    @property
    def _names(self) -> list[str]:
        return sorted(set(self._interfaces.values()))

    def open(self) -> None:
        options = self._options
        for name in self._names:
            index = interface_index(name)
            if options.ssid:
                open_radio(name, index).join_cell(options)
            elif options.mode == "monitor" and options.frequency is not None:
                open_radio(name, index).watch(options.frequency)
            open_packet_socket(name, (0, 0), options.receive_buffer, stamps=False).socket.close()

    def links(self, node: NodeNumber) -> WifiLinks:
        setting = self._setting
        return WifiLinks(node, setting.token, self._interfaces[node], self._options, setting.captured)

    def close(self) -> None:
        """Make interfaces stations again that were made something else; those that were taken as they are stay so."""
        options = self._options
        for name in self._names if options.ssid or (options.mode == "monitor" and options.frequency) else []:
            with suppress(CastbedError):
                radio = open_radio(name, interface_index(name))
                if options.ssid:
                    radio.leave_cell()
                radio.rest()


def interfaces_of(topology: Topology, options: WifiOptions) -> dict[NodeNumber, str]:
    """The interface of each node."""
    for name in options.interfaces:
        if name not in {node.name for node in topology.nodes}:
            raise ConfigurationError(f"transport.options.interfaces.{name}", "there is no such node")
    found = {node.number: options.interfaces.get(node.name, options.interface) for node in topology.nodes}
    missing = [topology.name(number) for number, name in found.items() if not name]
    if missing:
        raise ConfigurationError("transport.options.interfaces", f"there is none for {', '.join(missing)}")
    return found
