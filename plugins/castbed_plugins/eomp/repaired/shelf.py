"""What the core keeps of one group: its messages that some member may lack, and what each member has reported.

Messages leave when all members have them. What members reported is no part of what the core agrees on: each of its
nodes hears it in its own time, so their shelves may differ in how much is released, never in what a number means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from castbed import NodeNumber
from castbed_plugins.eomp.repaired.packets import Numbered


class Shelf:
    """The messages `released + 1` to `sent` of a group; `acked` has an entry for each member and for nobody else."""

    def __init__(self) -> None:
        self.sent = 0
        self.released = 0
        self.kept: dict[int, Numbered] = {}
        self.bytes = 0
        self.acked: dict[NodeNumber, int] = {}

    def put(self, message: Numbered) -> None:
        self.sent = message.seq
        self.kept[message.seq] = message
        self.bytes += len(message.payload)

    def acknowledge(self, host: NodeNumber, number: int) -> None:
        """A member has everything up to this number; who is no member counts for nothing."""
        before = self.acked.get(host)
        if before is not None and before < number:
            self.acked[host] = min(number, self.sent)

    def release(self) -> None:
        """Drop what every member has (C-11)."""
        reached = min(self.acked.values(), default=self.sent)
        for seq in range(self.released + 1, reached + 1):
            self.bytes -= len(self.kept.pop(seq).payload)
        self.released = max(self.released, reached)

    def slowest(self) -> list[NodeNumber]:
        """The members who keep the oldest message here."""
        return sorted(host for host, number in self.acked.items() if number <= self.released < self.sent)

    def lacked(self, last: int, sent: int, early: Sequence[tuple[int, int]]) -> Iterator[Numbered]:
        """What a host lacks of what was `sent` in its cell: all after `last` but for the `early` ranges."""
        ranges = iter(early)
        first, end = next(ranges, (0, 0))
        for seq in range(max(last, self.released) + 1, min(sent, self.sent) + 1):
            while end and end < seq:
                first, end = next(ranges, (0, 0))
            if not end or seq < first:
                yield self.kept[seq]
