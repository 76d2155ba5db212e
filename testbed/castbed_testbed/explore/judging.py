"""What a world violates. Properties that speak of the end are believed only of a world that has come to rest."""

from __future__ import annotations

from collections.abc import Sequence

from castbed.events import Event
from castbed.history import LocalEvent
from castbed.packets import Packet
from castbed.properties import Violation
from castbed.registry import Registry
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.closing import gather, settle
from castbed_testbed.explore.innocence import Innocence
from castbed_testbed.explore.naming import timer_text
from castbed_testbed.explore.script import Script
from castbed_testbed.explore.world import StumbledError, World

CONTRACT = "contract"  # the property that machines raise nothing but PeerError, and come to rest
_AT_ONCE = frozenset(
    {
        "integrity", "no_duplication", "fifo", "causal", "semantic", "total", "acyclic_total", "no_needless_wait",
        "self_inclusion", "view_monotonicity", "sending_view_delivery", "same_view_delivery", CONTRACT,
    }
)  # fmt: skip
_ABSENT = frozenset({"missing", "parent-missing"})


def label(violation: Violation) -> str:
    return f"{violation.property}/{violation.kind}" if violation.kind else violation.property


def arena_of(script: Script, registry: Registry) -> Arena:
    """Where a script plays: it is judged by all that its variant guarantees, and by what it expects besides."""
    named = (expected.partition("/")[0] for expected in script.expects)
    return Arena(script.setup, registry, besides=tuple(name for name in named if name != CONTRACT))


def for_good(violation: Violation) -> bool:
    """Whether nothing that happens later can mend it; only then is it shown by a world that is not at rest."""
    if violation.property == "exactly_once":
        return violation.kind == "repeated"
    return violation.property in _AT_ONCE and violation.kind not in _ABSENT


def innocence_of(arena: Arena) -> Innocence:
    """The quick look at worlds of this arena; only for arenas that are judged quickly."""
    if arena.innocence is None:
        arena.innocence = Innocence(arena.checks, arena.topology.groups, World(arena).events)
    return arena.innocence


def violations_of(world: World) -> list[Violation]:
    """By the properties of the arena, as the world is now."""
    if world.arena.judged_quickly and innocence_of(world.arena).acquits(world.events):
        return []
    history = world.history()
    return [violation for check in world.arena.checks.values() for violation in check(history)]


def end(world: World, patient: bool) -> list[Violation]:
    """Bring a schedule to its end and judge it.

    Unless one is `patient`, the end is where everything holds: once all is delivered, or after a round of timers.
    """
    gather(world)
    if not patient and not violations_of(world):
        return []
    settle(world, None if patient else lambda: not violations_of(world))
    return violations_of(world)


def stumbled(arena: Arena, events: Sequence[LocalEvent], error: StumbledError) -> Violation:
    """The violation of the contract that an error is; `events` are those of its world."""
    words = f"{arena.topology.name(error.node)} {error.words} when {trigger(error.event)}."
    last = [event for event in events if event.node == error.node][-1:]
    return Violation(CONTRACT, words, tuple(last), error.kind)


def trigger(event: Event) -> str:
    """What a machine was shown, in a few words."""
    if isinstance(event.first, Packet):
        return f"{type(event.first).__name__} comes"
    if event.key == "expired":
        return f"{timer_text(event.first)} fires"
    return event.key.__name__ if isinstance(event.key, type) else str(event.key)
