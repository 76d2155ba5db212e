"""The total-ordering coordinator of EOMP (*TOC*, spec 2.4 and 4.4): it numbers the messages of each group."""

from __future__ import annotations

from castbed import Context, Group, Machine, NodeNumber, on
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.packets import McastDel, McastSeq, content


class Sequencer(Machine):
    """A static host of its own, as in the paper's simulation; it does nothing else."""

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        self.next_seq: dict[Group, int] = {}
        self.coordinators = context.peers("coordinator")

    @on(McastSeq)
    def number(self, packet: McastSeq, _coordinator: NodeNumber) -> None:
        """T-1: give the next number of its group, and tell all coordinators in this order."""
        seq = self.next_seq.get(packet.group, 1)
        self.next_seq[packet.group] = seq + 1
        self.multicast(self.coordinators, McastDel(*content(packet.message), seq))
