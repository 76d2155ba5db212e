"""Steps played again: exactly, or as far as they still make sense when others were taken away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from castbed.errors import ConfigurationError
from castbed.events import Event
from castbed.properties import Violation
from castbed.values import NodeNumber
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.closing import settle
from castbed_testbed.explore.freedoms import AIR_OVERTAKING, WIRE_OVERTAKING, WORDS
from castbed_testbed.explore.judging import for_good, stumbled, violations_of
from castbed_testbed.explore.naming import check_names, operation_of
from castbed_testbed.explore.rules import SPARED, freedom_used
from castbed_testbed.explore.steps import Arrives, Step, words
from castbed_testbed.explore.world import Copy, Operation, StumbledError, World

OVERTAKING = frozenset({AIR_OVERTAKING, WIRE_OVERTAKING})


class WatchedWorld(World):
    """A world that remembers what each node was shown when, and whether a machine stumbled over its start."""

    def __init__(self, arena: Arena) -> None:
        self.shown: dict[tuple[NodeNumber, int], Event] = {}
        self.stumbled: StumbledError | None = None
        super().__init__(arena)

    def _begin(self) -> None:
        try:
            super()._begin()
        except StumbledError as error:
            self.stumbled = error

    def _step(self, node: NodeNumber, event: Event) -> None:
        self.shown[node, self.now] = event
        super()._step(node, event)


class Replay:
    """What came of playing steps: those that happened, the freedoms they used, what they violate."""

    def __init__(self, world: WatchedWorld) -> None:
        self.world = world
        self.happened: list[Step] = []
        self.used: set[str] = set()
        self.put_off: set[tuple[str, str]] = set()  # packet types that steps hold back (late) or let be overtaken
        self.violations: list[Violation] = []

    def play(self, steps: Iterable[Step], settles: bool, allowed: frozenset[str]) -> None:
        """Do every step that can happen and that the freedoms allow, then settle and judge.

        Of a world that is not at rest only what nothing can mend is believed.
        """
        try:
            if self.world.stumbled is not None:
                raise self.world.stumbled
            for step in steps:
                self._do(step, allowed)
            if settles:
                settle(self.world)
            self.violations = [one for one in violations_of(self.world) if settles or for_good(one)]
        except StumbledError as error:
            self.violations = [stumbled(self.world.arena, self.world.events, error)]

    def _do(self, step: Step, allowed: frozenset[str]) -> None:
        operation = operation_of(self.world, step)
        if operation is None:
            return
        freedom = freedom_used(self.world, operation)
        if freedom is None or freedom in allowed:
            if freedom is not None:
                self.used.add(freedom)
            self.happened.append(step)
            if freedom in OVERTAKING:
                self.put_off.add(("overtaken", type(_overtaken(self.world, operation).packet).__name__))
            self.world.again(operation)
            if isinstance(step, Arrives) and step.but:
                held_back = (copy for copy in self.world.flying if (copy.sender, copy.to) in operation[1])
                self.put_off.update(("late", type(copy.packet).__name__) for copy in held_back)


def _overtaken(world: World, operation: Operation) -> Copy:
    """The copy that would be the next on the channel of the one that is received."""
    return world.oldest(next(copy for copy in world.flying if copy.serial == operation[1]))


def replay(arena: Arena, steps: Sequence[Step], settles: bool = True, allowed: frozenset[str] | None = None) -> Replay:
    """Play steps as far as they make sense; `allowed` are the freedoms, by default those of the arena."""
    played = Replay(WatchedWorld(arena))
    played.play(steps, settles, arena.freedoms if allowed is None else allowed)
    return played


class ExactReplay(Replay):
    """Every step has to happen; one that cannot is a ConfigurationError that names it."""

    def _do(self, step: Step, allowed: frozenset[str]) -> None:
        where = f"step {len(self.happened) + 1} ({words(step)})"
        try:
            check_names(self.world, step)
            operation = operation_of(self.world, step)
        except (ConfigurationError, ValueError) as error:
            raise ConfigurationError(where, str(error)) from None
        if operation is None:
            raise ConfigurationError(where, "cannot happen here: nothing like that is there now")
        freedom = freedom_used(self.world, operation)
        if freedom is not None and freedom not in allowed:
            variant = f"{self.world.arena.setup.protocol} ({self.world.arena.setup.variant})"
            spared = "a crash of a node that has to stay up"
            what = WORDS.get(freedom, spared if freedom == SPARED else "this, which no network and no node does now")
            raise ConfigurationError(where, f"uses {what}, which the model of {variant} does not allow")
        super()._do(step, allowed)
