"""Which kind of violation a counterexample shows, so that different mistakes are counted apart.

A kind is the property, the way in which it is broken, what the node at fault was shown when it broke it, and the
freedoms that the smallest script needs.
"""

from __future__ import annotations

from castbed.events import Event
from castbed.history import Kind
from castbed.packets import Packet
from castbed.properties import Violation
from castbed_testbed.explore.freedoms import WORDS
from castbed_testbed.explore.judging import CONTRACT, for_good, label
from castbed_testbed.explore.naming import timer_text
from castbed_testbed.explore.replaying import Replay
from castbed_testbed.explore.steps import Arrives, Duplicated, Fires, Lost, Step

_DONE = (Kind.DELIVER, Kind.HOLD, Kind.VIEW)


def situation(replay: Replay, violation: Violation) -> str:
    """Where it happened and on what: `host on McastDel`; for what is missing, what the script puts off or loses."""
    done = [event for event in violation.events if event.kind in _DONE or violation.property == CONTRACT]
    if not done or not for_good(violation):
        return ", ".join(sorted({about for step in replay.happened for about in _put_off(replay, step)}))
    last = max(done, key=lambda event: event.at)
    role = replay.world.arena.topology.role(last.node)
    event = replay.world.shown.get((last.node, last.at))
    return f"{role} on {_trigger(event)}" if event is not None else role


def _put_off(replay: Replay, step: Step) -> list[str]:
    """Packets and channels that a step treats apart from all others."""
    if isinstance(step, Lost | Duplicated):
        return [f"{type(step).__name__.lower()} {step.packet}"]
    if isinstance(step, Fires):
        return [step.timer.rpartition("/")[2].partition("(")[0]]
    if isinstance(step, Arrives):
        role = replay.world.arena.topology
        return [f"slow {role.role(role.number(one))} to {role.role(role.number(other))}" for one, other in step.but]
    return []


def _trigger(event: Event) -> str:
    if isinstance(event.first, Packet):
        return type(event.first).__name__
    if event.key == "expired":
        return timer_text(event.first).rpartition("/")[2]
    return event.key.__name__ if isinstance(event.key, type) else str(event.key)


def signature(replay: Replay, violation: Violation) -> str:
    """The kind as far as one can tell before shrinking."""
    where = situation(replay, violation)
    return f"{label(violation)} at {where}" if where and for_good(violation) else label(violation)


def kind_core(replay: Replay, violation: Violation) -> str:
    """How and where the property is broken, whatever it takes to get there."""
    where, at = situation(replay, violation), "at" if for_good(violation) else "after"
    return f"{violation.kind or 'violated'} {at} {where}" if where else violation.kind or "violated"


def kind_text(replay: Replay, violation: Violation) -> str:
    """The kind of a counterexample that is as small as it gets, without its property."""
    needed = [WORDS[freedom] for freedom in WORDS if freedom in replay.used]
    return kind_core(replay, violation) + (f", with {', '.join(needed)}" if needed else "")
