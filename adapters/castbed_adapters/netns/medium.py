"""The air between emulated nodes, as plain decisions: who hears a frame, and when. It touches no device.

A sender's frames leave one after the other at the rate of the medium. Everybody in the sender's cell hears them (a
frame that is addressed to one node: only that one) after a delay, unless the copy is lost; whoever has left the cell by
then does not. It is the air of the simulator, in real time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Protocol

import msgspec

from castbed.links import NOWHERE, SHARED_AIR
from castbed.values import NodeNumber
from castbed.wire import ETHERNET, ETHERNET_BYTES, ETHERTYPE
from castbed_adapters.wifi.envelope import PIECE_ETHERTYPE

SECOND = 1_000_000_000
OURS = (ETHERTYPE, PIECE_ETHERTYPE)
Departure = tuple[int, tuple[NodeNumber, ...]]
"""When a copy arrives, and at whom."""


class Delays(Protocol):
    """Draws how long something takes, in nanoseconds."""

    def sample(self, random: Random) -> int: ...


class Overtaking(Protocol):
    """With this probability a copy takes `delay` longer."""

    @property
    def probability(self) -> float: ...
    @property
    def delay(self) -> Delays: ...


class Blocked(Protocol):
    """A direction in which nothing passes from `start` to `end` of the run."""

    @property
    def source(self) -> NodeNumber: ...
    @property
    def target(self) -> NodeNumber: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def fault(self) -> str: ...


class MediumSpec(msgspec.Struct, frozen=True):
    """What the air is like: rate in bit/s, delay, everything that goes wrong on it, and where everybody is at first."""

    cells: Mapping[NodeNumber, NodeNumber]
    delay: Delays
    rate: int
    loss: float = 0.0
    duplication: float = 0.0
    reordering: Overtaking | None = None
    blocks: Sequence[Blocked] = ()
    seed: str = "0"


class Medium:
    """Decides about every frame; times are nanoseconds since the run's start."""

    def __init__(self, spec: MediumSpec) -> None:
        self._spec = spec
        self._random = Random(spec.seed)
        self._bit_ns = SECOND / spec.rate
        self._free: dict[NodeNumber, int] = {}
        self._cells = dict(spec.cells)
        self._others: dict[NodeNumber, tuple[NodeNumber, ...]] = {}
        self._blocks: dict[tuple[NodeNumber, NodeNumber], list[Blocked]] = {}
        for block in spec.blocks:
            self._blocks.setdefault((block.source, block.target), []).append(block)
        constant = getattr(spec.delay, "constant", None) is not None
        self._plain = constant and not (spec.loss or spec.duplication or spec.reordering or self._blocks)
        self.effects: Counter[str] = Counter()
        self.foreign = 0

    def place(self, node: NodeNumber, cell: NodeNumber) -> None:
        """The node is in this cell from now on."""
        self._cells[node] = cell
        self._others.clear()

    def still_hears(self, sender_cell: NodeNumber, receivers: tuple[NodeNumber, ...]) -> list[NodeNumber]:
        """Those of the receivers who are in the cell of the transmission when it arrives."""
        cells = self._cells
        return [receiver for receiver in receivers if cells[receiver] == sender_cell]

    def cell(self, node: NodeNumber) -> NodeNumber:
        return self._cells[node]

    def backlog(self, sender: NodeNumber, now: int) -> int:
        """How long the transmitter of a node will be busy with what it was given."""
        return self._free.get(sender, 0) - now

    def transmitted(self, sender: NodeNumber, frame: bytes, now: int) -> Iterable[Departure]:
        """When the copies of a frame that `sender` hands over now arrive, and at whom."""
        to, _, ethertype = ETHERNET.unpack_from(frame) if len(frame) >= ETHERNET_BYTES else (b"", b"", 0)
        if ethertype not in OURS:
            self.foreign += 1
            return ()
        sent = max(self._free.get(sender, 0), now) + int(len(frame) * 8 * self._bit_ns)
        self._free[sender] = sent
        hearers = self._hearers(sender, to)
        if self._plain:
            return ((sent + self._spec.delay.sample(self._random), hearers),) if hearers else ()
        arrivals: dict[int, list[NodeNumber]] = {}
        for hearer in hearers:
            for at in self._copies(sender, hearer, sent):
                arrivals.setdefault(at, []).append(hearer)
        return [(at, tuple(together)) for at, together in arrivals.items()]

    def _hearers(self, sender: NodeNumber, to: bytes) -> tuple[NodeNumber, ...]:
        others = self._in_range(sender)
        if to[0] & 1:
            return others
        target = int.from_bytes(to[2:], "big")
        return (target,) if target in others else ()

    def _in_range(self, sender: NodeNumber) -> tuple[NodeNumber, ...]:
        found = self._others.get(sender)
        if found is None:
            cell = self._cells[sender]
            found = tuple(node for node, where in self._cells.items() if where == cell and node != sender)
            self._others[sender] = found = found if cell != NOWHERE else ()
        return found

    def _copies(self, sender: NodeNumber, hearer: NodeNumber, sent: int) -> list[int]:
        spec, random = self._spec, self._random
        if self._blocks and self._is_blocked(sender, hearer, sent):
            return []
        if spec.loss and random.random() < spec.loss:
            self.effects["loss"] += 1
            return []
        copies = [sent + self._travel()]
        if spec.duplication and random.random() < spec.duplication:
            self.effects["duplication"] += 1
            copies.append(sent + self._travel())
        return copies

    def _is_blocked(self, sender: NodeNumber, hearer: NodeNumber, at: int) -> bool:
        for block in self._blocks.get((sender, hearer), ()):
            if block.start <= at < block.end:
                self.effects[block.fault] += 1
                return True
        return False

    def _travel(self) -> int:
        delay = self._spec.delay.sample(self._random)
        reordering = self._spec.reordering
        if reordering is not None and self._random.random() < reordering.probability:
            self.effects["reordering"] += 1
            delay += reordering.delay.sample(self._random)
        return delay


def shared_air(nodes: Iterable[NodeNumber]) -> dict[NodeNumber, NodeNumber]:
    """Everybody in the one cell."""
    return dict.fromkeys(nodes, SHARED_AIR)
