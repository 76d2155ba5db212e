"""Seals in the simulator: frames have the bytes, and so the sizes and air times, that they have on real networks.

Nothing foreign is on a simulated air, and nothing is shown elsewhere or again, so receivers need not check seals; with
the option `decode` they do.
"""

from __future__ import annotations

from collections import Counter

from castbed.authentication import NO_PLACE, Seal
from castbed.packets import Packet
from castbed.values import NOBODY, NodeNumber
from castbed.wire import Codec
from castbed_testbed.plan import Plan
from castbed_testbed.sim.media import Encoder, Flight
from castbed_testbed.sim.node import Cell, SimNode


class SealingEncoder(Encoder):
    """Seals what nodes send, each with its number in its life for a time."""

    def __init__(self, codec: Codec, decode: bool, seal: Seal) -> None:
        super().__init__(codec, decode)
        self._seal = seal
        self._sent: Counter[tuple[NodeNumber, int]] = Counter()

    def flight(self, sender: SimNode, packet: Packet, cell: Cell, to: NodeNumber = NOBODY) -> Flight:
        flight = super().flight(sender, packet, cell, to)
        life = (sender.number, sender.life)
        self._sent[life] += 1
        plain, flight.frame = flight.frame, self._seal.close(flight.frame, NO_PLACE, sender.life, self._sent[life])
        if self._decode:
            assert self._seal.opened(flight.frame, NO_PLACE)[0] == plain
        return flight


def encoder_of(plan: Plan) -> Encoder:
    """The encoder that the experiment asks for."""
    codec, decode = plan.chosen.codec(), plan.transport_options.decode
    if plan.secret is None:
        return Encoder(codec, decode)
    return SealingEncoder(codec, decode, plan.secret.simulated_seal(plan.experiment.seed))
