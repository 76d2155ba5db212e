"""Whether most of the core of a three-tier network is up at any time: the need `core_majority`, asked of a schedule.

The core is the sequencer and the coordinators. A node that comes back has to learn from the others what it lost with
its memory, so it counts as up only some time after its restart.
"""

from __future__ import annotations

from castbed.topology import Topology
from castbed.values import NodeNumber
from castbed_testbed.schedule import CrashNode, RestartNode, Schedule

CORE_ROLES = ("sequencer", "coordinator")
RECOVERY = 2_000_000_000
"""Nanoseconds between a restart and the time from which the node counts: several elections and a transfer."""


def core_of(topology: Topology) -> tuple[NodeNumber, ...]:
    """The sequencer and the coordinators; nobody in other models."""
    return tuple(number for role in CORE_ROLES for number in topology.numbers(role))


def majority_breaker(schedule: Schedule, topology: Topology) -> CrashNode | None:
    """The first crash after which at most half of the core is up."""
    core = core_of(topology)
    up_from = dict.fromkeys(core, 0)
    down: set[NodeNumber] = set()
    for happening in schedule.happenings:
        if happening.node not in up_from:
            continue
        if isinstance(happening, RestartNode) and happening.node in down:
            down.discard(happening.node)
            up_from[happening.node] = happening.at + RECOVERY
        elif isinstance(happening, CrashNode):
            down.add(happening.node)
            up = sum(node not in down and up_from[node] <= happening.at for node in core)
            if 2 * up <= len(core):
                return happening
    return None
