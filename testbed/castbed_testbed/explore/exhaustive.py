"""Every schedule of a tiny network, up to the order of steps at different nodes, which does not matter.

A depth-first search over what may happen next, each branch played from the start. Steps at different nodes commute, so
of two such steps only one order is tried: a step that was tried before a branch sleeps in it until something at its own
node happens (sleep sets: P. Godefroid, Partial-Order Methods for the Verification of Concurrent Systems, 1996). Not so
steps that share a limit (messages, losses), and what all others notice: a move changes who hears them, and a timer the
time at which they happen. That a step itself takes a microsecond is taken for nothing.

The workload is tiny: few messages, one loss, one timer, one handoff. Crashes, absences, commands and copies that are
duplicated are never chosen here.
"""

from __future__ import annotations

from random import Random

import msgspec

from castbed.values import DEFAULT_GROUP, NodeNumber
from castbed_testbed.explore import freedoms as free
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.chances import NAMES, Chances, Limits
from castbed_testbed.explore.founding import senders_of
from castbed_testbed.explore.rules import freedom_used
from castbed_testbed.explore.strategies import Strategy
from castbed_testbed.explore.world import Operation, World

MESSAGES = 3
LOSSES = FIRES = HANDOFFS = 1
STEPS_MAX = 40

_FOR_ALL = frozenset({"move", "fire"})  # what changes who hears the others, or the time that they are shown

Choice = tuple[NodeNumber, str, Operation]
"""The node where it happens, the limit that it uses up (empty: none), and what it is."""


class _Branch(msgspec.Struct):
    """One state on the way: what was tried and is left, and what sleeps."""

    left: list[Choice]
    sleeping: list[Choice]
    taken: Choice | None = None


class Exhaustive(Strategy):
    """Depth first; `exhausted` once every branch was taken."""

    SCHEDULES_MAX = 20_000  # most of the tiny networks have fewer

    def __init__(self, arena: Arena, random: Random) -> None:
        super().__init__(arena, random)
        self.senders = [random.choice(senders_of(arena)) for _ in range(random.randint(1, MESSAGES))]
        self.stack: list[_Branch] = []
        self.started = False

    @property
    def exhausted(self) -> bool:
        return self.started and not self.stack

    def schedule(self, chances: Chances) -> None:
        self._founded(chances)
        try:
            self._down(chances.world)
        finally:  # of what makes a machine stumble there is nothing to go on from
            self._back()

    def _down(self, world: World) -> None:
        """Along the branches that were taken, then on to where nothing is left to choose."""
        counts: dict[str, int] = {}
        if not self.started:
            self.started = True
            self.stack.append(self._branch(world, counts, []))
        depth = 0
        while depth < len(self.stack) or self._deeper(world, counts, depth):
            taken = self._taken(depth)
            if taken is None:
                break
            self._do(world, counts, taken)
            depth += 1

    def _founded(self, chances: Chances) -> None:
        """The same beginning every time."""
        found = Chances(chances.world, Random(self.arena.seed), Limits())
        found.found()

    def _deeper(self, world: World, counts: dict[str, int], depth: int) -> bool:
        """Open the state that the last step led to."""
        if depth >= STEPS_MAX:
            self.cut = True
            return False
        above = self.stack[depth - 1]
        assert above.taken is not None
        awake = above.taken
        sleeping = [choice for choice in above.sleeping if _commute(choice, awake)]
        self.stack.append(self._branch(world, counts, sleeping))
        return True

    def _branch(self, world: World, counts: dict[str, int], sleeping: list[Choice]) -> _Branch:
        asleep = {_key(choice) for choice in sleeping}
        choices = [choice for choice in self._choices(world, counts) if _key(choice) not in asleep]
        return _Branch(choices, sleeping)

    def _taken(self, depth: int) -> Choice | None:
        branch = self.stack[depth]
        if branch.taken is None and branch.left:
            branch.taken = branch.left.pop(0)
        return branch.taken

    def _back(self) -> None:
        """Close the states that have nothing left; what was taken in the next one sleeps in its other branches."""
        while self.stack:
            branch = self.stack[-1]
            if branch.taken is not None:
                branch.sleeping.append(branch.taken)
                branch.taken = None
            if branch.left:
                return
            self.stack.pop()

    # --- what may happen ---------------------------------------------------------------------------------------------

    def _choices(self, world: World, counts: dict[str, int]) -> list[Choice]:
        choices = [*self._submissions(world, counts), *self._copies(world, counts)]
        if counts.get("fire", 0) < FIRES:
            timers = [(node, world.next_timer(node)) for node in self.arena.numbers]
            choices += [(node, "fire", ("fire", node, timer)) for node, timer in timers if timer is not None]
        if free.HANDOFF in self.arena.freedoms and counts.get("move", 0) < HANDOFFS:
            choices += [
                (host, "move", ("move", host, station))
                for host in self.arena.movable
                for station in self.arena.stations
                if station != world.cells[host]
            ]
        return choices

    def _submissions(self, world: World, counts: dict[str, int]) -> list[Choice]:
        """The next message; an answer to the last one that its sender delivered, if there is any."""
        at = counts.get("submit", 0)
        if at >= len(self.senders):
            return []
        node = self.senders[at]
        group = min(world.groups[node], default=DEFAULT_GROUP)
        answered = [message.mid for message in world.delivered[node] if message.group == group]
        operation = "submit", node, NAMES[at], group, answered[-1] if answered else None
        return [(node, "submit", operation)]

    def _copies(self, world: World, counts: dict[str, int]) -> list[Choice]:
        choices: list[Choice] = []
        for copy in world.flying:
            for what in ("receive", "lose"):
                operation = what, copy.serial
                freedom = freedom_used(world, operation)
                if freedom is not None and freedom not in self.arena.freedoms:
                    continue
                if what == "receive" or counts.get("lose", 0) < LOSSES:
                    choices.append((copy.to, what if what == "lose" else "", operation))
        return choices

    def _do(self, world: World, counts: dict[str, int], choice: Choice) -> None:
        _, limit, operation = choice
        if limit:
            counts[limit] = counts.get(limit, 0) + 1
        world.again(operation)


def _commute(one: Choice, other: Choice) -> bool:
    if one[0] == other[0] or not _FOR_ALL.isdisjoint((one[1], other[1])):
        return False
    return not one[1] or one[1] != other[1]


def _key(choice: Choice) -> tuple[str, object]:
    """What tells choices in one state apart; an answer may change with what its sender delivers, a submission stays."""
    operation = choice[2]
    return operation[0], operation[2] if operation[0] == "submit" else operation[1:]
