"""Nodes and their processes as the controller knows them."""

from __future__ import annotations

import asyncio
import os

from castbed.links import NOWHERE, SHARED_AIR, Cell
from castbed.topology import Topology
from castbed.values import NodeNumber
from castbed_testbed.hosting.control import Channel

ALONE_MAX = 16  # nodes that have a process each; of more, the kernel would switch between processes most of the time
SHARED_PROCESSES_MIN = 2


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
