"""One life of one node: its machine, its programs and its timers, on real links. The simulator's rules, in real time.

Everything that happens here begins at one of the doors: something was heard, something is due, or the controller said
so. When a door closes, the capture is written, then the storage, and only then anything is sent: a node that is killed
leaves a capture and a storage that know of everything that anybody else may have heard of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any

from msgspec.structs import replace

from castbed import actions as do
from castbed.actions import Accept, Action, Deliver, Persist
from castbed.authentication import SealedCodec, place
from castbed.capture import AIR, WIRE, event_block, frame_block
from castbed.context import Context
from castbed.errors import ContractError, PeerError, UnavailableError
from castbed.events import (
    Asked,
    Attached,
    Detached,
    Event,
    Expired,
    Received,
    Started,
    TimerName,
    ViewChanged,
)
from castbed.history import Kind, LocalEvent
from castbed.links import NOWHERE, Arrival, Cell, Links, Network
from castbed.packets import Command, Packet
from castbed.recording import delivered, local_event
from castbed.values import NOBODY, NodeNumber, View
from castbed.wire import ETHERNET_BYTES, ethernet_frame
from castbed_testbed.hosting.agenda import Agenda
from castbed_testbed.hosting.capturing import LiveCapture
from castbed_testbed.hosting.clock import Clock
from castbed_testbed.hosting.control import Counts
from castbed_testbed.hosting.impairment import Impairment
from castbed_testbed.hosting.outlet import Outlet
from castbed_testbed.hosting.programs import Programs
from castbed_testbed.hosting.storage import Storage
from castbed_testbed.plan import Plan

HELD_BYTES_MAX = 1 << 28  # of packets that wires, or cuts of them, let through later: memory is not endless


class Life:
    """A node from its start to its end."""

    def __init__(
        self,
        plan: Plan,
        me: NodeNumber,
        number: int,
        cell: Cell,
        links: Links,
        clock: Clock,
        capture: LiveCapture | None,
        storage: Storage,
        network: Network,
    ) -> None:
        self.plan, self.me, self.number, self.cell = plan, me, number, cell
        self.links, self.clock, self.capture, self.storage = links, clock, capture, storage
        self.counts = Counts()
        self.now = 0
        faults, blocks = plan.experiment.faults, plan.schedule.blocks
        wire = plan.experiment.topology.wire if network.emulates_wires else None
        on_air = plan.random(f"air/{me}/{number}")
        self.impairment = Impairment(me, faults, blocks, on_air, network.strikes_air, wire)
        codec = plan.codec(number, monotonic_ns)
        self._decode = codec.decode
        self._seals = codec if isinstance(codec, SealedCodec) else None
        self._listens_since = self._in_cell_since = monotonic_ns() if number else 0
        """What was sealed before, on wires and on the air, was for others."""
        self._nodes = len(plan.topology.nodes)
        self._name = plan.topology.name(me)
        self._steps = self._submitted = self._delivered = 0
        self._is_over = False
        own_copy = "own_copy" in plan.chosen.variant.needs
        keep = None if capture is None else capture.append
        self._keep = keep
        self._heads: dict[tuple[NodeNumber, NodeNumber], bytes] = {}
        rate = plan.experiment.topology.air.rate if network.shapes_air else 0
        self._outlet = Outlet(self, plan.topology, codec, links, keep, own_copy, self._too_large, rate)
        self._outlet.cell = cell
        self._agenda = Agenda(clock.now, self._close_door)
        random = plan.random(f"machine/{me}/{number}")
        context = Context(me, plan.topology, random, number, dict(storage.values))
        self._step_machine = plan.chosen.machine(context).step
        self._programs = Programs(plan.applications(me, number), self._name, self, self._agenda, links)
        self._listeners = self._programs.listeners
        self._hearers = [listener.delivered for listener in self._listeners] if keep is None else None
        self._accepts_quietly = keep is None and not self._programs.senders
        self._timers: dict[TimerName, int] = {}
        """The timers that run, each with its number in the agenda."""
        self._waiting: dict[NodeNumber, int] = {}
        self._held_bytes = 0
        self._pending = storage.pending
        self._do: dict[type[Action], Callable[[Any], None]] = {
            Deliver: self._deliver,
            do.Send: self._outlet.send,
            do.Multicast: self._outlet.multicast,
            do.Broadcast: self._outlet.broadcast,
            do.SetTimer: self._set_timer,
            do.CancelTimer: self._cancel_timer,
            Accept: self._accept,
            do.Refuse: self._refuse,
            do.Join: self._join,
            do.Leave: self._leave,
            do.Tell: self._tell,
        }
        """The other actions are records and nothing else, but for what `_perform` does itself."""

    # --- doors -------------------------------------------------------------------------------------------------------

    def start(self, kept: bool) -> None:
        """Begin; the first life of every node begins at time 0 exactly, whenever its process gets there."""
        self.now = 0 if self.number == 0 else self.clock.now()
        kind = Kind.RESTART if self.number else Kind.START
        self._event(kind, number=int(kept and self.number > 0))
        self.step(Started())
        self._static_groups()
        if self.cell > 0 and self.plan.topology.role(self.me) == "host":
            self._event(Kind.ATTACH, peer=self.cell)
            self.step(Attached(self.cell))
        self._programs.start()
        self._close_door()
        self.links.listen(self.heard)

    def heard(self, arrivals: Sequence[Arrival]) -> None:
        """Frames came in. This is the hot path: a frame that nothing strikes takes few calls."""
        if self._is_over:
            return
        clock, decode, step, perform = self.clock.now, self._decode, self._step_machine, self._perform
        me, nodes, keep, strikes, seals = self.me, self._nodes, self._keep, self.impairment.strikes, self._seals
        for arrival in arrivals:
            try:
                packet, sender = arrival.inside or (decode(arrival.frame) if seals is None else self._unsealed(arrival))
            except PeerError as error:
                self.links.counters[error.counter] += 1
                continue
            if sender > nodes or sender == me:
                self.links.counters["foreign"] += 1
                continue
            self.now = now = clock()
            event = Received(packet, sender)
            if strikes and not self._passes(arrival, event, sender):
                continue
            if keep is not None:
                self._capture(arrival, sender)
            try:
                actions = step(event, now)
            except PeerError as error:
                self._drop(error)
                continue
            self._steps += 1
            if actions:
                perform(actions)
        self._close_door()

    def move(self, target: Cell) -> None:
        """Leave the cell and, unless the target is NOWHERE, enter another."""
        self.tick()
        if self.cell != NOWHERE:
            self._tune(NOWHERE)
            self._event(Kind.DETACH)
            self.step(Detached())
        if target != NOWHERE:
            self._tune(target)
            self._event(Kind.ATTACH, peer=target)
            self.step(Attached(target))
        self._close_door()

    def ask(self, command: Command) -> None:
        """Have the protocol do something."""
        self.tick()
        self.step(Asked(command))
        self._close_door()

    def counted(self) -> Counts:
        """What this life has counted so far."""
        self.counts.steps, self.counts.frames = self._steps, self._outlet.frames
        self.counts.submitted, self.counts.delivered = self._submitted, self._delivered
        self.counts.effects = dict(self.impairment.effects)
        return self.counts

    def stop(self) -> None:
        """The run is over, and nothing more happens here."""
        self._is_over = True
        self._agenda.clear()
        self.tick()
        self._event(Kind.STOP)
        self._close_door()

    def _close_door(self) -> None:
        own = self._outlet.own
        while own:
            arrival, packet = own.popleft()
            self.now = max(self.now, self.clock.now())
            self._take(arrival, Received(packet, self.me))
        if self.capture is not None:
            self.capture.write()
        if self.storage.pending:
            self.storage.write()
        self.links.flush()

    # --- arrivals ----------------------------------------------------------------------------------------------------

    def _unsealed(self, arrival: Arrival) -> tuple[Packet, NodeNumber]:
        assert self._seals is not None
        if arrival.on_wire:
            return self._seals.decode(arrival.frame, place(True, NOWHERE, arrival.to), self._listens_since)
        return self._seals.decode(arrival.frame, place(False, self.cell, arrival.to), self._in_cell_since)

    def _passes(self, arrival: Arrival, event: Received, sender: NodeNumber) -> bool:
        """Whether the frame is taken now; otherwise it is lost, or comes later."""
        now = self.now
        if arrival.on_wire:
            size = len(arrival.frame) + ETHERNET_BYTES
            through = self.impairment.on_wire(sender, now, size)
            if through <= now and not self._waiting.get(sender):
                return True
            self._hold_back(sender, size)
            self._agenda.at(through, self._let_through, (arrival, event, sender, size))
            return False
        if not self.impairment.strikes_air:
            return True
        lags = self.impairment.on_air(sender, now)
        if lags == (0,):
            return True
        for lag in lags:
            self._agenda.at(now + lag, self._arrive_late, (replace(arrival, at=0), event, self.cell))
        return False

    def _hold_back(self, sender: NodeNumber, size: int) -> None:
        self._waiting[sender] = self._waiting.get(sender, 0) + 1
        self._held_bytes += size
        if self._held_bytes > HELD_BYTES_MAX:
            most = f"{self._name} holds back {HELD_BYTES_MAX} bytes that came over wires, and no more fits"
            raise UnavailableError(f"{most}; cut them for a shorter time, let them carry more, or send less")

    def _let_through(self, held: tuple[Arrival, Received, NodeNumber, int]) -> None:
        arrival, event, sender, size = held
        self._waiting[sender] -= 1
        self._held_bytes -= size
        self.tick()
        self._take(replace(arrival, at=0), event)

    def _arrive_late(self, late: tuple[Arrival, Received, Cell]) -> None:
        arrival, event, cell = late
        if cell == self.cell:
            self.tick()
            self._take(arrival, event)

    def _take(self, arrival: Arrival, event: Received) -> None:
        if self._keep is not None:
            self._capture(arrival, event.second)
        self.step(event)

    def _capture(self, arrival: Arrival, sender: NodeNumber) -> None:
        assert self._keep is not None
        to, at = arrival.to[0] if len(arrival.to) == 1 else NOBODY, arrival.at
        head = self._heads.get((sender, to))
        if head is None:
            head = self._heads[sender, to] = ethernet_frame(b"", sender, to)
        seen = self.clock.stamped(at, self.now) if at else self.now
        self._keep(frame_block(WIRE if arrival.on_wire else AIR, seen, head + arrival.frame, False))

    def _tune(self, cell: Cell) -> None:
        self.cell = self._outlet.cell = cell
        self._in_cell_since = monotonic_ns()
        self.links.tune(cell)

    # --- steps -------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """It is now."""
        self.now = self.clock.now()

    def step(self, event: Event) -> None:
        """Show the machine an event, and do what it asks for."""
        self._steps += 1
        try:
            actions = self._step_machine(event, self.now)
        except PeerError as error:
            self._drop(error)
            return
        if actions:
            self._perform(actions)

    def _perform(self, actions: Sequence[Action]) -> None:
        """Carry out what the machine asked for; what there is most of takes no call of ours."""
        act, record, pending, hearers = self._do, self._record, self._pending, self._hearers
        accepts_quietly, delivered, accepted = self._accepts_quietly, 0, 0
        for listener in self._listeners:
            listener.now = self.now
        for action in actions:
            if hearers is not None and isinstance(action, Deliver):
                delivered += 1
                for hear in hearers:
                    hear(action.message)
            elif isinstance(action, Persist):
                pending[action.key] = action.value
            elif accepts_quietly and isinstance(action, Accept):
                accepted += 1
            else:
                act.get(action.__class__, record)(action)
        self._submitted += accepted
        programs = self._programs
        if delivered:
            self._delivered += delivered
            programs.stirred = True
        if programs.stirred:
            programs.grant()

    def _drop(self, error: PeerError) -> None:
        self.counts.dropped += 1
        self._event(Kind.DROP, text=str(error))

    def _static_groups(self) -> None:
        """Where no membership says otherwise, the groups of the topology are the views."""
        if self.plan.chosen.brings_views:
            return
        for group, members in self.plan.topology.groups.items():
            if self.me in members:
                view = View(group, 0, members)
                self._join(do.Join(group))
                self._record(do.Install(view))
                self.step(ViewChanged(view))

    # --- what machines ask for ---------------------------------------------------------------------------------------

    def _record(self, action: Action) -> None:
        if self.capture is not None:
            event = local_event(self.me, self.now, action)
            assert event is not None, f"{type(action).__name__} is no action that this host knows"
            self.capture.event(event)

    def _event(self, kind: Kind, **more: Any) -> None:
        if self.capture is not None:
            self.capture.event(LocalEvent(self.me, self.now, kind, **more))

    def _too_large(self, words: str) -> None:
        self.counts.oversize += 1
        self._event(Kind.DROP, text=words)

    def _deliver(self, action: Deliver) -> None:
        """Of a node that is captured."""
        assert self._keep is not None
        self._delivered += 1
        self._keep(event_block(delivered(self.me, self.now, action)))
        for listener in self._listeners:
            listener.delivered(action.message)
            self._programs.stirred = True

    def _accept(self, action: Accept) -> None:
        self._submitted += 1
        if self._keep is not None:
            self._record(action)
        if self._programs.senders:
            self._programs.accepted(action.message)

    def _refuse(self, action: do.Refuse) -> None:
        self._record(action)
        self._programs.tell("refused", action.message, action.reason)

    def _join(self, action: do.Join) -> None:
        self._record(action)
        self._programs.tell("joined", action.group)

    def _leave(self, action: do.Leave) -> None:
        self._record(action)
        self._programs.tell("left", action.group)

    def _tell(self, action: do.Tell) -> None:
        self._programs.tell("told", action.notice)

    def _set_timer(self, action: do.SetTimer) -> None:
        if action.delay < 0:
            raise ContractError(f"{self._name} set the timer {action.name!r} into the past")
        name, timers, agenda = action.name, self._timers, self._agenda
        if name in timers:
            agenda.call_off(timers[name])
        start = max(self.now, self._outlet.air_free) if action.when_sent else self.now
        timers[name] = agenda.at(start + action.delay, self._expire, name)

    def _expire(self, name: TimerName) -> None:
        del self._timers[name]
        self.tick()
        self.step(Expired(name))

    def _cancel_timer(self, action: do.CancelTimer) -> None:
        serial = self._timers.pop(action.name, None)
        if serial is not None:
            self._agenda.call_off(serial)
