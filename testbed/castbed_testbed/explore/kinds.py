"""Which kind of violation a counterexample shows, so that different mistakes are counted apart.

A kind is the property, the way in which it is broken, what the node at fault was shown when it broke it, and what the
smallest script consists of: what it makes late, loses or lets overtake, which timers run out, who crashes, what users
ask, and the freedoms that all this needs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from castbed.events import Event
from castbed.history import Kind
from castbed.packets import Packet, command_name
from castbed.properties import Violation
from castbed_testbed.explore.founding import founding_of
from castbed_testbed.explore.freedoms import WORDS
from castbed_testbed.explore.judging import CONTRACT, for_good, label
from castbed_testbed.explore.naming import timer_text
from castbed_testbed.explore.replaying import Replay
from castbed_testbed.explore.steps import Asks, Crashes, Duplicated, Fires, Lost, Moves, Step

_DONE = (Kind.DELIVER, Kind.HOLD, Kind.VIEW)


def situation(replay: Replay, violation: Violation) -> str:
    """Where it happened and on what: `host on McastDel`; nothing for what is missing, which happened nowhere."""
    done = [event for event in violation.events if event.kind in _DONE or violation.property == CONTRACT]
    if not done or not for_good(violation):
        return ""
    last = max(done, key=lambda event: event.at)
    role = replay.world.arena.topology.role(last.node)
    event = replay.world.shown.get((last.node, last.at))
    return f"{role} on {_trigger(event)}" if event is not None else role


def _trigger(event: Event) -> str:
    if isinstance(event.first, Packet):
        return type(event.first).__name__
    if event.key == "expired":
        return timer_text(event.first).rpartition("/")[2]
    return event.key.__name__ if isinstance(event.key, type) else str(event.key)


class Ingredient(NamedTuple):
    """Something that a step does: to packets of a type, with a command, or (about nothing) with a node or a timer."""

    how: str
    about: str = ""

    def __str__(self) -> str:
        return f"{self.how} {self.about}".strip()


def ingredients(replay: Replay) -> frozenset[Ingredient]:
    """What the steps consist of, besides messages: `late Insert`, `lost Greet`, `leave`, `T_REQ`, `crash of host`."""
    put_off = {Ingredient(how, packet) for how, packet in replay.put_off}
    return frozenset(put_off.union(*(_of_step(replay, step) for step in replay.happened), _asked(replay)))


def _of_step(replay: Replay, step: Step) -> set[Ingredient]:
    if isinstance(step, Lost | Duplicated):
        return {Ingredient(type(step).__name__.lower(), step.packet)}
    if isinstance(step, Fires):
        parts = [part.partition("(")[0] for part in step.timer.split("/")]
        return {Ingredient(next((part for part in reversed(parts) if not part.isdigit()), step.timer))}
    if isinstance(step, Crashes):
        topology = replay.world.arena.topology
        return {Ingredient("crash of", topology.role(topology.number(step.node)))}
    return set()


def _asked(replay: Replay) -> set[Ingredient]:
    """The commands that were given, except for making groups."""
    asked = {step.command for step in replay.happened if isinstance(step, Asks)}
    making = {command_name(command) for command in founding_of(replay.world.arena).making} if asked else set()
    return {Ingredient("", command) for command in asked - making} | _moved_before(replay)


def _moved_before(replay: Replay) -> set[Ingredient]:
    """Which commands a move comes right before: a user that moves and leaves is not one that leaves and moves."""
    lines = [step for step in replay.happened if isinstance(step, Asks | Moves)]
    pairs = ((one, other) for one, other in pairwise(lines) if isinstance(one, Moves) and isinstance(other, Asks))
    return {Ingredient("", f"move before {other.command}") for _, other in pairs}


def signature(replay: Replay, violation: Violation) -> str:
    """The kind as far as one can tell before shrinking."""
    where = situation(replay, violation)
    return f"{label(violation)} at {where}" if where else label(violation)


def kind_core(replay: Replay, violation: Violation) -> str:
    """How and where the property is broken, whatever it takes to get there."""
    where, how = situation(replay, violation), violation.kind or "violated"
    return f"{how} at {where}" if where else how


def kind_text(replay: Replay, violation: Violation) -> str:
    """The kind of a counterexample that is as small as it gets, without its property."""
    needed = [WORDS[freedom] for freedom in WORDS if freedom in replay.used]
    consists = ", ".join(sorted(map(str, ingredients(replay))))
    core = kind_core(replay, violation) + (f" after {consists}" if consists else "")
    return core + (f", with {', '.join(needed)}" if needed else "")
