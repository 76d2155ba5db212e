"""Coverage-guided: schedules that left machines in states not seen before are taken up again and go on differently."""

from __future__ import annotations

from random import Random
from zlib import crc32

from castbed_testbed.disturbance import state_of
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.chances import Chances
from castbed_testbed.explore.strategies import RandomWalk
from castbed_testbed.explore.world import Operation, World

KEPT_MAX = 64  # beginnings that are worth going on from; the oldest go first
FRESH = 0.3  # of the schedules begin at the beginning


class Guided(RandomWalk):
    """Random walks from the beginnings of those that reached something new.

    What was seen counts for one network: states of machines on different networks have little to do with each other.
    """

    SCHEDULES_MAX = 2_000

    def __init__(self, arena: Arena, random: Random) -> None:
        super().__init__(arena, random)
        self.seen: set[int] = set()
        self.kept: list[list[Operation]] = []

    def schedule(self, chances: Chances) -> None:
        random = chances.random
        if not self.kept or random.random() < FRESH:
            chances.found()
        else:
            self._take_up(chances, random.choice(self.kept))
        self.walk(chances, random.randint(5, chances.limits.steps))
        if self._is_new(chances.world) and chances.world.trace:
            self.kept.append(list(chances.world.trace))
            del self.kept[:-KEPT_MAX]

    def _take_up(self, chances: Chances, trace: list[Operation]) -> None:
        """Repeat the beginning of an earlier schedule, of random length."""
        world = chances.world
        for operation in trace[: chances.random.randint(1, len(trace))]:
            world.again(operation)
            chances.submitted += operation[0] == "submit"

    def _is_new(self, world: World) -> bool:
        """Whether some machine is in a state that no schedule before left one in."""
        states = {crc32(repr(state_of(machine)).encode()) for machine in world.machines if machine is not None}
        new = not states <= self.seen
        self.seen |= states
        return new
