"""Makes a counterexample small: fewest steps, nodes, messages and freedoms; what is left is what it needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from castbed.errors import CastbedError
from castbed.properties import Violation
from castbed.registry import Registry
from castbed_testbed.explore.arena import Arena, Setup
from castbed_testbed.explore.judging import label
from castbed_testbed.explore.replaying import Replay, replay
from castbed_testbed.explore.steps import Arrives, Asks, OnCopy, Receives, Step, Submits, TimePasses

REPLAYS_MAX = 1_500  # for one counterexample; most need a fifth of that


class Counterexample(msgspec.Struct, frozen=True):
    """Steps in an arena that break a property in a way (`label`), and whether they have to settle for that."""

    arena: Arena
    steps: tuple[Step, ...]
    settles: bool
    wanted: str

    def played(self) -> Replay:
        return replay(self.arena, self.steps, self.settles)

    def violation(self, played: Replay) -> Violation:
        return next(violation for violation in played.violations if label(violation) == self.wanted)


class Shrinker:
    """Keeps the smallest counterexample found so far and tries smaller ones."""

    def __init__(self, found: Counterexample, registry: Registry, ends: float) -> None:
        self.best = found
        self.ends = ends
        self.finished = True
        self.allowed = found.arena.freedoms
        self.registry = registry
        self.replays = 0

    def shrink(self) -> Counterexample | None:
        """The smallest counterexample that we find; None if the steps show no such violation."""
        if not self._try(self.best.steps):
            return None
        self._try(self.best.steps, settles=False)
        before = None
        while before != self._size():
            before = self._size()
            self._fewer_steps()
            self._simpler_steps()
            self._coarser_steps()
            self._coarsest_steps()
            self._fewer_freedoms()
            self._fewer_nodes()
            self._try(self.best.steps, settles=False)
        return self.best

    def _coarsest_steps(self) -> None:
        """Everything arrives before each other step, except on the channels that stay behind, if that is smaller."""
        before, size = self.best, self._size()
        if not any(isinstance(step, Receives) for step in before.steps) or not self._try(_coarsest(before)):
            return
        self._fewer_steps()
        self._simpler_steps()
        if self._size() >= size:
            self.best = before

    def _size(self) -> tuple[int, int, int, bool, int]:
        details = sum(len(step.but) for step in self.best.steps if isinstance(step, Arrives))
        single = sum(isinstance(step, Receives) for step in self.best.steps)
        return len(self.best.steps), single, details, self.best.settles, self.best.arena.size

    def _try(
        self,
        steps: Sequence[Step],
        settles: bool | None = None,
        arena: Arena | None = None,
        allowed: frozenset[str] | None = None,
    ) -> bool:
        """Whether these steps do it, too; if they do, they are the best."""
        if self.replays and (self.replays >= REPLAYS_MAX or time.monotonic() >= self.ends):
            self.finished = False
            return False
        self.replays += 1
        arena = arena or self.best.arena
        settles = self.best.settles if settles is None else settles
        try:
            played = replay(arena, steps, settles, allowed or self.allowed)
        except CastbedError:
            return False  # machines that cannot be on this network do not show it
        if self.best.wanted not in map(label, played.violations):
            return False
        self.best = Counterexample(arena, tuple(played.happened), settles, self.best.wanted)
        return True

    def _fewer_steps(self) -> None:
        """Delta debugging: take away ever smaller pieces, from the end."""
        size = max(1, len(self.best.steps) // 2)
        while size:
            at = len(self.best.steps)
            while at > 0:
                at = min(at, len(self.best.steps))
                steps = self.best.steps
                self._try(steps[: max(0, at - size)] + steps[at:])
                at -= size
            size //= 2

    def _simpler_steps(self) -> None:
        """Messages that answer nothing, the first copies, nothing held back."""
        for at in range(len(self.best.steps)):
            if at >= len(self.best.steps):
                return
            for simpler in _simpler(self.best.steps[at]):
                self._try((*self.best.steps[:at], simpler, *self.best.steps[at + 1 :]))

    def _coarser_steps(self) -> None:
        """Everything arrives, instead of one copy after the other, except on the channels that stay behind."""
        at = 0
        while at < len(self.best.steps):
            until = at
            while until < len(self.best.steps) and isinstance(self.best.steps[until], Receives):
                until += 1
            if until > at:
                steps = self.best.steps
                behind = _behind(self.best, until)
                if not self._try((*steps[:at], Arrives(), *steps[until:])) and until > at + 1:
                    self._try((*steps[:at], Arrives(behind), *steps[until:]))
            at = max(until, at + 1)

    def _fewer_freedoms(self) -> None:
        played = self.best.played()
        for freedom in sorted(played.used):
            before = self.allowed
            self.allowed = before - {freedom}
            if not self._try(self.best.steps):
                self.allowed = before

    def _fewer_nodes(self) -> None:
        for name in reversed([node.name for node in self.best.arena.topology.nodes]):
            smaller = without(self.best.arena.setup, name)
            if smaller is None:
                continue
            try:
                arena = Arena(smaller, self.registry, tuple(self.best.arena.properties))
            except CastbedError:
                continue
            named = set().union(*(_names(step) for step in self.best.steps)) - {""}
            if all(arena.topology.has(other) for other in named):
                arena.founding = self.best.arena.founding
                self._try(self.best.steps, arena=arena)


def minima(found: Counterexample, registry: Registry, ends: float) -> list[tuple[Counterexample, bool]]:
    """Smallest counterexamples in a larger one, each with whether it gets no smaller.

    The first, and those that are left without some sort of step that the first one needs: one schedule may break a
    property for more than one reason.
    """
    small = _shrunk(found, registry, ends)
    smaller = [small] if small is not None else []
    for sort in sorted({_sort(step) for step in small[0].steps} - {""}) if small is not None else ():
        steps = tuple(step for step in found.steps if _sort(step) != sort)
        other = _shrunk(msgspec.structs.replace(found, steps=steps), registry, ends)
        smaller += [other] if other is not None else []
    return smaller


def _shrunk(found: Counterexample, registry: Registry, ends: float) -> tuple[Counterexample, bool] | None:
    shrinker = Shrinker(found, registry, ends)
    small = shrinker.shrink()
    return None if small is None else (small, shrinker.finished)


def _sort(step: Step) -> str:
    """What a schedule may do without: a timer, a command, a loss, a move, a crash; nothing for what all have."""
    if isinstance(step, Submits | Receives | Arrives | TimePasses):
        return ""
    about = [str(getattr(step, field, "")) for field in ("timer", "command", "packet")]
    return " ".join([type(step).__name__, *about])


def _coarsest(found: Counterexample) -> tuple[Step, ...]:
    """The steps with no reception of a single copy."""
    steps: list[Step] = []
    received = False
    for at, step in enumerate(found.steps):
        if isinstance(step, Receives):
            received = True
            continue
        if received:
            steps.append(Arrives(_behind(found, at)))
        received = False
        steps.append(step)
    return (*steps, Arrives(_behind(found, len(found.steps)))) if received else tuple(steps)


def _behind(found: Counterexample, until: int) -> tuple[tuple[str, str], ...]:
    """The channels on which something is still on its way after so many steps."""
    world = replay(found.arena, found.steps[:until], settles=False).world
    name = found.arena.topology.name
    return tuple(sorted({(name(copy.sender), name(copy.to)) for copy in world.flying}))


def _simpler(step: Step) -> list[Step]:
    replace: Callable[..., Any] = msgspec.structs.replace
    if isinstance(step, Submits) and step.parent:
        return [replace(step, parent="")]
    if isinstance(step, OnCopy) and step.nth > 1:
        return [replace(step, nth=1)]
    if isinstance(step, Arrives):
        return [replace(step, but=tuple(pair for pair in step.but if pair != dropped)) for dropped in step.but]
    return []


def _names(step: Step) -> set[str]:
    names = {getattr(step, field, "") for field in ("node", "to", "sender", "station")}
    if isinstance(step, Arrives):
        names |= {name for pair in step.but for name in pair}
    if isinstance(step, Asks):
        names |= {value.partition(".")[2] for _, value in step.fields}
    if isinstance(step, Submits):
        names.add(step.group.partition(".")[2])
    return names


def without(setup: Setup, name: str) -> Setup | None:
    """The setup without a node; None where it cannot do without."""
    topology = dict(setup.topology)
    for key in ("members", "sites", "stations"):
        if name in topology.get(key, ()):
            topology[key] = [other for other in topology[key] if other != name]
    if isinstance(topology.get("coordinators"), dict):
        topology["coordinators"] = {
            own: [station for station in stations if station != name]
            for own, stations in topology["coordinators"].items()
            if own != name
        }
    if isinstance(topology.get("hosts"), dict):
        topology["hosts"] = _placed({host: at for host, at in topology["hosts"].items() if host != name}, topology)
    if topology.get("groups"):
        topology["groups"] = {
            group: [other for other in members if other != name] for group, members in topology["groups"].items()
        }
    return None if topology == dict(setup.topology) else msgspec.structs.replace(setup, topology=topology)


def _placed(hosts: dict[str, str], topology: dict[str, Any]) -> dict[str, str]:
    """The hosts where they were, those of stations that are gone at the first that is left."""
    left = [station for own in topology.get("coordinators", {}).values() for station in own]
    left = left or list(topology.get("stations", ()))
    return {host: at if at in left or not (at and left) else left[0] for host, at in hosts.items()}
