"""The declaration of `eomp`: what it is, what it needs of the network, and what the paper claims."""

from __future__ import annotations

from castbed import Protocol, Variant
from castbed.commands import Join, Leave
from castbed.parts import ReplicatedLog
from castbed_plugins.eomp.coordinator import Coordinator
from castbed_plugins.eomp.host import Host
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.packets import PACKETS
from castbed_plugins.eomp.repaired import (
    REPAIRED_PACKETS,
    RepairedCoordinator,
    RepairedHost,
    RepairedSequencer,
    RepairedStation,
)
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
NETWORK = frozenset({"air", "wire", "reliable_wire", "fifo_wire"})

PUBLISHED = Variant(
    {"host": Host, "station": Station, "coordinator": Coordinator, "sequencer": Sequencer},
    NETWORK | {"hosts_up", "core_up"},  # A4, A2
    CLAIMED,
    "As in the paper: one-bit request numbers, one retransmission per report",
)
REPAIRED = Variant(
    {
        "host": RepairedHost,
        "station": RepairedStation,
        "coordinator": RepairedCoordinator,
        "sequencer": RepairedSequencer,
    },
    NETWORK | {"core_majority"},
    (*CLAIMED, "fifo", "acyclic_total"),
    "Any node may crash, every buffer is bounded, one order over all groups, batches for who lacks much",
)
PROTOCOL = Protocol(
    "eomp",
    "Exactly once, totally ordered multicast to hosts that move between cells, out of range and back",
    "three_tier",
    (*PACKETS, *REPAIRED_PACKETS, *ReplicatedLog.PACKETS),
    {"repaired": REPAIRED, "published": PUBLISHED},
    paper="EOMP: an exactly once multicast protocol for distributed mobile systems",
    options=Options,
    commands=(Join, Leave),
)
