"""The declaration of `eomp`: what it is, what it needs of the network, and what the paper claims."""

from __future__ import annotations

from castbed import Protocol, Variant
from castbed.commands import Join, Leave
from castbed_plugins.eomp.coordinator import Coordinator
from castbed_plugins.eomp.host import Host
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.packets import PACKETS
from castbed_plugins.eomp.sequencer import Sequencer
from castbed_plugins.eomp.station import Station

CLAIMED = (
    "integrity",  # E14
    "no_duplication",  # E2
    "agreement",  # E1, E8, E9
    "validity",  # E1
    "total",  # E3, which speaks of one group at a time (R20)
    "exactly_once",  # E1, E2
    "liveness",  # E1, E4, E9
)

PUBLISHED = Variant(
    {"host": Host, "station": Station, "coordinator": Coordinator, "sequencer": Sequencer},
    frozenset({"air", "wire", "reliable_wire", "fifo_wire"}),
    CLAIMED,
    "As in the paper: one-bit request numbers, one retransmission per report",
)
PROTOCOL = Protocol(
    "eomp",
    "Exactly once, totally ordered multicast to hosts that move between cells, out of range and back",
    "three_tier",
    PACKETS,
    {"published": PUBLISHED},
    paper="EOMP: an exactly once multicast protocol for distributed mobile systems",
    options=Options,
    commands=(Join, Leave),
)
