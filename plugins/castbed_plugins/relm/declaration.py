"""The declaration of `relm`: what it needs of the network, and what it guarantees there."""

from __future__ import annotations

from castbed import Protocol, Variant
from castbed.commands import Join, Leave
from castbed_plugins.relm.bystander import Bystander
from castbed_plugins.relm.coordinator import Coordinator
from castbed_plugins.relm.host import Host
from castbed_plugins.relm.options import Options
from castbed_plugins.relm.packets import PACKETS
from castbed_plugins.relm.repaired import RepairedCoordinator
from castbed_plugins.relm.station import Station

NEEDS = frozenset(
    {
        "air",
        "wire",
        "reliable_wire",
        "fifo_wire",
        "no_crash",  # M6
        "no_absence",  # M5
    }
)
GUARANTEES = (
    "integrity",
    "no_duplication",  # M1
    "exactly_once",  # M1
    "agreement",  # M1
    "validity",  # M1
    "liveness",  # M1
    "fifo",  # M2
)
PUBLISHED = Variant(
    {"host": Host, "station": Station, "coordinator": Coordinator, "sequencer": Bystander},
    NEEDS,
    GUARANTEES,
    "RelM as the EOMP paper describes it, completed by readings: not the original",
)
REPAIRED = Variant(
    {**PUBLISHED.roles, "coordinator": RepairedCoordinator},
    NEEDS,
    GUARANTEES,
    "The same, and a new supervisor sends a host what it has and the host lacks",
)
PROTOCOL = Protocol(
    name="relm",
    summary="Reliable multicast to mobile hosts under supervisors: unicast per host, acks, forwarding at handoff",
    model="three_tier",
    paper="RelM: reliable multicast for mobile networks, in the reading of the EOMP paper (relm-eomp-reading)",
    packets=PACKETS,
    options=Options,
    commands=(Join, Leave),
    exercise={
        "topology": {
            "coordinators": 3,
            "stations": 4,
            "wire": {"delay": {"kind": "uniform", "low": "0ms", "high": "60ms"}},
        },
        "workload": {"kind": "steady", "rate": 10, "senders": ["C1", "C2", "C3"]},
        "mobility": {"dwell": {"kind": "exponential", "mean": "300ms"}},
    },
    variants={"repaired": REPAIRED, "published": PUBLISHED},
)
