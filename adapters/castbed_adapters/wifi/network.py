"""The network of a run on `wifi`: its interfaces, in a cell or in monitor mode where the experiment asks for that."""

from __future__ import annotations

from castbed.errors import ConfigurationError
from castbed.links import RunSetting
from castbed.topology import Topology
from castbed.values import NodeNumber
from castbed_adapters.plain_network import PlainNetwork
from castbed_adapters.wifi.links import WifiLinks
from castbed_adapters.wifi.options import WifiOptions
from castbed_adapters.wifi.radio import Radio, open_radio
from castbed_adapters.wifi.sockets import interface_index, open_packet_socket


class WifiNetwork(PlainNetwork):
    """What a run has: an interface for each node. Nodes that share one hear each other through this machine."""

    def __init__(self, setting: RunSetting) -> None:
        self._setting = setting
        self._options: WifiOptions = setting.options
        self._interfaces = interfaces_of(setting.topology, self._options)
        self._changed: list[Radio] = []

    def open(self) -> None:
        """No interface is changed before all are known to be there, and to be what they have to be."""
        options, names = self._options, sorted(set(self._interfaces.values()))
        for name in names:
            open_packet_socket(name, (0, 0), options.receive_buffer, stamps=False).socket.close()
        if options.ssid or (options.mode == "monitor" and options.frequency is not None):
            self._change([open_radio(name, interface_index(name)) for name in names])

    def _change(self, radios: list[Radio]) -> None:
        options = self._options
        for radio in radios:
            self._changed.append(radio)
            if options.ssid:
                radio.join_cell(options)
            elif options.frequency is not None:
                radio.watch(options.frequency)

    def links(self, node: NodeNumber) -> WifiLinks:
        setting = self._setting
        return WifiLinks(node, setting.token, self._interfaces[node], self._options, setting.captured)

    def close(self) -> None:
        """Make those interfaces again what they were that were made something else."""
        for radio in self._changed:
            radio.restore()


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
