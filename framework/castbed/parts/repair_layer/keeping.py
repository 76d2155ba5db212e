"""The packets that a node keeps to resend them: bounded in number and in bytes, the oldest go first."""

from __future__ import annotations

import msgspec

from castbed.parts.repair_layer.options import RepairOptions
from castbed.parts.repair_layer.packets import AnyCarried, Place, Source

PACKET_BYTES = 64  # what a kept packet costs besides its payload and its body, about


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A packet and when it was sent, as far as this node can tell: not before that time."""

    packet: AnyCarried
    at: int


class Keeping:
    """Packets by place, in the order of arrival."""

    def __init__(self, options: RepairOptions, own: Source) -> None:
        self.own_gone = 0
        """The highest number of the node's own packets that is no longer kept."""
        self._own = own
        self._options = options
        self._kept: dict[Place, Kept] = {}
        self._bytes = 0

    def keep(self, packet: AnyCarried, at: int) -> None:
        self._kept[packet.writer, packet.life, packet.number] = Kept(packet, at)
        self._bytes += _size(packet)
        while len(self._kept) > self._options.history_max or self._bytes > self._options.history_bytes_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        place = next(iter(self._kept))
        self._bytes -= _size(self._kept.pop(place).packet)
        if place[:2] == self._own:
            self.own_gone = place[2]

    def find(self, place: Place) -> Kept | None:
        return self._kept.get(place)

    def __len__(self) -> int:
        return len(self._kept)


def _size(packet: AnyCarried) -> int:
    return PACKET_BYTES + len(packet.payload) + len(packet.inner)
