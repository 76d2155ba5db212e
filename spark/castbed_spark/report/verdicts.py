"""Verdicts and witnesses of runs that fit into memory: what their protocols guarantee, judged over the stored tables.

So what is judged is what the plots show: the same events, damage skipped in the same way, on the same timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from castbed.history import History, Kind, LocalEvent
from castbed.properties.reading import facts_of
from castbed.registry import Registry
from castbed_spark.report.document import Property, Witness
from castbed_spark.report.labels import Labels, MessageKey, words
from castbed_spark.report.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WITNESSES_MAX = 5  # per property: nobody reads more
EVENTS_MAX = 40  # per witness

When = Callable[[LocalEvent], float]
"""Seconds from the start of the run to an event."""


class Judged(msgspec.Struct, frozen=True):
    """The verdicts of a run, the messages that witnesses are about, and how many deliveries it owed (None: unknown)."""

    properties: list[Property]
    messages: list[MessageKey]
    expected: int | None = None


def judge_in_memory(
    events: DataFrame, nodes: DataFrame, registry: Registry, timelines: dict[str, Timeline], labels: dict[str, Labels]
) -> dict[str, Judged]:
    """Judge the runs of `timelines`, each by its guarantees, one after the other."""
    import pyarrow.compute as pc

    from castbed_spark.checks.histories import Part
    from castbed_spark.checks.judging import identities_of
    from castbed_spark.checks.lanes import EVENT_COLUMNS, laned
    from castbed_spark.checks.parts import named

    kept = laned(events.select(*EVENT_COLUMNS, "peer", "stations", "text"))
    table = named(kept, identities_of(nodes)).toArrow()
    return {
        run: judge(Part(table.filter(pc.field("run") == run)).history, registry, line, labels[run])
        for run, line in timelines.items()
    }


def judge(history: History, registry: Registry, timeline: Timeline, labels: Labels) -> Judged:
    """Judge a run by the guarantees that its captures name."""
    violations = registry.violations(history, history.identity.guarantees, "guarantees")
    told = {name: found[:WITNESSES_MAX] for name, found in violations.items()}

    def when(event: LocalEvent) -> float:
        return timeline.at(event.at)

    properties = [
        Property(name, not found, len(found), [witness(one.words, one.events, when, labels) for one in told[name]])
        for name, found in violations.items()
    ]
    events = [event for shown in told.values() for violation in shown for event in violation.events]
    return Judged(properties, messages_of(events), _expected(history))


def _expected(history: History) -> int:
    """How many deliveries the run owes; where `recovery` is guaranteed, to everybody who is there at the end."""
    facts = facts_of(history)
    if "recovery" not in history.identity.guarantees:
        return sum(len(facts.owed(submission)) for submission in facts.submissions.values())
    meant = (
        facts.present[event.group] if event.to is None else facts.present[event.group] & set(event.to)
        for event in (submission.event for submission in facts.submissions.values())
    )
    return sum(map(len, meant))


# --- witnesses, however the run was judged ---------------------------------------------------------------------------


def messages_of(events: Iterable[LocalEvent]) -> list[MessageKey]:
    """The messages that events are about, each once."""
    return list(dict.fromkeys(_key(event) for event in events if event.mid is not None))


def witness(said: str, events: Sequence[LocalEvent], when: When, labels: Labels) -> Witness:
    """A witness from its words and its events."""
    shown = events[:EVENTS_MAX]
    return Witness(
        said,
        [f"{when(event):.6f} s: {_does(event, labels)}" for event in shown],
        [(when(event), event.node - 1, event.kind.name.lower(), _about(event, labels)) for event in shown],
        [labels.message(key) for key in messages_of(events)],
    )


def _key(event: LocalEvent) -> MessageKey:
    assert event.mid is not None
    return event.group, event.mid.sender, event.mid.seqno, event.mid.incarnation


def _does(event: LocalEvent, labels: Labels) -> str:
    return f"{labels.node(event.node)} {words(event.kind)} {_about(event, labels)}".rstrip()


def _about(event: LocalEvent, labels: Labels) -> str:
    if event.mid is not None:
        return labels.message(_key(event))
    if event.kind == Kind.VIEW:
        return labels.view(event.number, event.members)
    if event.kind in (Kind.JOIN, Kind.LEAVE):
        return f"group {labels.group(event.group)}"
    return labels.node(event.peer) if event.peer else event.text
