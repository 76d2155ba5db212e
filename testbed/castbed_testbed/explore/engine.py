"""Explores batches of schedules and makes of what they violate a report: one smallest script per kind.

A batch is a function of its number and the seed, whichever process runs it, and results are taken in the order of the
batches: for one seed and a budget in runs the report is always the same.
"""

from __future__ import annotations

import gc
import time
from functools import partial
from random import Random

import msgspec

from castbed.declarations import Protocol
from castbed.history import LocalEvent
from castbed.properties import Violation
from castbed.registry import Registry
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.chances import Chances, Limits
from castbed_testbed.explore.configurations import Model, draw
from castbed_testbed.explore.exhaustive import Exhaustive
from castbed_testbed.explore.freedoms import needs_in_words
from castbed_testbed.explore.judging import end, label, stumbled
from castbed_testbed.explore.kinds import ingredients, kind_core, kind_text, signature
from castbed_testbed.explore.menu import EXHAUSTIVE, MIX, STRATEGIES, chosen_strategy, strategy_of
from castbed_testbed.explore.naming import named, same_world
from castbed_testbed.explore.overlap import serves_several_groups
from castbed_testbed.explore.replaying import replay
from castbed_testbed.explore.script import Script, parse, write
from castbed_testbed.explore.shrinking import Counterexample, minima
from castbed_testbed.explore.steps import Step
from castbed_testbed.explore.strategies import RandomWalk, Strategy
from castbed_testbed.explore.world import Operation, StumbledError, World

FOR_EVER = float("inf")
BATCH = 100  # schedules on one network: enough to make up for building it
PATIENT_EVERY = 8  # of the schedules that end well, one has its timers run all the same
ALL_FREEDOMS = 0.3  # of the schedules may use all freedoms of the model
EACH_FREEDOM = 0.6
SAME_FREEDOMS = 8  # schedules one after the other
CLOCK_EVERY = 16  # schedules between two looks at the clock
KEPT_PER_LABEL = 2  # schedules of a batch that break a property in one way, the shortest


class Request(msgspec.Struct, frozen=True):
    """What to explore and how; without `properties` it is about everything that the variant guarantees.

    `without` names freedoms of the model that no schedule uses, `allows` those beyond it that schedules may use.
    """

    protocol: str
    variant: str
    properties: tuple[str, ...] = ()
    model: Model = Model()
    strategy: str = "mix"
    seed: int = 1
    without: tuple[str, ...] = ()
    allows: tuple[str, ...] = ()


class Found(msgspec.Struct, frozen=True):
    """A schedule that breaks something, before it is shrunk: its script, and what it seems to be a case of.

    It was the last of the first `after` schedules of its batch; in what is shrunk, of its exploration.
    """

    script: str
    label: str
    signature: str
    used: str = ""
    after: int = 0


class BatchResult(msgspec.Struct, frozen=True):
    """What came of one batch; `exhausted` if there is no other schedule of its workload on its network."""

    number: int
    schedules: int
    found: tuple[Found, ...] = ()
    exhausted: bool = False


class Finding(msgspec.Struct, frozen=True):
    """One kind of violation with its smallest script; `after` so many schedules one first showed it.

    `finished` says that it was shrunk until it got no smaller.
    """

    property: str
    kind: str
    needs: tuple[str, ...]
    script: Script
    witness: str
    core: str = ""
    about: frozenset[str] = frozenset()
    consists: frozenset[str] = frozenset()
    finished: bool = True
    after: int = 0


def batch_size(strategy: str) -> int:
    """How many schedules a batch has, with this strategy: so many on one network."""
    return STRATEGIES[strategy].SCHEDULES_MAX if strategy != MIX else BATCH


def may_end_early(strategy: str) -> bool:
    """Whether a batch may have fewer schedules, because there are no more."""
    return strategy == EXHAUSTIVE


def explore_batch(
    registry: Registry, request: Request, number: int, size: int = BATCH, ends: float = FOR_EVER
) -> BatchResult:
    """Explore one arena with one strategy, at most until the monotonic clock shows `ends`."""
    random = Random(f"explore/{request.seed}/{number}")
    protocol: Protocol = registry.protocols.get(request.protocol, "PROTOCOL")
    several = partial(serves_several_groups, registry, request.protocol, request.variant)
    setup, limits = draw(protocol, request.variant, request.model, random, several)
    arena = Arena(msgspec.structs.replace(setup, allows=request.allows), registry, request.properties)
    arena.freedoms = arena.freedoms.difference(request.without)
    strategy = strategy_of(chosen_strategy(request.strategy, number, arena), arena, random)
    batch = _Batch(arena, limits, strategy, random)
    gc.disable()  # machines with parts are cyclic: garbage is collected once per batch of the usual size
    gc.freeze()  # and what was there before, which is all that was imported, is not looked through for it
    try:
        for at in range(size):
            if at % CLOCK_EVERY == 0 and time.monotonic() >= ends:
                break
            if at % SAME_FREEDOMS == 0 and not isinstance(strategy, Exhaustive):
                arena.freedoms = _some(batch.freedoms, random) | (strategy.about & batch.freedoms)
            if batch.strategy.exhausted:
                if request.strategy != MIX:
                    break
                batch.strategy = RandomWalk(arena, random)
            batch.schedule(at)
            if at % BATCH == BATCH - 1:
                gc.collect()
    finally:
        arena.freedoms = batch.freedoms
        gc.collect()
        gc.unfreeze()
        gc.enable()
    return BatchResult(number, batch.schedules, batch.named(), strategy.exhausted and not strategy.cut)


def _some(freedoms: frozenset[str], random: Random) -> frozenset[str]:
    """Some of the freedoms: with all of them in every schedule, the most destructive would hide the others."""
    if random.random() < ALL_FREEDOMS:
        return freedoms
    return frozenset(freedom for freedom in sorted(freedoms) if random.random() < EACH_FREEDOM)


class _Batch:
    """Runs schedules and keeps the shortest that break something."""

    def __init__(self, arena: Arena, limits: Limits, strategy: Strategy, random: Random) -> None:
        self.arena = arena
        self.freedoms = arena.freedoms
        self.limits = limits
        self.strategy = strategy
        self.random = random
        self.schedules = 0
        self.kept: dict[str, list[tuple[list[Operation], int]]] = {}  # and after how many schedules

    def schedule(self, at: int) -> None:
        self.schedules += 1
        trace: list[Operation] = []
        events: list[LocalEvent] = []
        explored = 0
        try:
            world = World(self.arena)
            trace, events = world.trace, world.events
            messages = self.random.randint(self.limits.messages_min, self.limits.messages)
            chances = Chances(world, self.random, self.limits, messages)
            self.strategy.schedule(chances)
            explored = len(trace)
            violations = end(world, patient=at % PATIENT_EVERY == 0)
        except StumbledError as error:
            violations = [stumbled(self.arena, events, error)]
            explored = explored or len(trace)
        for name in {label(violation) for violation in violations}:
            self._keep(name, trace[:explored])

    def _keep(self, name: str, trace: list[Operation]) -> None:
        kept = self.kept.setdefault(name, [])
        kept.append((trace, self.schedules))
        kept.sort(key=lambda one: len(one[0]))
        del kept[KEPT_PER_LABEL:]

    def named(self) -> tuple[Found, ...]:
        return tuple(
            found
            for name, traces in sorted(self.kept.items())
            for trace, after in traces
            for found in self._found(name, trace, after)
        )

    def _found(self, name: str, trace: list[Operation], after: int) -> list[Found]:
        """The schedule in words, if it still does the same; it is what people will replay."""
        steps = _steps_of(self.arena, trace)
        played = replay(self.arena, steps)
        violation = _first(played.violations, name)
        if violation is None:
            return []
        script = write(Script(self.arena.setup, tuple(steps), True, (name,)))
        return [Found(script, name, signature(played, violation), ",".join(sorted(played.used)), after)]


def _steps_of(arena: Arena, trace: list[Operation]) -> list[Step]:
    """The steps of a trace; the last of them, or the start, may make a machine stumble."""
    if not trace:
        return []
    world = World(arena)
    steps = same_world(trace[:-1], world)
    return steps + [named(world, operation) for operation in trace[-1:]]


def _first(violations: list[Violation], name: str) -> Violation | None:
    return next((violation for violation in violations if label(violation) == name), None)


def shrink_found(registry: Registry, request: Request, found: Found, ends: float = FOR_EVER) -> tuple[Finding, ...]:
    """The smallest scripts that show the same, and what else they show; less small if time runs out meanwhile."""
    script = parse(found.script)
    arena = Arena(script.setup, registry, request.properties)
    arena.freedoms = arena.freedoms.difference(request.without)
    whole = Counterexample(arena, script.steps, True, found.label)
    smallest = minima(whole, registry, ends)
    return tuple(finding for small, finished in smallest for finding in findings_of(small, finished, found.after))


def findings_of(small: Counterexample, finished: bool = True, after: int = 0) -> list[Finding]:
    """What a small counterexample shows, one finding per way to break a property; `finished` if it gets no smaller."""
    played = small.played()
    needs = tuple(needs_in_words(played.used, small.arena.possible))
    script = Script(small.arena.setup, small.steps, small.settles, _expected(small), needs)
    made_of = ingredients(played)
    shown = {label(violation): violation for violation in reversed(played.violations)}
    return [
        Finding(
            property=one.property,
            kind=kind_text(played, one),
            needs=needs,
            script=script,
            witness=one.words,
            core=kind_core(played, one),
            about=frozenset(part.about for part in made_of if part.about) | played.used,
            consists=frozenset(map(str, made_of)),
            finished=finished,
            after=after,
        )
        for one in shown.values()
    ]


def _expected(small: Counterexample) -> tuple[str, ...]:
    """All that the steps violate of what the variant guarantees and of what was looked for."""
    arena = small.arena
    judged = Arena(arena.setup, arena.registry, besides=tuple(arena.properties))
    judged.founding = arena.founding
    return tuple(dict.fromkeys(label(one) for one in replay(judged, small.steps, small.settles).violations))


__all__ = [
    "BATCH",
    "BatchResult",
    "Finding",
    "Found",
    "Request",
    "batch_size",
    "explore_batch",
    "may_end_early",
    "shrink_found",
]
