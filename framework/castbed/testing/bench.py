"""A bench for plugin authors: machines of one protocol on a table, every copy of every packet in the test's hand.

    bench = Bench(PROTOCOL, ("A", "B", "C"))
    bench.submit("A", b"hello")
    copy = bench.in_flight[0]           # nothing arrives unless the test says so
    bench.arrive(copy)
    bench.settle()                      # ... or everything does, in order
    assert bench.delivered("B") == ["A1"]

Packets are encoded and decoded on the way, as on a network. The bench keeps a history, so that every check runs on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from castbed import actions as do
from castbed import topology as shapes
from castbed.actions import Action
from castbed.assembly import Chosen, choose
from castbed.context import Context
from castbed.declarations import Membership, Protocol
from castbed.errors import PeerError
from castbed.events import (
    Asked,
    Attached,
    Detached,
    Event,
    Expired,
    Received,
    Started,
    Submitted,
    TimerName,
    ViewChanged,
)
from castbed.history import History, Kind, LocalEvent, RunIdentity
from castbed.machine import Machine
from castbed.packets import Command, Notice, Packet
from castbed.parts.repair_layer import RepairOptions
from castbed.recording import local_event
from castbed.topology import Topology
from castbed.values import DEFAULT_GROUP, NOBODY, Group, Message, Mid, NodeNumber, View

SETTLE_STEPS_MAX = 100_000  # more than any test needs: two machines that answer each other for ever end here


class Copy(msgspec.Struct, frozen=True):
    """One copy of a packet on its way to one receiver."""

    serial: int
    sender: str
    to: str
    packet: Packet


class Bench:
    """Machines, the copies between them, their timers and their history, all driven by the test."""

    def __init__(
        self,
        protocol: Protocol,
        nodes: Topology | Sequence[str],
        variant: str | None = None,
        options: Any = None,
        membership: Membership | None = None,
        seed: int = 0,
        start: bool = True,
        repair: RepairOptions | None = None,
    ) -> None:
        self.topology = nodes if isinstance(nodes, Topology) else shapes.broadcast(tuple(nodes))
        self.chosen: Chosen = choose(protocol, variant, options, membership, repair)
        self.codec = self.chosen.codec()
        self.now = 0
        self.in_flight: list[Copy] = []
        self.timers: dict[tuple[str, TimerName], int] = {}
        self.notices: dict[str, list[Notice]] = {node.name: [] for node in self.topology.nodes}
        self.events: list[LocalEvent] = []
        self.machines: dict[str, Machine] = {}
        self.messages: dict[str, list[Message]] = {node.name: [] for node in self.topology.nodes}
        self._stored: dict[str, dict[str, bytes]] = {node.name: {} for node in self.topology.nodes}
        self._lives: dict[str, int] = {}
        self._cells: dict[NodeNumber, NodeNumber] = dict(self.topology.attached)
        self._away: set[str] = set()
        self._serial = 0
        self._seed = seed
        if start:
            for node in self.topology.nodes:
                self.start(node.name)

    # --- what a test does --------------------------------------------------------------------------------------------

    def start(self, node: str) -> Sequence[Action]:
        """Bring a node up (again): a new machine with what the old one persisted."""
        life = self._lives.get(node, -1) + 1
        self._lives[node] = life
        number = self.topology.number(node)
        stored = {key: msgspec.msgpack.decode(value) for key, value in self._stored[node].items()}
        random = Random(f"{self._seed}/{node}/{life}")
        self.machines[node] = self.chosen.machine(Context(number, self.topology, random, life, stored))
        self.events.append(LocalEvent(number, self.now, Kind.RESTART if life else Kind.START, number=int(bool(stored))))
        did = list(self.step(node, Started()))
        did += self._static_views(node, number)
        station = self._cells.get(number)
        return did + list(self.step(node, Attached(station))) if station else did

    def _static_views(self, node: str, number: NodeNumber) -> list[Action]:
        """Without a membership machine, the groups of the topology are the views."""
        if self.chosen.brings_views:
            return []
        did: list[Action] = []
        for group, members in self.topology.groups.items():
            if number in members:
                view = View(group, 0, members)
                self.events.append(LocalEvent(number, self.now, Kind.JOIN, group))
                self.events.append(LocalEvent(number, self.now, Kind.VIEW, group, members=members))
                did += self.step(node, ViewChanged(view))
        return did

    def crash(self, node: str, keep_storage: bool = True) -> None:
        """Stop a node: its machine, timers and the copies on their way to it are gone."""
        del self.machines[node]
        self.events.append(LocalEvent(self.topology.number(node), self.now, Kind.CRASH))
        self.timers = {key: due for key, due in self.timers.items() if key[0] != node}
        self.in_flight = [copy for copy in self.in_flight if copy.to != node]
        if not keep_storage:
            self._stored[node].clear()

    def submit(
        self,
        node: str,
        payload: bytes = b"",
        group: Group = DEFAULT_GROUP,
        parent: Mid | str | None = None,
        to: Sequence[str] | None = None,
    ) -> Mid | None:
        """Submit at a node; returns the identity, or None if the machine did not accept in this step."""
        answered = self.mid(parent) if isinstance(parent, str) else parent
        addressed = None if to is None else tuple(self.topology.number(name) for name in to)
        did = self.step(node, Submitted(Message(group=group, payload=payload, parent=answered, to=addressed)))
        return next((action.message.mid for action in did if isinstance(action, do.Accept)), None)

    def ask(self, node: str, command: Command) -> Sequence[Action]:
        return self.step(node, Asked(command))

    def arrive(self, copy: Copy) -> Sequence[Action]:
        """Let one copy arrive; a packet that the machine blames on its peer is dropped and recorded."""
        self.in_flight.remove(copy)
        return self.step(copy.to, Received(copy.packet, self.topology.number(copy.sender)))

    def arrive_all(self, wanted: Callable[[Copy], bool] = lambda copy: True) -> None:
        """Let the copies that are in flight now arrive, in order; what they cause stays in flight."""
        for copy in [copy for copy in self.in_flight if wanted(copy)]:
            self.arrive(copy)

    def settle(self, wanted: Callable[[Copy], bool] = lambda copy: True) -> None:
        """Let everything arrive, and what that causes, until nothing (wanted) is in flight. No timer runs out."""
        for _ in range(SETTLE_STEPS_MAX):
            copy = next((copy for copy in self.in_flight if wanted(copy)), None)
            if copy is None:
                return
            self.arrive(copy)
        raise AssertionError(f"still not settled after {SETTLE_STEPS_MAX} copies")

    def lose(self, wanted: Callable[[Copy], bool] = lambda copy: True) -> int:
        """Lose copies; returns how many."""
        before = len(self.in_flight)
        self.in_flight = [copy for copy in self.in_flight if not wanted(copy)]
        return before - len(self.in_flight)

    def copies(self, of: type[Packet] | None = None, sender: str | None = None, to: str | None = None) -> list[Copy]:
        """The copies in flight that match."""
        return [
            copy
            for copy in self.in_flight
            if (of is None or isinstance(copy.packet, of))
            and (sender is None or copy.sender == sender)
            and (to is None or copy.to == to)
        ]

    def expire(self, node: str, timer: TimerName) -> Sequence[Action]:
        """Let a running timer run out now (KeyError when it does not run)."""
        self.now = max(self.now, self.timers.pop((node, timer)))
        return self.step(node, Expired(timer))

    def run(self, duration: int) -> None:
        """Let time pass: everything in flight arrives at once, timers run out when due."""
        end = self.now + duration
        self.settle()
        while self.timers:
            (node, timer), due = min(self.timers.items(), key=lambda item: item[1])
            if due > end:
                break
            self.expire(node, timer)
            self.settle()
        self.now = end

    def move(self, host: str, station: str | None) -> None:
        """Take a host out of its cell and, if a station is given, into that one's cell."""
        number = self.topology.number(host)
        if self._cells.pop(number, None) is not None:
            self.events.append(LocalEvent(number, self.now, Kind.DETACH))
            self.step(host, Detached())
        if station is not None:
            self._cells[number] = self.topology.number(station)
            self.events.append(LocalEvent(number, self.now, Kind.ATTACH, peer=self._cells[number]))
            self.step(host, Attached(self._cells[number]))

    def away(self, node: str) -> None:
        """Out of range of the shared air: hears nothing but itself and is not heard."""
        self._away.add(node)
        self.events.append(LocalEvent(self.topology.number(node), self.now, Kind.DETACH))
        self.step(node, Detached())

    def back(self, node: str) -> None:
        """In range again."""
        self._away.discard(node)
        self.events.append(LocalEvent(self.topology.number(node), self.now, Kind.ATTACH))
        self.step(node, Attached(NOBODY))

    # --- what a test looks at ----------------------------------------------------------------------------------------

    def delivered(self, node: str) -> list[str]:
        """The messages delivered at a node, as text: `["B1", "A1"]`."""
        return [self.text(message.mid) for message in self.messages[node]]

    def text(self, mid: Mid | None) -> str:
        return "ROOT" if mid is None else mid.text(self.topology.name)

    def mid(self, text: str) -> Mid:
        """`B3` (or `B3~2`, or `h7.3`) as an identity."""
        body, _, life = text.partition("~")
        name, dot, number = body.rpartition(".")
        if not dot:
            name = body.rstrip("0123456789")
            number = body[len(name) :]
        return Mid(self.topology.number(name), int(number), int(life or 0))

    def history(self) -> History:
        topology = self.topology
        names, roles = zip(*((node.name, node.role) for node in topology.nodes), strict=True)
        chosen = self.chosen
        identity = RunIdentity(
            "bench", self._seed, chosen.protocol.name, chosen.variant_name, "bench", topology.model, names, roles,
            chosen.variant.guarantees,
        )  # fmt: skip
        return History(identity, self.events)

    # --- inside ------------------------------------------------------------------------------------------------------

    def step(self, node: str, event: Event) -> Sequence[Action]:
        """One step of one machine, with its actions carried out."""
        number = self.topology.number(node)
        try:
            did = self.machines[node].step(event, self.now)
        except PeerError as error:
            self.events.append(LocalEvent(number, self.now, Kind.DROP, text=str(error)))
            return ()
        for action in did:
            self._carry_out(node, number, action)
        return did

    def _carry_out(self, node: str, number: NodeNumber, action: Action) -> None:
        event = local_event(number, self.now, action)
        if event is not None:
            self.events.append(event)
        if isinstance(action, do.Deliver):
            self.messages[node].append(action.message)
        elif isinstance(action, do.Send):
            self._transmit(node, action.packet, (action.to,))
        elif isinstance(action, do.Multicast):
            self._transmit(node, action.packet, action.to)
        elif isinstance(action, do.Broadcast):
            self._transmit(node, action.packet, self._in_range(number))
        elif isinstance(action, do.SetTimer):
            self.timers[node, action.name] = self.now + action.delay
        elif isinstance(action, do.CancelTimer):
            self.timers.pop((node, action.name), None)
        elif isinstance(action, do.Persist):
            self._persist(node, action)
        elif isinstance(action, do.Tell):
            self.notices[node].append(action.notice)

    def _persist(self, node: str, action: do.Persist) -> None:
        if action.value is None:
            self._stored[node].pop(action.key, None)
        else:
            self._stored[node][action.key] = msgspec.msgpack.encode(action.value)

    def _in_range(self, number: NodeNumber) -> tuple[NodeNumber, ...]:
        """Who hears a broadcast. On the shared air everybody present, the sender included if its variant needs that."""
        if self.topology.model in ("cellular", "three_tier"):
            station = self._cells.get(number, number)
            cell = [host for host, at in self._cells.items() if at == station and host != number]
            return tuple(cell) + ((station,) if station != number else ())
        own = (number,) if "own_copy" in self.chosen.variant.needs else ()
        name = self.topology.name(number)
        others = (
            ()
            if name in self._away
            else tuple(
                node.number for node in self.topology.nodes if node.number != number and node.name not in self._away
            )
        )
        return tuple(sorted(own + others))

    def _transmit(self, sender: str, packet: Packet, to: Sequence[NodeNumber]) -> None:
        frame = self.codec.encode(packet, self.topology.number(sender))
        for receiver in to:
            name = self.topology.name(receiver)
            if name not in self.machines:
                continue
            self._serial += 1
            received, _ = self.codec.decode(frame)
            self.in_flight.append(Copy(self._serial, sender, name, received))
