"""The inner half of a world: machines take steps, and what they ask for is carried out. Nothing is chosen here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from castbed import actions as do
from castbed.actions import Action
from castbed.errors import CastbedError, ContractError, PeerError
from castbed.events import Event, Expired, Received, TimerName
from castbed.history import History, Kind, LocalEvent
from castbed.machine import Machine
from castbed.packets import Notice, Packet
from castbed.recording import local_event
from castbed.values import NOBODY, Group, Message, Mid, NodeNumber
from castbed_testbed.explore.arena import Arena

TICK = 1_000  # nanoseconds; no two steps share a moment, because checks take one moment for one step
ARRIVALS_MAX = 4_000  # at one go, many times what the largest network here needs: beyond, there is no end
Operation = tuple[Any, ...]
Channel = tuple[NodeNumber, NodeNumber]
NO_CHANNELS: frozenset[Channel] = frozenset()


class StumbledError(CastbedError):
    """A machine raised what no machine may raise; `event` is what it was shown."""

    def __init__(self, node: NodeNumber, event: Event, error: Exception) -> None:
        super().__init__(f"{type(error).__name__} ({error})")
        self.node = node
        self.event = event
        self.error = error

    @property
    def kind(self) -> str:
        """How this breaks the contract."""
        return f"raises-{type(self.error).__name__}"

    @property
    def words(self) -> str:
        return f"raises {self}"


class RestlessError(StumbledError):
    """Machines go on for ever, each step the cause of the next; `event` is the last that was shown to one of them."""

    def __init__(self, node: NodeNumber, event: Event, limit: str) -> None:
        super().__init__(node, event, RuntimeError(limit))
        self.limit = limit

    kind = "never-rests"

    @property
    def words(self) -> str:
        return f"still has something to do after {self.limit}: it never comes to rest"


class Copy:
    """One copy of a packet on its way to one receiver."""

    __slots__ = ("event", "packet", "sender", "serial", "to", "wired")

    def __init__(self, serial: int, sender: NodeNumber, to: NodeNumber, event: Received, wired: bool) -> None:
        self.serial = serial
        self.sender = sender
        self.to = to
        self.event = event
        self.wired = wired
        self.packet: Packet = event.first


class Table:
    """The machines of an arena, the copies between them, their timers, where they are, and their history."""

    def __init__(self, arena: Arena) -> None:
        size = arena.size
        self.arena = arena
        self.now = 0
        self.events: list[LocalEvent] = []
        self.trace: list[Operation] = []
        self.flying: list[Copy] = []
        self.copies = 0
        self.machines: list[Machine | None] = [None] * size
        self.timers: list[dict[TimerName, int]] = [{} for _ in range(size)]
        self.stored: list[dict[str, bytes]] = [{} for _ in range(size)]
        self.lives = [-1] * size
        self.cells = list(arena.cells)
        self.groups: list[set[Group]] = [set() for _ in range(size)]
        self.delivered: list[list[Message]] = [[] for _ in range(size)]
        self.told: list[list[tuple[Notice, frozenset[Group]]]] = [[] for _ in range(size)]  # and its groups then
        self.accepted: dict[str, tuple[Group, Mid]] = {}
        self.noted = 0

    def history(self) -> History:
        return History(self.arena.identity, self.events)

    # --- steps -------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.now += TICK

    def _arrived(self, copy: Copy) -> None:
        self._step(copy.to, copy.event)

    def _step(self, node: NodeNumber, event: Event) -> None:
        machine = self.machines[node]
        assert machine is not None
        try:
            actions: Sequence[Action] = machine.step(event, self.now)
        except PeerError as error:
            self.noted += 1
            self._event(node, Kind.DROP, text=str(error))
            return
        except Exception as error:  # whatever a protocol raises is what is looked for
            raise StumbledError(node, event, error) from error
        for action in actions:
            _DO.get(action.__class__, Table._other)(self, node, action)

    def _expire(self, node: NodeNumber, timer: TimerName) -> None:
        due = self.timers[node].pop(timer)
        self.now = max(self.now + TICK, due)
        self._step(node, Expired(timer))

    def _arrive_all(self, held_back: frozenset[Channel] = NO_CHANNELS) -> None:
        for _ in range(ARRIVALS_MAX):
            copy = self._next_arrival(held_back)
            if copy is None:
                return
            self.flying.remove(copy)
            self.now += TICK
            self._arrived(copy)
        if copy is not None:
            raise RestlessError(copy.to, copy.event, f"{ARRIVALS_MAX} arrivals")

    def _next_arrival(self, held_back: frozenset[Channel]) -> Copy | None:
        for copy in self.flying:
            if (copy.sender, copy.to) not in held_back and self.machines[copy.to] is not None:
                return copy
        return None

    # --- what machines ask for ---------------------------------------------------------------------------------------

    def _event(self, node: NodeNumber, kind: Kind, **more: Any) -> None:
        self.events.append(LocalEvent(node, self.now, kind, **more))

    def _record(self, node: NodeNumber, action: Action) -> None:
        event = local_event(node, self.now, action)
        assert event is not None
        self.events.append(event)

    def _other(self, node: NodeNumber, action: Action) -> None:
        """What says something to captures at most: it is recorded and means nothing here."""
        event = local_event(node, self.now, action)
        if event is not None:
            self.noted += 1
            self.events.append(event)

    def _accept(self, node: NodeNumber, action: do.Accept) -> None:
        message = action.message
        self.accepted[message.payload.decode(errors="replace")] = message.group, message.mid
        self._record(node, action)

    def _deliver(self, node: NodeNumber, action: do.Deliver) -> None:
        self.delivered[node].append(action.message)
        self._record(node, action)

    def _join(self, node: NodeNumber, action: do.Join) -> None:
        self.groups[node].add(action.group)
        self._record(node, action)

    def _leave(self, node: NodeNumber, action: do.Leave) -> None:
        self.groups[node].discard(action.group)
        self._record(node, action)

    def _set_timer(self, node: NodeNumber, action: do.SetTimer) -> None:
        self.timers[node].pop(action.name, None)  # so that equal times stay in the order of setting
        self.timers[node][action.name] = self.now + action.delay

    def _cancel_timer(self, node: NodeNumber, action: do.CancelTimer) -> None:
        self.timers[node].pop(action.name, None)

    def _persist(self, node: NodeNumber, action: do.Persist) -> None:
        if not self.arena.keeps_storage:
            return
        if action.value is None:
            self.stored[node].pop(action.key, None)
        else:
            self.stored[node][action.key] = msgspec.msgpack.encode(action.value)

    def _tell(self, node: NodeNumber, action: do.Tell) -> None:
        self.told[node].append((action.notice, frozenset(self.groups[node])))

    # --- what travels ------------------------------------------------------------------------------------------------

    def _broadcast(self, node: NodeNumber, action: do.Broadcast) -> None:
        event = Received(action.packet, node)
        self._transmitted(event, NOBODY, False)
        cell, cells, machines = self.cells[node], self.cells, self.machines
        for other in self.arena.numbers:
            if other == node:
                if self.arena.own_copy:
                    self._fly(node, node, event, False)
            elif cell and cells[other] == cell and machines[other] is not None:
                self._fly(node, other, event, False)

    def _send(self, node: NodeNumber, action: do.Send) -> None:
        self._copies(node, action.packet, (action.to,))

    def _multicast(self, node: NodeNumber, action: do.Multicast) -> None:
        self._copies(node, action.packet, action.to)

    def _copies(self, node: NodeNumber, packet: Packet, to: Sequence[NodeNumber]) -> None:
        """Over wires where there are any (and to oneself), in one transmission on the air for all others."""
        event, wired = Received(packet, node), self.arena.topology.wired
        on_air = []
        for number in to:
            if not 0 < number < self.arena.size:
                error = ContractError(f"{type(packet).__name__} was sent to node {number}, which does not exist")
                raise StumbledError(node, event, error)
            if number == node or wired(node, number):
                self._transmitted(event, number, True)
                self._fly(node, number, event, True)
            else:
                on_air.append(number)
        if on_air:
            self._over_air(node, event, on_air)

    def _over_air(self, node: NodeNumber, event: Received, to: list[NodeNumber]) -> None:
        self._transmitted(event, to[0] if len(to) == 1 else NOBODY, False)
        cell = self.cells[node]
        for number in to:
            if cell and self.cells[number] == cell and self.machines[number] is not None:
                self._fly(node, number, event, False)

    def _transmitted(self, event: Received, to: NodeNumber, wired: bool) -> None:
        """For worlds that keep frames."""

    def _fly(self, sender: NodeNumber, to: NodeNumber, event: Received, wired: bool) -> None:
        self.copies = serial = self.copies + 1
        self.flying.append(Copy(serial, sender, to, event, wired))


_DO: dict[type[Action], Callable[[Table, NodeNumber, Any], None]] = {
    do.Deliver: Table._deliver,
    do.Send: Table._send,
    do.Multicast: Table._multicast,
    do.Broadcast: Table._broadcast,
    do.SetTimer: Table._set_timer,
    do.CancelTimer: Table._cancel_timer,
    do.Accept: Table._accept,
    do.Refuse: Table._record,
    do.Persist: Table._persist,
    do.Join: Table._join,
    do.Leave: Table._leave,
    do.Tell: Table._tell,
    do.Hold: Table._record,
    do.Install: Table._record,
}
