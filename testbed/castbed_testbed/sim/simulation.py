"""The host of simulated machines: lets events happen in virtual time and carries out what machines ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from castbed import actions as do
from castbed.actions import Action, Deliver
from castbed.application import Application, Wake
from castbed.context import Context
from castbed.errors import ContractError, PeerError
from castbed.events import Asked, Attached, Detached, Event, Expired, Started, ViewChanged
from castbed.history import Kind, LocalEvent
from castbed.recording import local_event
from castbed.values import View
from castbed_testbed.plan import Plan
from castbed_testbed.recorder import Recorder
from castbed_testbed.schedule import AskNode, BringBack, CrashNode, Happening, MoveNode, RestartNode, TakeAway
from castbed_testbed.sim.gsm_air import GsmTransmitter
from castbed_testbed.sim.kernel import Kernel
from castbed_testbed.sim.media import WIRED, Arrival, Flight
from castbed_testbed.sim.node import Cell, SimNode, Timer
from castbed_testbed.sim.places import Places
from castbed_testbed.sim.transmitter import Transmitter
from castbed_testbed.wishes import in_steps

STEPS_AT_ONE_TIME_MAX = 100_000  # an application that answers itself for ever within one instant ends here


class Simulation:
    """One run. Nodes are built at construction; `run` lets time pass."""

    def __init__(self, plan: Plan, recorder: Recorder) -> None:
        self.plan = plan
        self.kernel = Kernel()
        self.recorder = recorder
        self.effects: Counter[str] = Counter()
        self.delivered = 0
        self.submitted = 0
        self.dropped = 0
        topology = plan.topology
        self.nodes = [SimNode(n.number, n.name, n.role, recorder.appender(n.number)) for n in topology.nodes]
        radio = GsmTransmitter if plan.experiment.topology.air.backend == "gsm" else Transmitter
        self.transmitter = radio(plan, self.nodes, self.kernel, recorder, self.effects, self._arrive)
        self._places = Places(topology, self.nodes)
        self._keeps_frames = any(node.append is not None for node in self.nodes)
        self._keeps_events = recorder.keeps_events
        self._heard = recorder.heard
        self._do: dict[type[Action], Callable[[SimNode, Any], None]] = {
            do.Deliver: self._deliver,
            do.Send: self.transmitter.send,
            do.Multicast: self.transmitter.multicast,
            do.Broadcast: self.transmitter.broadcast,
            do.SetTimer: self._set_timer,
            do.CancelTimer: self._cancel_timer,
            do.Accept: self._accept,
            do.Refuse: self._refuse,
            do.Persist: self._persist,
            do.Join: self._join,
            do.Leave: self._leave,
            do.Tell: self._tell,
            do.Hold: self._record,
            do.Install: self._record,
            do.Note: self._record,
            do.Gauge: self._record,
        }

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """From the start of all nodes to the end of the experiment."""
        for node in self.nodes:
            self._places.enter(node)
        for node in self.nodes:
            self._start(node)
        self.kernel.in_turn(self.plan.schedule.happenings, _time_of, self._happen)
        self.kernel.run(self.plan.end, lambda now: self._pause(now, progress))
        for node in self.nodes:
            if node.up:
                self._event(node, Kind.STOP)

    def _pause(self, now: int, progress: Callable[[int], None] | None) -> None:
        self.recorder.breathe()
        if progress is not None:
            progress(now)

    # --- lives -------------------------------------------------------------------------------------------------------

    def _start(self, node: SimNode, storage: bool = True) -> None:
        """Bring a node up, for the first time or again."""
        if not storage:
            node.stored.clear()
        node.life += 1
        self.transmitter.came_up(node)
        stored = {key: msgspec.msgpack.decode(value) for key, value in node.stored.items()}
        random = self.plan.random(f"machine/{node.number}/{node.life}")
        context = Context(node.number, self.plan.topology, random, node.life, stored)
        node.boot(self.plan.chosen.machine(context), self.plan.applications(node.number, node.life))
        kind = Kind.RESTART if node.life else Kind.START
        self._event(node, kind, number=int(storage and node.life > 0))
        self._step(node, Started())
        self._static_groups(node)
        station = self._places.station(node.cell)
        if station and node.role == "host":
            self._event(node, Kind.ATTACH, peer=station)
            self._step(node, Attached(station))
        for program in node.programs:
            self._show(node, program, program.started)
        self._grant(node)

    def _static_groups(self, node: SimNode) -> None:
        """Where no membership says otherwise, the groups of the topology are the views."""
        if self.plan.chosen.brings_views:
            return
        for group, members in self.plan.topology.groups.items():
            if node.number in members:
                view = View(group, 0, members)
                self._join(node, do.Join(group))
                self._record(node, do.Install(view))
                self._step(node, ViewChanged(view))

    def _happen(self, happening: Happening) -> None:
        node = self.nodes[happening.node - 1]
        if isinstance(happening, CrashNode):
            took_effect = self._crash(node)
        elif isinstance(happening, RestartNode):
            took_effect = self._restart(node, happening)
        elif isinstance(happening, MoveNode):
            took_effect = self._move(node, self._places.cell(happening.station))
        elif isinstance(happening, TakeAway):
            node.before = node.home or node.before
            took_effect = self._move(node, None)
        elif isinstance(happening, BringBack):
            took_effect = node.home is None and self._move(node, node.before)
        else:
            assert isinstance(happening, AskNode)
            took_effect = node.up
            if node.up:
                self._step(node, Asked(happening.command))
        if happening.fault:
            self.effects[happening.fault] += took_effect

    def _crash(self, node: SimNode) -> bool:
        if not node.up:
            return False
        self.transmitter.went_down(node)
        self._places.leave(node)
        node.halt()
        self._event(node, Kind.CRASH)
        return True

    def _restart(self, node: SimNode, restart: RestartNode) -> bool:
        if node.up:
            return False
        self._places.enter(node)
        self._start(node, restart.storage)
        return True

    def _move(self, node: SimNode, target: Cell | None) -> bool:
        """Take the node out of where it is and, unless the target is None, into the target."""
        if target is node.home:
            return False
        if node.home is not None and node.up:
            self._places.leave(node)
            self.transmitter.went_away(node)
            self._event(node, Kind.DETACH)
            self._step(node, Detached())
        node.home = target
        if target is not None and node.up:
            self._places.enter(node)
            station = self._places.station(target)
            self._event(node, Kind.ATTACH, peer=station)
            self._step(node, Attached(station))
        return True

    # --- steps -------------------------------------------------------------------------------------------------------

    def _step(self, node: SimNode, event: Event) -> None:
        try:
            actions = node.step(event, self.kernel.now)
        except PeerError as error:
            self._drop(node, error)
            return
        if actions:
            self._perform(node, actions)

    def _arrive(self, arrival: Arrival) -> None:
        """One transmission reaches everybody who hears it at this time.

        This is the hot path: deliveries that no program listens to take no further call here.
        """
        flight, receivers = arrival
        cell, event, now, act = flight.cell, flight.event, self.kernel.now, self._do
        record = self.recorder.deliver if self._keeps_events else None
        block = None
        if self._keeps_frames:
            block = flight.block(now, outgoing=False)
            self.recorder.appended(len(block) * len(receivers))
        if self._heard is not None:
            self._heard(flight, receivers, now)
        delivered = 0
        for node in receivers:
            if node.cell is not cell and not self._still_hears(node, flight):
                continue
            if block is not None:
                node.append(block)  # type: ignore[misc]  # a block is made only where nodes have captures
            try:
                actions = node.step(event, now)
            except PeerError as error:
                self._drop(node, error)
                continue
            for action in actions:
                if action.__class__ is Deliver and not node.listeners:
                    delivered += 1
                    if record is not None:
                        record(node.number, now, action)
                else:
                    act[action.__class__](node, action)
            if node.stirred:
                self._grant(node)
        self.delivered += delivered

    def _still_hears(self, node: SimNode, flight: Flight) -> bool:
        """Wires reach whoever is up; one's own transmission is always heard; others have to be in the cell."""
        return node.up and (flight.cell is WIRED or node is flight.sender)

    def _drop(self, node: SimNode, error: PeerError) -> None:
        self.dropped += 1
        self._event(node, Kind.DROP, text=str(error))

    def _perform(self, node: SimNode, actions: Sequence[Action]) -> None:
        act = self._do
        for action in actions:
            act[action.__class__](node, action)
        if node.stirred:
            self._grant(node)

    # --- what machines ask for ---------------------------------------------------------------------------------------

    def _record(self, node: SimNode, action: Action) -> None:
        if not self._keeps_events:
            return
        event = local_event(node.number, self.kernel.now, action)
        assert event is not None
        self.recorder.event(event)

    def _event(self, node: SimNode, kind: Kind, **more: Any) -> None:
        self.recorder.event(LocalEvent(node.number, self.kernel.now, kind, **more))

    def _deliver(self, node: SimNode, action: do.Deliver) -> None:
        self.delivered += 1
        if self._keeps_events:
            self.recorder.deliver(node.number, self.kernel.now, action)
        for program in node.listeners:
            self._show(node, program, program.delivered, action.message)

    def _accept(self, node: SimNode, action: do.Accept) -> None:
        self.submitted += 1
        self._record(node, action)
        for program in node.programs:
            self._show(node, program, program.accepted, action.message)

    def _refuse(self, node: SimNode, action: do.Refuse) -> None:
        self._record(node, action)
        for program in node.programs:
            self._show(node, program, program.refused, action.message, action.reason)

    def _join(self, node: SimNode, action: do.Join) -> None:
        self._record(node, action)
        self.transmitter.joined(node, action.group)
        for program in node.programs:
            self._show(node, program, program.joined, action.group)

    def _leave(self, node: SimNode, action: do.Leave) -> None:
        self._record(node, action)
        self.transmitter.left(node, action.group)
        for program in node.programs:
            self._show(node, program, program.left, action.group)

    def _tell(self, node: SimNode, action: do.Tell) -> None:
        for program in node.programs:
            self._show(node, program, program.told, action.notice)

    def _persist(self, node: SimNode, action: do.Persist) -> None:
        if action.value is None:
            node.stored.pop(action.key, None)
        else:
            node.stored[action.key] = msgspec.msgpack.encode(action.value)

    def _set_timer(self, node: SimNode, action: do.SetTimer) -> None:
        if action.delay < 0:
            raise ContractError(f"{node.name} set the timer {action.name!r} into the past")
        start = self.kernel.now
        if action.when_sent:
            start = max(start, self.transmitter.air_free(node))
        due = start + action.delay
        node.timers[action.name] = timer = Timer(node, action.name)
        self.kernel.at(due, self._expire, timer)

    def _expire(self, timer: Timer) -> None:
        node, name = timer.node, timer.name
        if node.timers.get(name) is timer:
            del node.timers[name]
            self._step(node, Expired(name))

    def _cancel_timer(self, node: SimNode, action: do.CancelTimer) -> None:
        node.timers.pop(action.name, None)

    # --- programs ----------------------------------------------------------------------------------------------------

    def _show(self, node: SimNode, program: Application, handler: Callable[..., None], *what: Any) -> None:
        program.now = self.kernel.now
        handler(*what)
        node.stirred = True

    def _grant(self, node: SimNode) -> None:
        """Carry out what programs wish, and what they wish because of that, before anything else happens."""
        if node.granting:
            return
        node.granting = True
        for _ in range(STEPS_AT_ONE_TIME_MAX):
            node.stirred = False
            wished = [(program, program.take_wishes()) for program in node.programs]
            if not any(wishes for _, wishes in wished):
                node.granting = False
                return
            for program, wishes in wished:
                for step in in_steps(wishes, node.name):
                    if isinstance(step, Wake):
                        self._wake_later(node, program, step)
                    else:
                        self._step(node, step)
        raise ContractError(f"an application on {node.name} never stops answering itself")

    def _wake_later(self, node: SimNode, program: Application, wish: Wake) -> None:
        self.kernel.at(self.kernel.now + wish.delay, self._wake, (node, node.life, program, wish.name))

    def _wake(self, wake: tuple[SimNode, int, Application, Any]) -> None:
        node, life, program, name = wake
        if node.up and node.life == life:
            self._show(node, program, program.woken, name)
            self._grant(node)


def _time_of(happening: Happening) -> int:
    return int(happening.at)  # plain, because histories keep it
