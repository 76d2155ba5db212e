"""The network of a run on `udp`, and the links of one node on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from castbed.links import Cell, Heard, RunSetting
from castbed.values import NodeNumber
from castbed_adapters.plain_network import PlainNetwork
from castbed_adapters.udp.addresses import Groups, Interface, draw_groups, find_interface
from castbed_adapters.udp.air import MulticastAir
from castbed_adapters.udp.options import LOOPBACK, UdpOptions
from castbed_adapters.udp.wires import TcpWires

DATAGRAM_BYTES, LOOPBACK_DATAGRAM_BYTES = 1400, 60_000


class UdpLinks:
    """Air and wires of one node, as far as its place in the topology gives it any."""

    air_frame_bytes_max = MulticastAir.frame_bytes_max

    def __init__(self, air: MulticastAir | None, wires: TcpWires | None, counters: Counter[str]) -> None:
        self.counters = counters
        self._air = air
        self._wires = wires

    @property
    def congested(self) -> bool:
        return bool((self._air and self._air.congested) or (self._wires and self._wires.congested))

    async def open(self) -> Any:
        if self._air is not None:
            self._air.open()
        return await self._wires.open() if self._wires is not None else None

    async def connect(self, addresses: Mapping[NodeNumber, Any]) -> None:
        if self._wires is not None:
            await self._wires.connect(addresses)

    def listen(self, heard: Heard) -> None:
        if self._air is not None:
            self._air.listen(heard)
        if self._wires is not None:
            self._wires.listen(heard)

    def tune(self, cell: Cell) -> None:
        if self._air is not None:
            self._air.tune(cell)

    def transmit(self, frame: bytes, to: tuple[NodeNumber, ...]) -> None:
        assert self._air is not None, "a node without air is in no cell"
        self._air.transmit(frame, to)

    def forward(self, frame: bytes, to: NodeNumber) -> None:
        assert self._wires is not None, "only fixed nodes have wires"
        self._wires.forward(frame, to)

    def flush(self) -> None:
        if self._air is not None:
            self._air.flush()
        if self._wires is not None:
            self._wires.flush()

    async def close(self) -> None:
        self.flush()
        if self._air is not None:
            self._air.close()
        if self._wires is not None:
            await self._wires.close()


class UdpNetwork(PlainNetwork):
    """What a run has on `udp`: an interface, a port, and multicast groups. Nothing of it outlives its processes."""

    def __init__(self, setting: RunSetting) -> None:
        self._setting = setting
        self._options: UdpOptions = setting.options
        self._interface: Interface | None = None
        self._groups: Groups | None = None

    def open(self) -> None:
        self._interface = find_interface(self._options.interface, self._options.ip)
        if self._setting.topology.model != "sites":
            self._groups = draw_groups(self._interface, self._setting.token)

    def links(self, node: NodeNumber) -> UdpLinks:
        counters: Counter[str] = Counter()
        return UdpLinks(self._air(node, counters), self._wires(node, counters), counters)

    def _air(self, node: NodeNumber, counters: Counter[str]) -> MulticastAir | None:
        setting, options = self._setting, self._options
        if self._groups is None or not _has_air(setting, node):
            return None
        default = LOOPBACK_DATAGRAM_BYTES if options.interface == LOOPBACK else DATAGRAM_BYTES
        size, buffer = options.datagram or default, options.receive_buffer
        return MulticastAir(node, setting.token, self._groups, counters, size, buffer, setting.captured)

    def _wires(self, node: NodeNumber, counters: Counter[str]) -> TcpWires | None:
        setting = self._setting
        if node not in setting.topology.fixed:
            return None
        assert self._interface is not None
        return TcpWires(node, setting.token, setting.topology.fixed, self._interface, counters)

    def close(self) -> None:
        """Sockets close with the processes that have them."""


def _has_air(setting: RunSetting, node: NodeNumber) -> bool:
    """Hosts, stations and members are on the air; coordinators and sequencers have wires only."""
    return setting.topology.model == "broadcast" or setting.topology.role(node) in ("host", "station")
