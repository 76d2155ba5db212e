"""A tiny world for a replicated log: FIFO wires between each pair of nodes, and all happens when the test says so.

A wire belongs to one life of its sender: what an earlier life sent may be overtaken by what the next one sends. Each
node has its own clock, which only its timers move: a timer runs out whenever the schedule picks it, so a leader is
suspected at any time, rightly or not. The state of a node's owner is the list of entries that it applied.
"""

from __future__ import annotations

from collections import deque
from random import Random

from castbed import topology as shapes
from castbed.actions import Action, CancelTimer, Multicast, Send, SetTimer
from castbed.context import Context
from castbed.errors import PeerError
from castbed.events import Event, Expired, Received, Started
from castbed.machine import Machine
from castbed.packets import Packet
from castbed.parts.replicated_log import LogOptions, ReplicatedLog, Status
from castbed.parts.replicated_log_packets import Suffix
from castbed.values import NodeNumber

BEAT, PATIENCE = 10, 35

Wire = tuple[NodeNumber, NodeNumber, int]
"""From, to, and the life of the sender."""


class Owner(Machine):
    """Keeps what is applied; a snapshot is all of it, one chunk per entry."""

    def __init__(self, context: Context, options: LogOptions) -> None:
        super().__init__(context, options)
        self.log = self.part("log", ReplicatedLog, options)
        self.log.apply = self._apply
        self.log.snapshot = lambda: tuple(self.applied)
        self.log.restore = self._restore
        self.applied: list[bytes] = []
        self.restored = 0

    def started(self) -> None:
        self.log.started()

    def _apply(self, op: int, entry: bytes) -> None:
        assert op == len(self.applied) + 1, "applied out of turn"
        self.applied.append(entry)

    def _restore(self, chunks: tuple[bytes, ...]) -> None:
        assert len(chunks) > len(self.applied), "restored something older"
        self.applied = list(chunks)
        self.restored += 1


class World:
    """Nodes 1 to `size`, of which at most a minority is down or recovering at any time."""

    def __init__(self, size: int, retained: int = 100, seed: int = 0) -> None:
        self.numbers = tuple(range(1, size + 1))
        self.options = LogOptions(self.numbers, beat=BEAT, patience=PATIENCE, retained=retained)
        self.topology = shapes.sites(tuple(f"n{number}" for number in self.numbers))
        self.random = Random(seed)
        self.nodes: dict[NodeNumber, Owner] = {}
        self.lives = dict.fromkeys(self.numbers, -1)
        self.clocks = dict.fromkeys(self.numbers, 0)
        self.timers: dict[tuple[NodeNumber, object], int] = {}
        self.wires: dict[Wire, deque[Packet]] = {}
        self.history: list[bytes] = []
        self.blamed: list[str] = []
        self.transcript: list[str] = []
        self.snapshots = 0
        for number in self.numbers:
            self.start(number)

    # --- what can happen ---------------------------------------------------------------------------------------------

    def start(self, number: NodeNumber) -> None:
        self.lives[number] += 1
        context = Context(number, self.topology, Random(self.random.random()), self.lives[number])
        self.nodes[number] = Owner(context, self.options)
        self.step(number, Started())

    def crash(self, number: NodeNumber) -> None:
        """What it sent last may be lost, but nothing in between; what was sent to it may reach its next life."""
        del self.nodes[number]
        self.timers = {key: due for key, due in self.timers.items() if key[0] != number}
        for (sender, to, _), wire in self.wires.items():
            if sender == number:
                for _ in range(self.random.randint(0, len(wire))):
                    wire.pop()
            elif to == number and self.random.random() < 0.7:
                wire.clear()

    def propose(self, number: NodeNumber, entry: bytes) -> bool:
        """As an owner would, within a step."""
        taken = self.nodes[number].log.propose(entry)
        self._carry_out(number, list(self.nodes[number]._actions))
        self.nodes[number]._actions.clear()
        return taken

    def deliver(self, sender: NodeNumber, to: NodeNumber, life: int | None = None) -> None:
        """The next packet on that wire, of the sender's latest life unless told."""
        packet = self.wires[sender, to, self.lives[sender] if life is None else life].popleft()
        if to in self.nodes:
            self.transcript.append(f"{sender}>{to} {shown(packet)}")
            self.step(to, Received(packet, sender))

    def expire(self, number: NodeNumber, timer: object) -> None:
        self.clocks[number] = max(self.clocks[number], self.timers.pop((number, timer)))
        self.step(number, Expired(timer))

    def step(self, number: NodeNumber, event: Event) -> None:
        node = self.nodes[number]
        before = node.restored
        try:
            did = node.step(event, self.clocks[number])
        except PeerError as error:
            self.blamed.append(f"{number}: {error}")
            return
        self.snapshots += node.restored - before
        self._carry_out(number, did)
        self._check(node)

    def _carry_out(self, number: NodeNumber, did: list[Action]) -> None:
        for action in did:
            if isinstance(action, Send):
                self._put(number, action.to, action.packet)
            elif isinstance(action, Multicast):
                for to in action.to:
                    self._put(number, to, action.packet)
            elif isinstance(action, SetTimer):
                self.timers[number, action.name] = self.clocks[number] + action.delay
            elif isinstance(action, CancelTimer):
                self.timers.pop((number, action.name), None)

    def _put(self, sender: NodeNumber, to: NodeNumber, packet: Packet) -> None:
        self.wires.setdefault((sender, to, self.lives[sender]), deque()).append(packet)

    def _check(self, node: Owner) -> None:
        """All that was ever applied anywhere is one sequence."""
        common = min(len(node.applied), len(self.history))
        assert node.applied[:common] == self.history[:common], f"node {node.me} applied something else"
        self.history += node.applied[common:]

    # --- schedules ---------------------------------------------------------------------------------------------------

    def busy_wires(self) -> list[Wire]:
        return [wire for wire, packets in self.wires.items() if packets]

    def impaired(self) -> int:
        """How many are down or have not recovered."""
        recovering = sum(node.log.status is Status.RECOVERING for node in self.nodes.values())
        return len(self.numbers) - len(self.nodes) + recovering

    def trouble(self, steps: int, crashes: float = 0.02, hurry: float = 0.06) -> None:
        """Anything that may happen, in any order."""
        random = self.random
        weights: dict[Wire, float] = {}
        for count in range(steps):
            chance = random.random()
            if chance < crashes:
                self._crash_or_restart()
            elif chance < crashes + hurry and self.timers:
                self.expire(*random.choice(sorted(self.timers, key=str)))
            elif chance < crashes + hurry + 0.2:
                self._propose_somewhere(b"%d" % count)
            elif busy := self.busy_wires():
                slow = [weights.setdefault(wire, random.random() ** 8) for wire in busy]
                self.deliver(*random.choices(busy, slow)[0])

    def _propose_somewhere(self, entry: bytes) -> None:
        leaders = [number for number, node in sorted(self.nodes.items()) if node.log.is_leader]
        if leaders:
            self.propose(self.random.choice(leaders), entry)

    def _crash_or_restart(self) -> None:
        down = [number for number in self.numbers if number not in self.nodes]
        if down and self.random.random() < 0.7:
            self.start(self.random.choice(down))
        elif self.impaired() < (len(self.numbers) - 1) // 2:
            self.crash(self.random.choice(sorted(self.nodes)))

    def peace(self, rounds: int = 400) -> None:
        """All are up, everything arrives soon, timers run out when they are due."""
        for number in self.numbers:
            if number not in self.nodes:
                self.start(number)
        clock = max(self.clocks.values())
        slack = {number: clock - own for number, own in self.clocks.items()}
        self.clocks = dict.fromkeys(self.numbers, clock)
        self.timers = {(number, name): due + slack[number] for (number, name), due in self.timers.items()}
        self.settle()
        for _ in range(rounds):
            if self._is_quiet():
                return
            (number, timer), due = min(self.timers.items(), key=lambda item: (item[1], str(item[0])))
            self.clocks = dict.fromkeys(self.numbers, max(due, clock))
            self.expire(number, timer)
            self.settle()

    def _is_quiet(self) -> bool:
        """All take part in the same view, with the same entries."""
        places = {(node.log.status, node.log.view, len(node.applied)) for node in self.nodes.values()}
        return len(places) == 1 and places.pop()[0] is Status.NORMAL

    def settle(self, without: tuple[NodeNumber, ...] = ()) -> None:
        """Everything arrives, and what that causes, except what these nodes send or should get."""
        while busy := [wire for wire in self.busy_wires() if wire[0] not in without and wire[1] not in without]:
            for wire in busy:
                self.deliver(*wire)

    def suspect(self, number: NodeNumber) -> None:
        """This node loses its patience."""
        self.expire(number, ("log", "patience"))

    def run(self, duration: int) -> None:
        """Time passes equally for all, everything arrives at once."""
        end = max(self.clocks.values()) + duration
        self.settle()
        while self.timers and (first := min(self.timers.values())) <= end:
            self.clocks = dict.fromkeys(self.numbers, first)
            self.expire(*min((key for key, due in self.timers.items() if due == first), key=str))
            self.settle()
        self.clocks = dict.fromkeys(self.numbers, end)

    # --- what a test looks at ----------------------------------------------------------------------------------------

    def log(self, number: NodeNumber) -> ReplicatedLog:
        return self.nodes[number].log

    def applied(self, number: NodeNumber) -> list[bytes]:
        return self.nodes[number].applied

    def check_peace(self) -> None:
        """One leader whom all follow, and everything that was ever committed applied everywhere; new entries too."""
        leaders = [number for number, node in self.nodes.items() if node.log.is_leader]
        assert len(leaders) == 1, {n: (o.log.view, o.log.status) for n, o in self.nodes.items()}
        assert {node.log.leader for node in self.nodes.values()} == set(leaders)
        assert self.propose(leaders[0], b"last")
        self.settle()
        assert self.history[-1] == b"last"
        for number in self.numbers:
            assert self.applied(number) == self.history, f"node {number} lacks something"
        assert not self.blamed


def shown(packet: Packet) -> str:
    """Its name and its numbers, with the log as what it says."""
    values = [getattr(packet, name) for name in packet.__struct_fields__ if name not in ("lives", "transfer")]
    return f"{type(packet).__name__}({', '.join(map(_shown_value, values))})"


def _shown_value(value: object) -> str:
    if isinstance(value, Suffix):
        state = "" if value.chunks is None else f" with state at {value.start}"
        return f"{value.start}..{value.last}, {value.committed}{state}"
    if isinstance(value, tuple):
        return " ".join(entry.decode() for entry in value)
    return value.decode() if isinstance(value, bytes) else str(value)
