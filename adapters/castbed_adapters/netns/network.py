"""The network of a run on `netns`: a namespace for each node, the medium between their radios, a bridge for wires."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from castbed.links import NOWHERE, Cell, Heard, RunSetting
from castbed.packets import Packet
from castbed.topology import Topology
from castbed.values import NodeNumber
from castbed.wire import FRAME_BYTES_MAX
from castbed_adapters.netns.devices import AIR, WIRE, bring_loopback_up, lay_wires, open_radio, wire_address
from castbed_adapters.netns.ether import EtherProcess
from castbed_adapters.netns.medium import MediumSpec
from castbed_adapters.netns.options import NetnsOptions
from castbed_adapters.netns.spaces import Space, become_able
from castbed_adapters.udp.addresses import Interface
from castbed_adapters.udp.wires import TcpWires
from castbed_adapters.wifi.links import WifiLinks
from castbed_adapters.wifi.options import WifiOptions
from castbed_adapters.wifi.sockets import interface_index


class NetnsNetwork:
    """What a run has: everything of it vanishes with the processes of the run.

    The medium strikes what is on its air; with a key the nodes do, behind the check, or a second copy were a replay.
    """

    shapes_air = True
    emulates_wires = True

    def __init__(self, setting: RunSetting) -> None:
        self._setting = setting
        self.strikes_air = setting.prover is None
        self._options: NetnsOptions = setting.options
        self._spaces: dict[NodeNumber, Space] = {}
        self._hub: Space | None = None
        self._ether: EtherProcess | None = None
        self._on_air = on_air(setting.topology)

    def open(self) -> None:
        topology = self._setting.topology
        become_able()
        self._hub = hub = Space()
        self._spaces = {node.number: Space() for node in topology.nodes}
        radios = {n: open_radio(hub, self._spaces[n], n, self._options.mtu) for n in self._on_air}
        for space in self._spaces.values():
            bring_loopback_up(space)
        if topology.fixed:
            lay_wires(hub, [(number, self._spaces[number]) for number in sorted(topology.fixed)])
        if radios:
            self._ether = EtherProcess(self._medium(), radios)

    def _medium(self) -> MediumSpec:
        setting = self._setting
        air, faults = setting.experiment.topology.air, setting.experiment.faults
        spec = MediumSpec(
            cells=dict.fromkeys(self._on_air, NOWHERE),
            delay=air.delay,
            rate=air.rate,
            seed=f"{setting.experiment.seed}/medium",
        )
        if not self.strikes_air:
            return spec
        return replace(
            spec,
            loss=faults.loss,
            duplication=faults.duplication,
            reordering=faults.reordering,
            blocks=setting.blocks,
        )

    def enter(self, node: NodeNumber) -> None:
        self._spaces[node].enter()

    def links(self, node: NodeNumber) -> NetnsLinks:
        return NetnsLinks(node, self._setting, self._spaces[node], node in self._on_air)

    def begin(self, origin: int) -> None:
        if self._ether is not None:
            self._ether.begin(origin)

    def moved(self, node: NodeNumber, cell: Cell) -> None:
        if self._ether is not None and node in self._on_air:
            self._ether.place(node, cell)

    def check(self) -> None:
        if self._ether is not None:
            self._ether.check()

    def effects(self) -> Mapping[str, int]:
        return self._ether.counts().effects if self._ether is not None else {}

    def counters(self) -> Mapping[str, int]:
        if self._ether is None:
            return {}
        counts = self._ether.counts()
        late = counts.late_ns // 1000
        return {"medium_dropped": counts.dropped, "medium_foreign": counts.foreign, "medium_late_us_max": late}

    def close(self) -> None:
        if self._ether is not None:
            self._ether.close()
            self._ether = None
        for space in (*self._spaces.values(), *([self._hub] if self._hub is not None else [])):
            space.close()
        self._spaces, self._hub = {}, None


class NetnsLinks:
    """Radio and wires of one node, inside its namespace."""

    def __init__(self, me: NodeNumber, setting: RunSetting, space: Space, on_air: bool) -> None:
        options: NetnsOptions = setting.options
        self._space = space
        self._air: WifiLinks | None = None
        if on_air:
            radio = WifiOptions(interface=AIR, receive_buffer=options.receive_buffer)
            self._air = WifiLinks(me, setting.token, AIR, radio, setting.captured, addressed=True)
        self.counters: Counter[str] = self._air.counters if self._air is not None else Counter()
        self._wires: TcpWires | None = None
        if me in setting.topology.fixed:
            wire = Interface(WIRE, interface_index(WIRE), 4, wire_address(me))
            self._wires = TcpWires(me, setting.token, setting.topology.fixed, wire, self.counters, setting.prover)

    air_frame_bytes_max = FRAME_BYTES_MAX  # the smallest MTU takes it in pieces
    neighbours: frozenset[NodeNumber] = frozenset()  # a frame takes as long as it is large

    @property
    def congested(self) -> bool:
        return bool((self._air and self._air.congested) or (self._wires and self._wires.congested))

    async def open(self) -> Any:
        if self._air is not None:
            await self._air.open()
        return await self._wires.open() if self._wires is not None else None

    async def connect(self, addresses: Mapping[NodeNumber, Any]) -> Mapping[NodeNumber, str]:
        if self._wires is None:
            return {}
        self._space.enter()  # another node may live in this process
        return await self._wires.connect(addresses)

    def listen(self, heard: Heard) -> None:
        for link in (self._air, self._wires):
            if link is not None:
                link.listen(heard)

    def poll(self) -> None:
        if self._air is not None:
            self._air.poll()

    def tune(self, cell: Cell) -> None:
        if self._air is not None:
            self._air.tune(cell)

    def transmit(self, frame: bytes, to: tuple[NodeNumber, ...]) -> None:
        assert self._air is not None, "a node without a radio is in no cell"
        self._air.transmit(frame, to)

    def forward(self, frame: bytes, to: NodeNumber, packet: Packet | None = None) -> None:
        assert self._wires is not None, "only fixed nodes have wires"
        self._wires.forward(frame, to, packet)

    def flush(self) -> None:
        for link in (self._air, self._wires):
            if link is not None:
                link.flush()

    async def close(self) -> None:
        self.flush()
        if self._air is not None:
            await self._air.close()
        if self._wires is not None:
            await self._wires.close()


def on_air(topology: Topology) -> tuple[NodeNumber, ...]:
    """Members, hosts and stations have radios; coordinators, sequencers and sites have wires only."""
    if topology.model == "sites":
        return ()
    everybody = topology.model == "broadcast"
    return tuple(n.number for n in topology.nodes if everybody or n.role in ("host", "station"))
