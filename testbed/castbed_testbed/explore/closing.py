"""The fair end of a schedule: nothing is lost any more, everybody is up and in range, and everything comes to rest.

Only then can one say that something never happens. Everything in flight arrives in the order of sending; then timers
run out in the order in which they are due. At rest is a world in which every running timer has run out several times
and nothing came of it. One that comes near no such state, because things still happen in the last half of all the time
that there is, has machines that never come to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from castbed.events import Expired, TimerName
from castbed.values import NOBODY, NodeNumber
from castbed_testbed.explore.world import RestlessError, World

ROUNDS_AT_REST = 4  # of each timer without effect; protocols here retry every time, so that one would do
STEPS_MAX = 4_000  # of the end of one schedule: many times what a protocol at rest needs
SECONDS_MAX = 120 * 10**9


def gather(world: World) -> None:
    """Everybody is up and in range, and what was on its way has arrived."""
    for node in world.arena.numbers:
        if not world.is_up(node):
            world.restart(node, storage=True)
        if node in world.arena.movable and world.cells[node] == NOBODY:
            world.move(node, world.arena.home(node))
    world.arrive()


def settle(world: World, enough: Callable[[], bool] | None = None) -> None:
    """Let everything come to rest, or give up at a limit; earlier if, after a round of timers, there is `enough`."""
    gather(world)
    start = world.now
    rounds = _Rounds(world)
    judged = -1
    last, last_at, last_step = world.progress, start, 0
    for step in range(STEPS_MAX):
        following = _next(world)
        if following is None or rounds.at_rest():
            return
        due, node, timer = following
        if due > start + SECONDS_MAX:
            if last_at > start + SECONDS_MAX // 2:
                raise RestlessError(node, Expired(timer), f"{SECONDS_MAX // 10**9} s in which nothing is lost")
            return
        rounds.fire(node, timer)
        world.fire(node, timer)
        world.arrive()
        if world.progress != last:
            last, last_at, last_step = world.progress, world.now, step
        if enough is not None and judged != world.progress and rounds.is_over():
            judged = world.progress
            if enough():
                return
    if last_step > STEPS_MAX // 2:
        raise RestlessError(node, Expired(timer), f"{STEPS_MAX} timers")


class _Rounds:
    """Counts how often each timer ran out since something came of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.progress = world.progress
        self.fired: dict[tuple[NodeNumber, TimerName], int] = {}
        self.this_round: set[tuple[NodeNumber, TimerName]] = set()

    def fire(self, node: NodeNumber, timer: TimerName) -> None:
        if self.world.progress != self.progress:
            self.progress = self.world.progress
            self.fired.clear()
        self.fired[node, timer] = self.fired.get((node, timer), 0) + 1
        self.this_round.add((node, timer))

    def is_over(self) -> bool:
        """Whether every timer that runs ran out since the last time this was so."""
        over = all((node, timer) in self.this_round for node, timer in self._running())
        if over:
            self.this_round.clear()
        return over

    def at_rest(self) -> bool:
        if self.world.progress != self.progress:
            return False
        return all(self.fired.get(key, 0) >= ROUNDS_AT_REST for key in self._running())

    def _running(self) -> Iterator[tuple[NodeNumber, TimerName]]:
        return ((node, timer) for node in self.world.arena.numbers for timer in self.world.timers[node])


def _next(world: World) -> tuple[int, NodeNumber, TimerName] | None:
    """The timer that is due first; of those due at once, that of the first node."""
    found = None
    for node in world.arena.numbers:
        for timer, due in world.timers[node].items():
            if found is None or due < found[0]:
                found = due, node, timer
    return found
