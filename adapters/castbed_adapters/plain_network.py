"""What networks have in common that neither hold nodes apart nor shape their media: the node's own links do all."""

from __future__ import annotations

from collections.abc import Mapping

from castbed.links import Cell
from castbed.values import NodeNumber


class PlainNetwork:
    """All nodes are on this machine and in its network; nothing is done to what they send."""

    shapes_air = strikes_air = False
    emulates_wires = False

    def enter(self, node: NodeNumber) -> None:
        """All nodes are in the same network."""

    def begin(self, origin: int) -> None:
        """Nothing here depends on the time."""

    def moved(self, node: NodeNumber, cell: Cell) -> None:
        """A node that moves tunes its own links."""

    def check(self) -> None:
        """Nothing here can end by itself; what ends with an interface its nodes notice."""

    def effects(self) -> Mapping[str, int]:
        return {}

    def counters(self) -> Mapping[str, int]:
        return {}
