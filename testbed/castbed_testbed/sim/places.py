"""Where nodes are: on the one shared air, in the cell of a station, or nowhere."""

from __future__ import annotations

from castbed.topology import Topology
from castbed.values import NOBODY, NodeNumber
from castbed_testbed.sim.node import Cell, SimNode


class Places:
    """All cells of a topology. A node's `home` is where it is or, while it is down, where it will come up."""

    def __init__(self, topology: Topology, nodes: list[SimNode]) -> None:
        self._everywhere = Cell()
        self._stations = {number: Cell() for number in topology.numbers("station")}
        for node in nodes:
            if topology.model == "broadcast":
                node.home = self._everywhere
            else:
                node.home = self._stations.get(topology.attached.get(node.number, node.number))

    def cell(self, station: NodeNumber) -> Cell:
        """The cell of a station; NOBODY stands for the shared air."""
        return self._stations[station] if station else self._everywhere

    def station(self, cell: Cell | None) -> NodeNumber:
        """Whose cell it is; NOBODY for the shared air and for none."""
        return next((number for number, own in self._stations.items() if own is cell), NOBODY)

    def enter(self, node: SimNode) -> None:
        """The node hears what is said at its home."""
        node.cell = node.home
        if node.cell is not None:
            node.cell.enter(node)

    def leave(self, node: SimNode) -> None:
        """The node hears nothing."""
        if node.cell is not None:
            node.cell.leave(node)
        node.cell = None
