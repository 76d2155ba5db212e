"""How frames are shared: who computes which, in what order entities are numbered, and when a host takes part.

A computing entity is one of the threads that a host gives: a host of horse power h has h of them. The roster lists all
in order, so an entity's ID is its place and N the length; IDs are contiguous whoever leaves. Everybody changes its
roster in the order of delivery and therefore computes the same shares without asking anybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from castbed import NodeNumber

OUT = -1
"""The ID of an entity that is not in the roster."""
SAMPLES_AVERAGED = 5
"""Loads are sampled once per second and averaged over five seconds."""


class Entity(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """One computing entity: its host and which of the host's it is."""

    host: NodeNumber
    number: int


def share(frames: Sequence[int], n: int, identity: int, turn: int = 0) -> list[int]:
    """The frames of the entity with this ID of N: those whose place, moved on by `turn`, is the ID modulo N."""
    return list(frames[(identity - turn) % n :: n])


class Roster:
    """The computing entities in the order of their IDs."""

    def __init__(self, entities: Iterable[Entity] = ()) -> None:
        self.entities = list(entities)

    @property
    def n(self) -> int:
        return len(self.entities)

    def identity(self, entity: Entity) -> int:
        """The ID of the entity; OUT when it has none."""
        return self.entities.index(entity) if entity in self.entities else OUT

    def increment(self, entity: Entity) -> None:
        """The newcomer takes the next ID; one that is here already keeps its own."""
        if entity not in self.entities:
            self.entities.append(entity)

    def decrement(self, identity: int) -> None:
        """Who has this ID leaves, and every larger ID becomes one less."""
        if 0 <= identity < self.n:
            del self.entities[identity]


class Decision(Enum):
    """What a host does about its load."""

    STAY = "stay"
    LEAVE = "leave"
    JOIN = "join"


class Thresholds:
    """The automaton of one host: upper and lower threshold move together, so that entities go and come one by one."""

    def __init__(self, active: int, horse_power: int, upper: float, lower: float, step: float = 1.0) -> None:
        if not (0 <= active <= horse_power and lower < upper):
            raise ValueError("the upper threshold is above the lower, and no more entities work than there are")
        self.active = active
        self.horse_power = horse_power
        self.upper = upper
        self.lower = lower
        self.step = step

    def decide(self, load: float) -> Decision:
        """What to do at this load; the thresholds move when something is done."""
        if load > self.upper and self.active > 0:
            return self._moved(Decision.LEAVE, -1)
        if load < self.lower and self.active < self.horse_power:
            return self._moved(Decision.JOIN, 1)
        return Decision.STAY

    def _moved(self, decision: Decision, entities: int) -> Decision:
        self.active += entities
        self.upper -= entities * self.step
        self.lower -= entities * self.step
        return decision


class LoadAverage:
    """The mean of the newest samples."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=SAMPLES_AVERAGED)

    def add(self, load: float) -> float:
        self._samples.append(load)
        return sum(self._samples) / len(self._samples)
