"""Nodes and their processes as the controller knows them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence

from castbed.errors import ConfigurationError
from castbed.links import NOWHERE, SHARED_AIR, Cell
from castbed.topology import Topology
from castbed.values import NodeNumber
from castbed_testbed.hosting.control import Channel
from castbed_testbed.plan import Plan
from castbed_testbed.schedule import CrashNode, Happening

ALONE_MAX = 16  # nodes that have a process each; of more, the kernel would switch between processes most of the time
SHARED_PROCESSES_MIN = 2
TOGETHER, AWAKE = "transport.options.together", "transport.options.awake"


class Resident:
    """A node as the controller knows it: where it is, whether it is up, and how it is reached."""

    def __init__(self, number: NodeNumber, home: Cell) -> None:
        self.number = number
        self.home = home
        self.before = home
        self.life = -1
        self.process: Process | None = None
        self.opened: asyncio.Future[object] | None = None
        self.linked: asyncio.Future[None] | None = None
        self.begun: asyncio.Future[None] | None = None
        self.reaches = False
        """Whether it was told whom to connect to; who is told later connects to it."""
        self.meanwhile: list[tuple[int, Happening]] | None = None
        """While it is being born again: what happens to it, which waits until it is there."""

    @property
    def up(self) -> bool:
        return self.process is not None


class Process:
    """A process of nodes, and our conversation with it."""

    def __init__(self, number: int, channel: Channel, residents: list[Resident]) -> None:
        self.number = number
        self.channel = channel
        self.residents = residents
        self.lives = {resident.number: resident.life for resident in residents}
        self.ended = False
        self.listening: asyncio.Task[None] | None = None


def home_of(topology: Topology, number: NodeNumber) -> Cell:
    """Where a node is at first: on the shared air, in a cell, or (a fixed node without an air) nowhere."""
    if topology.model == "broadcast":
        return SHARED_AIR
    station = topology.attached.get(number, number)
    return station if station in topology.numbers("station") else NOWHERE


def processes_for(nodes: int) -> int:
    """How many processes so many nodes share unless somebody says otherwise: one each, or one per core."""
    return nodes if nodes <= ALONE_MAX else max(SHARED_PROCESSES_MIN, len(os.sched_getaffinity(0)))


def households(plan: Plan) -> list[list[NodeNumber]]:
    """Who lives in one process: nodes that crash alone, others as the options say; a mistake there is named."""
    topology, options = plan.topology, plan.transport_options
    crash = {happening.node for happening in plan.schedule.happenings if isinstance(happening, CrashNode)}
    together = list(_named_together(topology, getattr(options, "together", ()), crash))
    placed = crash.union(*together)
    calm = [number for number in topology.numbers() if number not in placed]
    shares = getattr(options, "processes", None) or processes_for(len(calm))
    shared = (calm[at::shares] for at in range(min(shares, len(calm))))
    return [*([number] for number in sorted(crash)), *together, *shared]


def never_sleep(plan: Plan) -> frozenset[NodeNumber]:
    """The nodes whose processes stay awake; a mistake in the options is named."""
    topology, names = plan.topology, getattr(plan.transport_options, "awake", ())
    for name in names:
        if not topology.has(name):
            raise ConfigurationError(AWAKE, f"there is no node {name!r}")
    return frozenset(map(topology.number, names))


def _named_together(
    topology: Topology, wanted: Iterable[Sequence[str]], crash: set[NodeNumber]
) -> Iterator[list[NodeNumber]]:
    seen: set[str] = set()
    for names in wanted:
        for name in names:
            if not topology.has(name):
                raise ConfigurationError(TOGETHER, f"there is no node {name!r}")
            if name in seen:
                raise ConfigurationError(TOGETHER, f"{name} is named twice")
            if topology.number(name) in crash:
                raise ConfigurationError(TOGETHER, f"{name} crashes, and would take the others with it")
            seen.add(name)
        yield [topology.number(name) for name in names]
