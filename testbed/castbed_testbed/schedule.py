"""What happens to which node when: the timed faults of an experiment and its mobility, resolved to node numbers.

Random faults are drawn here, from the seed, so that a schedule is a plain list of things to do, the same on every host.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec

from castbed.errors import ConfigurationError
from castbed.packets import Command, command_name
from castbed.topology import Topology
from castbed.units import convert
from castbed.values import NOBODY, NodeNumber
from castbed_testbed import faults as wanted
from castbed_testbed.experiment import Experiment
from castbed_testbed.mobility import Move, moves
from castbed_testbed.networks import host_number, node_number, station_number
from castbed_testbed.ranges import spans_apart

Pair = tuple[NodeNumber, NodeNumber]


class Happening(msgspec.Struct, frozen=True):
    """Something that is done to one node at one time.

    `fault` is the name under which it is counted; empty for the end of something that was counted when it began.
    """

    at: int
    fault: str
    node: NodeNumber


class CrashNode(Happening, frozen=True):
    """Stop the node."""


class RestartNode(Happening, frozen=True):
    """Start the node again."""

    storage: bool = True


class MoveNode(Happening, frozen=True):
    """Take the node into the cell of a station."""

    station: NodeNumber


class TakeAway(Happening, frozen=True):
    """Take the node out of everybody's range."""


class BringBack(Happening, frozen=True):
    """Bring the node back to where it was before it was taken away, unless it has moved since."""


class AskNode(Happening, frozen=True):
    """Have the node's protocol do something."""

    command: Command = Command()


class Block(msgspec.Struct, frozen=True):
    """No copy gets from `source` to `target` from `start` until `end`."""

    source: NodeNumber
    target: NodeNumber
    start: int
    end: int
    fault: str


class Schedule(msgspec.Struct, frozen=True):
    """All happenings in order of time, and all blocked directions; some because members are `apart` in metres."""

    happenings: tuple[Happening, ...]
    blocks: tuple[Block, ...]
    apart: bool = False


def build_schedule(experiment: Experiment, topology: Topology, commands: tuple[type[Command], ...]) -> Schedule:
    """Resolve names and draw what is random."""
    draw = _Drawn(experiment, topology)
    happenings = [
        *_listed(experiment.faults, topology, commands),
        *draw.absences(),
        *draw.crashes(),
        *(_moved(move) for move in moves(experiment, topology)),
    ]
    blocks = [*_cuts(experiment.faults, topology), *_partitions(experiment.faults, topology), *draw.partitions()]
    apart = list(_out_of_range(experiment, topology))
    in_order = tuple(sorted(happenings, key=lambda happening: happening.at))
    return Schedule(in_order, (*blocks, *apart), bool(apart))


def _listed(faults: wanted.Faults, topology: Topology, commands: tuple[type[Command], ...]) -> Iterable[Happening]:
    for at, crash in enumerate(faults.crashes):
        yield CrashNode(crash.at, "crashes", node_number(topology, crash.node, f"faults.crashes[{at}].node"))
    for at, restart in enumerate(faults.restarts):
        node = node_number(topology, restart.node, f"faults.restarts[{at}].node")
        yield RestartNode(restart.at, "restarts", node, restart.storage)
    for at, absence in enumerate(faults.absences):
        node = _mobile(topology, absence.node, f"faults.absences[{at}].node")
        _check_span(absence.start, absence.end, f"faults.absences[{at}]")
        yield from _absence(node, absence.start, absence.end, "absences")
    for at, handoff in enumerate(faults.handoffs):
        yield _handoff(handoff, topology, f"faults.handoffs[{at}]")
    for verb, listed in (("join", faults.joins), ("leave", faults.leaves)):
        for at, change in enumerate(listed):
            yield _membership(verb, change, topology, commands, f"faults.{verb}s[{at}]")


def _absence(node: NodeNumber, start: int, end: int, fault: str) -> tuple[Happening, Happening]:
    return TakeAway(start, fault, node), BringBack(end, "", node)


def _mobile(topology: Topology, name: str, path: str) -> NodeNumber:
    node = node_number(topology, name, path)
    if node in topology.fixed:
        raise ConfigurationError(path, f"{name!r} is a {topology.role(node)}, and those do not move")
    return node


def _check_span(start: int, end: int, path: str) -> None:
    if end <= start:
        raise ConfigurationError(f"{path}.end", "has to be later than the start")


def _handoff(handoff: wanted.Handoff, topology: Topology, path: str) -> Happening:
    host = host_number(topology, handoff.host, f"{path}.host")
    station = station_number(topology, handoff.to, f"{path}.to") if handoff.to else NOBODY
    return _moved(Move(handoff.at, "handoffs", host, station))


def _moved(move: Move) -> Happening:
    if move.station == NOBODY:
        return TakeAway(move.at, move.counted, move.host)
    return MoveNode(move.at, move.counted, move.host, move.station)


def _membership(
    verb: str, change: wanted.Membership, topology: Topology, commands: tuple[type[Command], ...], path: str
) -> AskNode:
    node = node_number(topology, change.node, f"{path}.node")
    for command in commands:
        if command_name(command).split("-")[0] == verb:
            return AskNode(change.at, f"{verb}s", node, convert({"group": change.group}, command, path))
    raise ConfigurationError(path, f"the protocol has no command to {verb} a group")


def _cuts(faults: wanted.Faults, topology: Topology) -> Iterable[Block]:
    for at, cut in enumerate(faults.cuts):
        path = f"faults.cuts[{at}]"
        _check_span(cut.start, cut.end, path)
        source = node_number(topology, cut.source, f"{path}.source")
        target = node_number(topology, cut.target, f"{path}.target")
        yield Block(source, target, cut.start, cut.end, "cuts")


def _partitions(faults: wanted.Faults, topology: Topology) -> Iterable[Block]:
    for at, partition in enumerate(faults.partitions):
        path = f"faults.partitions[{at}]"
        _check_span(partition.start, partition.end, path)
        sides = [[node_number(topology, name, f"{path}.sides") for name in side] for side in partition.sides]
        _check_sides(sides, f"{path}.sides")
        yield from _between(sides, partition.start, partition.end, "partitions")


def _check_sides(sides: list[list[NodeNumber]], path: str) -> None:
    if len(sides) < 2 or not all(sides):
        raise ConfigurationError(path, "a partition has at least two sides, with somebody in each")
    divided = [node for side in sides for node in side]
    if len(set(divided)) < len(divided):
        raise ConfigurationError(path, "a node is on one side at most")


def _out_of_range(experiment: Experiment, topology: Topology) -> Iterable[Block]:
    for one, other, start, end, counted in spans_apart(experiment, topology):
        yield Block(one, other, start, end, counted)
        yield Block(other, one, start, end, counted)


def _between(sides: list[list[NodeNumber]], start: int, end: int, fault: str) -> Iterable[Block]:
    for here in sides:
        for there in sides:
            if here is not there:
                yield from (Block(one, other, start, end, fault) for one in here for other in there)


class _Drawn:
    """Faults that the seed decides."""

    def __init__(self, experiment: Experiment, topology: Topology) -> None:
        self.experiment = experiment
        self.topology = topology
        self.movable = [n.number for n in topology.nodes if n.number not in topology.fixed]

    def _random(self, purpose: str) -> Random:
        return Random(f"{self.experiment.seed}/schedule/{purpose}")

    def _moment(self, random: Random) -> int:
        return int(random.random() * self.experiment.duration)

    def absences(self) -> Iterable[Happening]:
        """Absences of different nodes, or of one node one after the other."""
        plan = self.experiment.faults.random_absences
        if plan is None:
            return
        if not self.movable:
            raise ConfigurationError("faults.random_absences", "no node of this topology can move")
        random = self._random("absences")
        free_from = dict.fromkeys(self.movable, 0)
        for _ in range(plan.count):
            node = random.choice(self.movable)
            start = max(self._moment(random), free_from[node])
            end = start + max(1, plan.length.sample(random))
            free_from[node] = end + 1
            yield from _absence(node, start, end, "random_absences")

    def crashes(self) -> Iterable[Happening]:
        plan = self.experiment.faults.random_crashes
        if plan is None:
            return
        random = self._random("crashes")
        able = [node.number for node in self.topology.nodes if plan.roles is None or node.role in plan.roles]
        if not able:
            raise ConfigurationError("faults.random_crashes.roles", "no node of this topology has such a role")
        free_from = dict.fromkeys(able, 0)
        for _ in range(plan.count):
            node = random.choice(able)
            start = max(self._moment(random), free_from[node])
            end = start + max(1, plan.down.sample(random))
            free_from[node] = end + 1
            yield CrashNode(start, "random_crashes", node)
            yield RestartNode(end, "", node, plan.storage)

    def partitions(self) -> Iterable[Block]:
        plan = self.experiment.faults.random_partitions
        if plan is None:
            return
        random = self._random("partitions")
        numbers = list(self.topology.numbers())
        if len(numbers) < 2:
            raise ConfigurationError("faults.random_partitions", "one node cannot be divided")
        for _ in range(plan.count):
            random.shuffle(numbers)
            cut = random.randrange(1, len(numbers))
            start = self._moment(random)
            end = start + max(1, plan.length.sample(random))
            yield from _between([numbers[:cut], numbers[cut:]], start, end, "random_partitions")
