"""The names of packet types. A frame has numbers: one for the family, one for the kind within it."""

from __future__ import annotations

from collections.abc import Iterable

from castbed.packets import Packet, kind_of
from castbed.parts import cell_channel, repair_layer
from castbed.registry import Registry
from castbed.wire import family_number

Names = dict[tuple[int, int], str]


def kind_names(registry: Registry) -> Names:
    """The name of every packet type that is installed, by family and kind."""
    families: dict[str, Iterable[type[Packet]]] = {protocol.name: protocol.packets for protocol in registry.protocols}
    families |= {membership.name: membership.packets for membership in registry.memberships}
    families[cell_channel.FAMILY] = cell_channel.PACKETS
    families[repair_layer.FAMILY] = repair_layer.RepairLayer.PACKETS
    return {
        (family_number(name), kind_of(packet)): packet.__name__
        for name, packets in families.items()
        for packet in packets
    }


def kind_name(names: Names, family: int, kind: int) -> str:
    """The name, or the numbers of a type whose plugin is not installed."""
    return names.get((family, kind), f"kind {kind} of {family:#06x}")
