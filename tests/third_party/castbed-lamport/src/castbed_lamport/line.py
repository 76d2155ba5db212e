"""The packets of one sender, put back into the order in which they were sent."""

from __future__ import annotations

from collections.abc import Iterator

from castbed import PeerError

from castbed_lamport.packets import Ack, Data

EARLY_MAX = 4096  # packets of one sender that may wait for an earlier one: far beyond any reordering of a real air


class Line:
    """Takes packets as they arrive and gives them back by their numbers, without gap or repetition."""

    def __init__(self) -> None:
        self._next = 1
        self._early: dict[int, Data | Ack] = {}

    def take(self, packet: Data | Ack) -> Iterator[Data | Ack]:
        """Every packet that is in order now; a number that was seen already yields nothing."""
        if packet.number >= self._next + EARLY_MAX:
            raise PeerError(f"packet {packet.number} is too far ahead, {self._next} is next")
        if packet.number >= self._next:
            self._early.setdefault(packet.number, packet)
        return self._in_order()

    def _in_order(self) -> Iterator[Data | Ack]:
        while self._next in self._early:
            yield self._early.pop(self._next)
            self._next += 1
