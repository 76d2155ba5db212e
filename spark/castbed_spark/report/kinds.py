"""The names of packet types. A frame has numbers: one for the family, one for the kind within it."""

from __future__ import annotations

from castbed.dissector import packet_names
from castbed.registry import Registry
from castbed.wire import family_number

Names = dict[tuple[int, int], str]


def kind_names(registry: Registry) -> Names:
    """The name of every packet type that is installed, by family and kind."""
    return {
        (family_number(family), kind): name
        for family, kinds in packet_names(registry).items()
        for kind, name in kinds.items()
    }


def kind_name(names: Names, family: int, kind: int) -> str:
    """The name, or the numbers of a type whose plugin is not installed."""
    return names.get((family, kind), f"kind {kind} of {family:#06x}")
