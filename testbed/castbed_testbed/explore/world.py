"""A small, fast host in which nothing happens unless somebody chooses it: every step is a method of `World`.

Time is virtual and only grows: a step takes one tick, a timer moves time on to when it is due. What is on its way takes
as long as whoever chooses wants. `trace` keeps what was chosen, so that the same world can be made again.
"""

from __future__ import annotations

from random import Random

import msgspec

from castbed import actions as do
from castbed.context import Context
from castbed.errors import ConfigurationError, ContractError
from castbed.events import Asked, Attached, Detached, Started, Submitted, TimerName, ViewChanged
from castbed.history import Kind
from castbed.machine import Machine
from castbed.packets import Command
from castbed.values import NOBODY, Group, Message, Mid, NodeNumber, View
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.table import (
    NO_CHANNELS,
    TICK,
    Channel,
    Copy,
    Operation,
    RestlessError,
    StumbledError,
    Table,
)

__all__ = ["Channel", "Copy", "Operation", "RestlessError", "StumbledError", "World"]


class World(Table):
    """Machines that have started, and everything that may happen to them."""

    def __init__(self, arena: Arena) -> None:
        super().__init__(arena)
        self._begin()

    def _begin(self) -> None:
        for number in self.arena.numbers:
            self._start(number)
        self._arrive_all()  # what nodes say when they start: exploration begins where everybody knows of the others

    # --- what may be chosen ------------------------------------------------------------------------------------------

    def submit(self, node: NodeNumber, name: str, group: Group, parent: Mid | None = None) -> None:
        self.trace.append(("submit", node, name, group, parent))
        self._tick()
        self._step(node, Submitted(Message(group=group, payload=name.encode(), parent=parent)))

    def ask(self, node: NodeNumber, command: Command) -> None:
        """Ask for something; what the protocol objects to never happened."""
        self.trace.append(("ask", node, command))
        self._tick()
        try:
            self._step(node, Asked(command))
        except StumbledError as error:
            if not isinstance(error.error, ContractError):
                raise

    def receive(self, copy: Copy) -> None:
        self.trace.append(("receive", copy.serial))
        self.flying.remove(copy)
        self.now += TICK
        self._arrived(copy)

    def lose(self, copy: Copy) -> None:
        self.trace.append(("lose", copy.serial))
        self.flying.remove(copy)

    def duplicate(self, copy: Copy) -> None:
        """Have another copy of the same on its way, behind all others."""
        self.trace.append(("duplicate", copy.serial))
        self._fly(copy.sender, copy.to, copy.event, copy.wired)

    def fire(self, node: NodeNumber, timer: TimerName) -> None:
        self.trace.append(("fire", node, timer))
        self._expire(node, timer)

    def move(self, host: NodeNumber, station: NodeNumber) -> None:
        """Out of where it is and, unless the station is NOBODY, into the cell of that one (SHARED: the one air).

        What was on its way to it over the air is gone, except for what it said itself.
        """
        self.trace.append(("move", host, station))
        self._tick()
        if self.cells[host] != NOBODY:
            self.cells[host] = NOBODY
            self.flying = [copy for copy in self.flying if copy.to != host or copy.wired or copy.sender == host]
            self._event(host, Kind.DETACH)
            self._step(host, Detached())
        if station != NOBODY:
            self.cells[host] = station
            self._attached(host)

    def crash(self, node: NodeNumber) -> None:
        """Stop the node; what is on its way to it over wires waits for it."""
        self.trace.append(("crash", node))
        self._tick()
        self.machines[node] = None
        self.timers[node].clear()
        self.groups[node].clear()
        self.flying = [copy for copy in self.flying if copy.to != node or (copy.wired and copy.sender != node)]
        self._event(node, Kind.CRASH)

    def restart(self, node: NodeNumber, storage: bool) -> None:
        self.trace.append(("restart", node, storage))
        self._tick()
        if not storage:
            self.stored[node].clear()
        self._start(node, storage)

    def arrive(self, held_back: frozenset[Channel] = NO_CHANNELS) -> None:
        """Let everything arrive, and what that causes, except on channels that are held back; no timer runs out."""
        self.trace.append(("arrive", held_back))
        self._arrive_all(held_back)

    def pass_time(self) -> None:
        """Let everything arrive and every timer that runs now run out once, each with what it causes."""
        self.trace.append(("pass_time",))
        self._arrive_all()
        running = sorted(
            (due, node, place) for node in self.arena.numbers for place, due in enumerate(self.timers[node].values())
        )
        names = {node: list(self.timers[node]) for node in self.arena.numbers}
        for _, node, place in running:
            name = names[node][place]
            if name in self.timers[node]:
                self._expire(node, name)
                self._arrive_all()

    def again(self, operation: Operation) -> None:
        """Repeat what the trace of an equal world says."""
        what, *given = operation
        if what in ("receive", "lose", "duplicate"):
            given = [next(copy for copy in self.flying if copy.serial == given[0])]
        getattr(self, what)(*given)

    # --- what one may know to choose ---------------------------------------------------------------------------------

    def is_up(self, node: NodeNumber) -> bool:
        return self.machines[node] is not None

    def next_timer(self, node: NodeNumber) -> TimerName | None:
        """The timer of the node that runs out next, if one runs."""
        timers = self.timers[node]
        return min(timers, key=timers.__getitem__) if timers else None

    def oldest(self, copy: Copy) -> Copy:
        """The copy of the same channel and medium that was sent first and is still on its way."""
        for other in self.flying:
            if other.sender == copy.sender and other.to == copy.to and other.wired == copy.wired:
                return other
        return copy

    @property
    def progress(self) -> int:
        """Grows with everything that checks look at."""
        return len(self.events) - self.noted

    # --- lives and places --------------------------------------------------------------------------------------------

    def _start(self, node: NodeNumber, storage: bool = True) -> None:
        arena = self.arena
        life = self.lives[node] = self.lives[node] + 1
        stored = {key: msgspec.msgpack.decode(value) for key, value in self.stored[node].items()}
        random = Random((arena.seed << 20) + (life << 12) + node)
        self.machines[node] = self._made(Context(node, arena.topology, random, life, stored))
        self._event(node, Kind.RESTART if life else Kind.START, number=int(storage and life > 0))
        self._step(node, Started())
        if not arena.chosen.brings_views:
            self._static_groups(node)
        if self.cells[node] > 0 and node not in arena.topology.fixed:
            self._attached(node)

    def _made(self, context: Context) -> Machine:
        """The machine of a node; one that cannot even be made stumbles over its start."""
        try:
            return self.arena.chosen.machine(context)
        except ConfigurationError:
            raise
        except Exception as error:  # whatever a protocol raises is what is looked for
            raise StumbledError(context.me, Started(), error) from error

    def _static_groups(self, node: NodeNumber) -> None:
        """Where no membership says otherwise, the groups of the topology are the views."""
        for group, members in self.arena.topology.groups.items():
            if node in members:
                view = View(group, 0, members)
                self._join(node, do.Join(group))
                self._record(node, do.Install(view))
                self._step(node, ViewChanged(view))

    def _attached(self, host: NodeNumber) -> None:
        station = max(self.cells[host], NOBODY)
        self._event(host, Kind.ATTACH, peer=station)
        self._step(host, Attached(station))
