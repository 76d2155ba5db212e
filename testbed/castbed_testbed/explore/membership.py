"""Users join and leave in quick succession, move meanwhile, and what tells some of the others of it is slow."""

from __future__ import annotations

from random import Random

from castbed.values import NodeNumber
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.chances import Chances
from castbed_testbed.explore.freedoms import ABSENCE, COMMANDS, CRASH, HANDOFF
from castbed_testbed.explore.strategies import SlowChannel
from castbed_testbed.explore.world import Channel


class Membership(SlowChannel):
    """One user joins, leaves, moves and submits; one channel between others is slow all the time.

    The limit on disturbances does not hold here: they are what it is about.
    """

    about = frozenset({COMMANDS, HANDOFF})
    ROUNDS_MIN, ROUNDS_MAX = 2, 6
    SLOW = 0.85  # of the schedules have a channel that is slow all the time
    SAME = 0.85  # of the rounds are about the same user,
    MOVES = 0.35  # begin with a move of it,
    LEAVES_RANGE = 0.15  # which goes nowhere,
    ARRIVES = 0.8  # and end with arrivals
    MISSES = 0.25  # that leave out what is on its way to the user

    def __init__(self, arena: Arena, random: Random) -> None:
        super().__init__(arena, random)
        role, fixed = arena.topology.role, arena.topology.fixed
        between = {channel for channel in self.channels if not fixed or {*channel} <= fixed}
        between |= {(one, other) for one in arena.core for other in arena.core if one != other}
        self.by_roles: dict[tuple[str, str], list[Channel]] = {}
        for sender, to in sorted(between):
            self.by_roles.setdefault((role(sender), role(to)), []).append((sender, to))

    def schedule(self, chances: Chances) -> None:
        chances.found()
        chances.messages = chances.limits.messages
        random = chances.random
        always = self.by_roles and random.random() < self.SLOW
        slow = frozenset({random.choice(random.choice(list(self.by_roles.values())))} if always else ())
        for _ in range(random.randint(self.ROUNDS_MIN, self.ROUNDS_MAX)):
            user = chances.favourite if random.random() < self.SAME else random.choice(self.arena.submitters)
            self._move(user, chances)
            self._act(user, chances)
            if random.random() < self.ARRIVES:
                missed = random.random() < self.MISSES
                chances.world.arrive(slow | self._downlinks(user) if missed else slow)
        chances.submit(chances.favourite)  # a gap shows when something comes after it

    def _downlinks(self, user: NodeNumber) -> frozenset[Channel]:
        return frozenset((sender, user) for sender in self.arena.stations or self.arena.numbers if sender != user)

    def _move(self, user: NodeNumber, chances: Chances) -> None:
        free, random = self.arena.freedoms, chances.random.random
        if user not in self.arena.movable or random() >= self.MOVES:
            return
        if ABSENCE in free and (HANDOFF not in free or random() < self.LEAVES_RANGE):
            chances.wander(user)
        elif HANDOFF in free:
            chances.hand_off(user)

    def _act(self, user: NodeNumber, chances: Chances) -> None:
        roll = chances.random.random()
        if roll < 0.42 and COMMANDS in self.arena.freedoms:
            chances.ask(user)
        elif roll < 0.84:
            chances.submit(user)
        elif roll < 0.91:
            chances.fire(user)
        elif roll < 0.96 and CRASH in self.arena.freedoms:
            chances.crash()
        else:
            chances.lose()
