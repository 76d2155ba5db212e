"""What `repaired` changes in a handoff: nothing falls between two supervisors, and none waits for a host for ever.

A message may be at the new supervisor before the host is, and reach the old one after the host went. Then the new one
still has it, for DISCARD waits for the old one: what is no longer in the buffer here, the old one had while it was
responsible, and forwarded.
"""

from __future__ import annotations

from castbed import NodeNumber
from castbed_plugins.relm.coordinator import Coordinator
from castbed_plugins.relm.handoff import Arrival
from castbed_plugins.relm.packets import Data


class RepairedCoordinator(Coordinator):
    """A supervisor that sends a host from elsewhere what it lacks, and knows whom to ask about one that never came."""

    def move_in(self, arrival: Arrival) -> None:
        """Handoff step 4; from cell to cell of one domain everything that was here goes along."""
        from_elsewhere = arrival.hello.host not in self.location
        super().move_in(arrival)
        if from_elsewhere:
            for packet in self.lacking(arrival):
                self.handed_in.add((arrival.hello.host, packet.key))
                self.send_down(packet, [arrival.hello.host])

    def lacking(self, arrival: Arrival) -> list[Data]:
        """What the host, by its greeting, has not delivered, and what was not handed in with it."""
        hello = arrival.hello
        groups, last = dict(hello.groups), {(group, source): number for group, source, number in hello.last}
        taken = set(arrival.taken)
        return [
            packet
            for key, packet in self.buffer.items()
            if packet.group in groups
            and key not in taken
            and packet.mid.seqno > last.get((packet.group, packet.mid.sender), 0)
        ]

    def turn_away(self, arrival: Arrival, later: NodeNumber) -> None:
        """Whoever has heard of a later move knows where the host went: what concerns later moves is asked there."""
        super().turn_away(arrival, later)
        self.departed.setdefault(arrival.hello.host, later)
