"""Ways to choose what happens next. A strategy serves one arena; each call of `schedule` drives one new world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from castbed.values import NodeNumber
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.chances import Chances, Limits
from castbed_testbed.explore.founding import senders_of
from castbed_testbed.explore.freedoms import ABSENCE, COMMANDS, CRASH, HANDOFF
from castbed_testbed.explore.world import Channel, Copy, StumbledError, World

PROBE_STEPS_MAX = 500
TIMER_PRIORITY = 0.5  # at most: timers are slow compared with packets


class Strategy:
    """Base of all strategies; what it is about is never taken from its schedules, where the model allows it."""

    SCHEDULES_MAX = 100  # on one network, where this is the only strategy; the mix has a hundred of each
    about: frozenset[str] = frozenset()
    cut = False  # whether schedules were cut short, so that `exhausted` does not mean that all was tried

    def __init__(self, arena: Arena, random: Random) -> None:
        self.arena = arena
        self.random = random

    def schedule(self, chances: Chances) -> None:
        """Choose steps in a fresh world; the fair end is not the strategy's."""
        raise NotImplementedError

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing left to try in this arena."""
        return False


class RandomWalk(Strategy):
    """Any step that is possible, with weights drawn for each schedule."""

    def schedule(self, chances: Chances) -> None:
        chances.found()
        self.walk(chances, chances.limits.steps)

    def walk(self, chances: Chances, steps: int) -> None:
        random = chances.random.random
        hurry, timers, trouble = random(), random() * 0.12, random() * 0.2
        submitting = 0.08 + 0.4 * hurry
        first, second, third, fourth = (
            submitting,
            submitting + timers,
            submitting + timers + trouble,
            submitting + timers + trouble * 1.5,
        )
        for _ in range(steps):
            roll = random()
            if roll < first:
                done = chances.submit()
            elif roll < second:
                done = chances.fire()
            elif roll < third:
                done = chances.disturb()
            elif roll < fourth:
                done = chances.lose()
            else:
                done = False
            if not done and not chances.receive() and not chances.submit() and not chances.world.flying:
                return


class Priorities(Strategy):
    """PCT: every channel, the users and every node's timers have a random priority; few change points lower one.

    Where copies may overtake each other, every copy is a channel of its own.
    """

    CHANGE_POINTS_MAX = 3
    USERS, TROUBLE = "users", "trouble"

    def schedule(self, chances: Chances) -> None:
        chances.found()
        random = chances.random
        priority: dict[object, float] = {}
        steps = chances.limits.steps
        points = {random.randrange(steps) for _ in range(random.randint(0, self.CHANGE_POINTS_MAX))}
        for at in range(steps):
            candidates = self._candidates(chances)
            if not candidates:
                return
            for candidate in candidates:
                if candidate not in priority:
                    priority[candidate] = random.random() * (TIMER_PRIORITY if candidate[0] == "timer" else 1.0)
            best = max(candidates, key=priority.__getitem__)
            if at in points:
                priority[best] = -random.random()
                best = max(candidates, key=priority.__getitem__)
            self._run(chances, best, candidates[best])

    def _candidates(self, chances: Chances) -> dict[tuple[object, ...], Copy | NodeNumber]:
        """What could go on, each with what it would go on with."""
        world = chances.world
        found: dict[tuple[object, ...], Copy | NodeNumber] = {}
        for copy in world.flying:
            if world.machines[copy.to] is not None:
                own = (copy.serial,) if chances.may_overtake(copy) else (copy.sender, copy.to, copy.wired)
                found.setdefault(own, copy)
        if chances.submitted < chances.messages:
            found[self.USERS,] = 0
        if chances.disturbed < chances.limits.disturbances and self.arena.freedoms:
            found[self.TROUBLE,] = 0
        if chances.fires < chances.limits.fires:
            found |= {("timer", node): node for node in self.arena.numbers if world.timers[node]}
        return found

    def _run(self, chances: Chances, chosen: tuple[object, ...], given: Copy | NodeNumber) -> None:
        """Go on; what turned out impossible counts as done, so that a schedule ends."""
        if isinstance(given, Copy):
            chances.receive_copy(given)
        elif chosen[0] == "timer":
            chances.fire(given)
        elif chosen[0] == self.USERS:
            if not chances.submit():
                chances.submitted += 1
        elif not chances.disturb():
            chances.lose()
            chances.disturbed += 1


class DelayBounded(Strategy):
    """Everything in the order of sending, except for a few copies that are put off until nothing else is left."""

    DELAYS_MAX = 3

    def schedule(self, chances: Chances) -> None:
        chances.found()
        random = chances.random
        steps = chances.limits.steps
        delays = {random.randrange(steps // 2) for _ in range(random.randint(1, self.DELAYS_MAX))}
        put_off: set[int] = set()
        for at in range(steps):
            ready = [copy for copy in chances.world.flying if copy.serial not in put_off]
            if at in delays and ready:
                put_off.add(ready[0].serial)
            elif random.random() < 0.3 or not ready:
                acts = (chances.submit, chances.disturb, chances.fire, chances.lose)
                if not any(act() for act in random.sample(acts, len(acts))) and not ready:
                    return
            else:
                chances.receive_copy(ready[0])


def channels_of(arena: Arena, random: Random) -> list[Channel]:
    """The channels on which something travels when every host moves once and every user submits before and after."""
    seen: dict[Channel, None] = {}
    try:
        world = World(arena)
        chances = Chances(world, random, Limits(messages=2 * len(arena.submitters), steps=PROBE_STEPS_MAX))
        chances.found()
        for node in arena.submitters:
            chances.submit(node)
            if HANDOFF in arena.freedoms and node in arena.movable:
                chances.hand_off(node)
                chances.submit(node)
        for _ in range(PROBE_STEPS_MAX):
            if not world.flying:
                break
            copy = world.flying[0]
            seen[copy.sender, copy.to] = None
            world.receive(copy)
    except StumbledError:
        pass  # what breaks here is found when it is looked for
    return [(sender, to) for sender, to in seen if sender != to] or [(arena.numbers[0], arena.numbers[-1])]


class SlowChannel(Strategy):
    """One or two channels are far slower than all others; users and nodes go on meanwhile."""

    ROUNDS_MAX = 9
    RELEASED = 0.15

    def __init__(self, arena: Arena, random: Random) -> None:
        super().__init__(arena, random)
        self.channels = channels_of(arena, random)

    def schedule(self, chances: Chances) -> None:
        chances.found()
        random, world = chances.random, chances.world
        wanted = random.randint(1, 2)
        slow = {random.choice(self.channels)} if random.random() < 0.6 else set()
        for _ in range(random.randint(3, self.ROUNDS_MAX)):
            self.act(chances)
            if len(slow) < wanted and world.flying:
                copy = random.choice(world.flying)
                slow.add((copy.sender, copy.to))
            if random.random() < self.RELEASED:
                slow.clear()
            if random.random() < 0.85:
                world.arrive(frozenset(slow))

    def act(self, chances: Chances) -> None:
        roll = chances.random.random()
        if roll < 0.45:
            chances.submit()
        elif roll < 0.7:
            chances.disturb()
        elif roll < 0.9:
            chances.fire()
        else:
            chances.lose()


class Targeted(Strategy):
    """Hosts move, leave range, join, leave or crash within a few steps of a submission, theirs or another's."""

    ROUNDS_MAX = 4
    STEPS_BETWEEN_MAX = 6

    def __init__(self, arena: Arena, random: Random) -> None:
        super().__init__(arena, random)
        self.channels = channels_of(arena, random)

    def schedule(self, chances: Chances) -> None:
        chances.found()
        random, world = chances.random, chances.world
        slow = frozenset({random.choice(self.channels)} if random.random() < 0.5 else ())
        for _ in range(random.randint(1, self.ROUNDS_MAX)):
            node = random.choice(senders_of(self.arena))
            chances.submit(node)
            self._few(chances, slow)
            if world.flying and random.random() < 0.4:
                copy = random.choice(world.flying)
                slow = frozenset({(copy.sender, copy.to)})
            mover = node if random.random() < 0.6 else random.choice(self.arena.numbers)
            self._trouble(chances, mover)
            self._few(chances, slow)
            if random.random() < 0.5:
                chances.fire(mover)
            if random.random() < 0.6:
                world.arrive(slow)

    def _few(self, chances: Chances, slow: frozenset[Channel]) -> None:
        for _ in range(chances.random.randint(0, self.STEPS_BETWEEN_MAX)):
            ready = [copy for copy in chances.world.flying if (copy.sender, copy.to) not in slow]
            if ready:
                chances.receive_copy(chances.random.choice(ready[:3]))

    def _trouble(self, chances: Chances, node: NodeNumber) -> None:
        movable = node in self.arena.movable
        able = {HANDOFF: (movable, chances.hand_off), ABSENCE: (movable, chances.wander)}
        able |= {CRASH: (True, chances.crash), COMMANDS: (node in self.arena.submitters, chances.ask)}
        possible: list[Callable[[NodeNumber], bool]] = [
            act for freedom, (can, act) in able.items() if can and freedom in self.arena.freedoms
        ]
        if possible and chances.disturbed < chances.limits.disturbances:
            chances.disturbed += chances.random.choice(possible)(node)


SIMPLE: Mapping[str, type[Strategy]] = {
    "random": RandomWalk,
    "priorities": Priorities,
    "delays": DelayBounded,
    "slow-channel": SlowChannel,
    "handoffs": Targeted,
}
