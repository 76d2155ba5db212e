"""What goes wrong on the way to one node, done where it arrives: each copy is lost, doubled, delayed or let through.

Faults strike copies on the air as in the simulator. On a wire nothing is lost: a cut or a partition delays what comes
until it ends, and nothing overtakes on the way. Where wires are emulated, a packet also takes as long as the rate and
the delay of the experiment's wires say.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from castbed.values import NodeNumber
from castbed_testbed.experiment import WireSpec
from castbed_testbed.faults import Faults
from castbed_testbed.schedule import Block
from castbed_testbed.sim.media import SECOND, Blocks

AT_ONCE = (0,)
NEVER = ()


class Impairment:
    """Decides about the copies for one node; `effects` counts what it did."""

    def __init__(
        self,
        me: NodeNumber,
        faults: Faults,
        blocks: tuple[Block, ...],
        random: Random,
        air_is_struck: bool,
        wire: WireSpec | None = None,
    ) -> None:
        self.effects: Counter[str] = Counter()
        self._me = me
        self._faults = faults
        self._random = random
        self._blocks = Blocks(tuple(block for block in blocks if block.target == me))
        self._wire = wire
        self._wire_free: dict[NodeNumber, int] = {}
        self._through: dict[NodeNumber, int] = {}
        strikes = faults.loss or faults.duplication or faults.reordering or self._blocks
        self.strikes_air = bool(strikes) and not air_is_struck
        self.strikes_wire = bool(self._blocks) or wire is not None
        self.strikes = self.strikes_air or self.strikes_wire

    def on_air(self, sender: NodeNumber, now: int) -> tuple[int, ...]:
        """How long each copy that the node gets takes from here: one, none if it is lost, two if it is doubled."""
        block = self._blocks.block(sender, self._me, now)
        if block is not None:
            self.effects[block.fault] += 1
            return NEVER
        faults, random = self._faults, self._random
        if faults.loss and random.random() < faults.loss:
            self.effects["loss"] += 1
            return NEVER
        if faults.duplication and random.random() < faults.duplication:
            self.effects["duplication"] += 1
            return self._lag(), self._lag()
        return AT_ONCE if faults.reordering is None else (self._lag(),)

    def _lag(self) -> int:
        reordering = self._faults.reordering
        if reordering is None or self._random.random() >= reordering.probability:
            return 0
        self.effects["reordering"] += 1
        return reordering.delay.sample(self._random)

    def on_wire(self, sender: NodeNumber, now: int, size: int) -> int:
        """When the packet is through: not before every block is over, nor before what came ahead of it."""
        free, arrival = self._travelled(sender, now, size)
        while (block := self._blocks.block(sender, self._me, free)) is not None:
            self.effects[block.fault] += 1
            free = block.end
        arrival = max(arrival, free)
        if self._wire is None or self._wire.fifo:
            self._through[sender] = arrival = max(arrival, self._through.get(sender, 0))
        return arrival

    def _travelled(self, sender: NodeNumber, now: int, size: int) -> tuple[int, int]:
        """When the last bit of the packet would leave its sender, and when it would be here."""
        wire = self._wire
        if wire is None:
            return now, now
        start = max(now, self._wire_free.get(sender, 0))
        self._wire_free[sender] = sent = start + size * 8 * SECOND // wire.rate
        return sent, sent + wire.delay.sample(self._random)
