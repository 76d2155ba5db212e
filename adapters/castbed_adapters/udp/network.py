"""The network of a run on `udp`, and the links of one node on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from castbed.links import Cell, Heard, RunSetting
from castbed.packets import Packet
from castbed.values import NodeNumber
from castbed_adapters.plain_network import PlainNetwork
from castbed_adapters.udp.addresses import Groups, Interface, draw_groups, find_interface
from castbed_adapters.udp.air import MulticastAir
from castbed_adapters.udp.options import LOOPBACK, UdpOptions
from castbed_adapters.udp.places import Places
from castbed_adapters.udp.wires import TcpWires

DATAGRAM_BYTES, LOOPBACK_DATAGRAM_BYTES = 1400, 60_000


class UdpLinks:
    """Air and wires of one node, as far as its place in the topology gives it any."""

    air_frame_bytes_max = MulticastAir.frame_bytes_max

    def __init__(
        self, air: MulticastAir | None, wires: TcpWires | None, counters: Counter[str], come: Callable[[], None]
    ) -> None:
        self.counters = counters
        self._air = air
        self._wires = wires
        self._come = come
        # Bound here once: methods between the host and the transmitters would be called for every frame.
        self.transmit = _no_air if air is None else air.transmit
        self.forward = _no_wires if wires is None else wires.forward
        self.neighbours = frozenset[NodeNumber]() if wires is None else wires.neighbours
        self.poll = _nothing if air is None else air.poll
        self.flush = _both(air, wires) if air and wires else air.flush if air else wires.flush if wires else _nothing

    @property
    def congested(self) -> bool:
        return bool((self._air and self._air.congested) or (self._wires and self._wires.congested))

    async def open(self) -> Any:
        if self._air is not None:
            self._air.open()
        return await self._wires.open() if self._wires is not None else None

    async def connect(self, addresses: Mapping[NodeNumber, Any]) -> Mapping[NodeNumber, str]:
        if self._wires is None:
            return {}
        self._come()  # another node may live in this process, and elsewhere
        return await self._wires.connect(addresses)

    def listen(self, heard: Heard) -> None:
        if self._air is not None:
            self._air.listen(heard)
        if self._wires is not None:
            self._wires.listen(heard)

    def tune(self, cell: Cell) -> None:
        if self._air is not None:
            self._air.tune(cell)

    async def close(self) -> None:
        self.flush()
        if self._air is not None:
            self._air.close()
        if self._wires is not None:
            await self._wires.close()


def _both(air: MulticastAir, wires: TcpWires) -> Callable[[], None]:
    def flush() -> None:
        air.flush()
        wires.flush()

    return flush


def _nothing() -> None:
    """What a node without links flushes, and finds on the air."""


def _no_air(frame: bytes, to: tuple[NodeNumber, ...]) -> None:  # noqa: ARG001 (as a transmitter is called)
    raise AssertionError("a node without air is in no cell")


def _no_wires(frame: bytes, to: NodeNumber, packet: Packet | None = None) -> None:  # noqa: ARG001
    raise AssertionError("only fixed nodes have wires")


class UdpNetwork(PlainNetwork):
    """What a run has on `udp`: interfaces, a port, and multicast groups. Nothing of it outlives its processes."""

    def __init__(self, setting: RunSetting) -> None:
        self._setting = setting
        self._options: UdpOptions = setting.options
        self._places = Places(self._options.namespaces, setting.topology)
        self._groups: dict[NodeNumber, Groups] = {}
        self._interfaces: dict[NodeNumber, Interface] = {}

    def open(self) -> None:
        """Every node has the interface where it is; port and groups are drawn where the first one is."""
        setting, places = self._setting, self._places
        places.open()
        numbers = setting.topology.numbers()
        self._interfaces = {number: places.at(number, self._interface) for number in numbers}
        if setting.topology.model != "sites":
            first = self._interfaces[numbers[0]]
            drawn = places.at(numbers[0], lambda: draw_groups(first, setting.token))
            self._groups = {n: replace(drawn, interface=interface) for n, interface in self._interfaces.items()}

    def _interface(self) -> Interface:
        return find_interface(self._options.interface, self._options.ip)

    def enter(self, node: NodeNumber) -> None:
        self._places.enter(node)

    def links(self, node: NodeNumber) -> UdpLinks:
        counters: Counter[str] = Counter()
        air, wires = self._air(node, counters), self._wires(node, counters)
        return UdpLinks(air, wires, counters, lambda: self._places.enter(node))

    def _air(self, node: NodeNumber, counters: Counter[str]) -> MulticastAir | None:
        setting, options = self._setting, self._options
        if not self._groups or not _has_air(setting, node):
            return None
        default = LOOPBACK_DATAGRAM_BYTES if options.interface == LOOPBACK else DATAGRAM_BYTES
        size, buffer = options.datagram or default, options.receive_buffer
        return MulticastAir(node, setting.token, self._groups[node], counters, size, buffer, setting.captured)

    def _wires(self, node: NodeNumber, counters: Counter[str]) -> TcpWires | None:
        setting = self._setting
        if node not in setting.topology.fixed:
            return None
        return TcpWires(node, setting.token, setting.topology.fixed, self._interfaces[node], counters, setting.prover)

    def close(self) -> None:
        """Sockets close with the processes that have them."""
        self._places.close()


def _has_air(setting: RunSetting, node: NodeNumber) -> bool:
    """Hosts, stations and members are on the air; coordinators and sequencers have wires only."""
    return setting.topology.model == "broadcast" or setting.topology.role(node) in ("host", "station")
