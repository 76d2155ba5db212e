"""What the core keeps of one group: its messages that some member may lack, and what each member has reported.

Messages leave when all members have them. What members reported is no part of what the core agrees on: each of its
nodes hears it in its own time, so their shelves may differ in how much is released, never in what a number means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from castbed import NodeNumber
from castbed_plugins.eomp.repaired.bundles import count_of
from castbed_plugins.eomp.repaired.packets import AnyNumbered


class Shelf:
    """The messages `released + 1` to `sent` of a group; `acked` has an entry for each member and for nobody else.

    `kept` has packets by the number of their first message; a bundle stays until all of it can go.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.released = 0
        self.kept: dict[int, AnyNumbered] = {}
        self.bytes = 0
        self.acked: dict[NodeNumber, int] = {}

    def __len__(self) -> int:
        """How many messages are kept."""
        return self.sent - self.released

    def put(self, packet: AnyNumbered) -> None:
        self.sent = packet.seq + count_of(packet) - 1
        self.kept[packet.seq] = packet
        self.bytes += len(packet.payload)

    def acknowledge(self, host: NodeNumber, number: int) -> None:
        """A member has everything up to this number; who is no member counts for nothing."""
        before = self.acked.get(host)
        if before is not None and before < number:
            self.acked[host] = min(number, self.sent)

    def release(self) -> None:
        """Drop what every member has (C-11)."""
        reached = min(self.acked.values(), default=self.sent)
        while self.released < reached:
            packet = self.kept[self.released + 1]
            end = self.released + count_of(packet)
            if end > reached:
                return
            del self.kept[packet.seq]
            self.bytes -= len(packet.payload)
            self.released = end

    def slowest(self) -> list[NodeNumber]:
        """The members who keep the oldest message here."""
        oldest = self.kept.get(self.released + 1)
        end = self.released if oldest is None else self.released + count_of(oldest)
        return sorted(host for host, number in self.acked.items() if number < end)

    def lacked(self, last: int, sent: int, early: Sequence[tuple[int, int]]) -> Iterator[AnyNumbered]:
        """What a host lacks of what was `sent` in its cell: all after `last` but for the `early` ranges."""
        ranges = iter(early)
        first, end = next(ranges, (0, 0))
        at = self._begin(max(last, self.released) + 1)
        while at <= min(sent, self.sent):
            while end and end < at:
                first, end = next(ranges, (0, 0))
            packet = self.kept[at]
            if not end or at < first:
                yield packet
            at += count_of(packet)

    def _begin(self, seq: int) -> int:
        """The number of the first message in the packet that holds this one."""
        while seq not in self.kept and self.released < seq <= self.sent:
            seq -= 1
        return seq
