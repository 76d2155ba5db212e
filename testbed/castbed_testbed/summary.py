"""The figures of a run, from its captures and its host's report: the document of `summary.json` and `run --json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from castbed.capture import FrameStatistics
from castbed.history import History, Kind
from castbed.properties import Violation
from castbed.properties.facts import Facts, Submission
from castbed.properties.reading import facts_of
from castbed_testbed.experiment import Experiment
from castbed_testbed.report import HostReport

MILLISECOND = 1_000_000
NOTHING_DROPPED = frozenset(("waited", "small_buffer", "medium_late_us_max"))
OF_OTHERS = frozenset(("foreign", "medium_foreign", "forged", "replayed"))
OF_FAULTS = frozenset(("out_of_range", "peer_down", "unreached"))  # what mobility and crashes do
NO_LOSSES = NOTHING_DROPPED | OF_OTHERS | OF_FAULTS
"""Counters of links that do not say that a frame was lost which somebody should have got."""


def vacuous_faults(experiment: Experiment, report: HostReport) -> list[str]:
    """The faults and the mobility that were asked for and never took effect."""
    return [name for name in experiment.asked_for() if not report.effects.get(name)]


def lost_on_links(links: Mapping[str, int]) -> dict[str, int]:
    """What the links dropped that they should have carried, by reason."""
    return {reason: count for reason, count in links.items() if count and reason not in NO_LOSSES}


def history_figures(history: History, frames: FrameStatistics) -> dict[str, Any]:
    """What the captures say."""
    submitted = sum(len(events) for events in history.submissions.values())
    delivered = history.of(Kind.DELIVER)
    copies = Counter((event.node, event.message) for event in delivered)
    return {
        "submitted": submitted,
        "delivered": len(delivered),
        "expected": _expected(history),
        "duplicates": sum(count - 1 for count in copies.values()),
        "held_at_end": _held_at_end(history),
        "latency_ms": _latency(history),
        "control_bytes": {
            "mean": round(frames.control_bytes / frames.message_frames, 3) if frames.message_frames else 0,
            "max": frames.control_bytes_max,
        },
        "frames": frames.frames,
    }


def property_figures(violations: dict[str, list[Violation]]) -> dict[str, Any]:
    return {name: {"holds": not found, "violations": len(found)} for name, found in violations.items()}


def report_figures(report: HostReport, experiment: Experiment, wall_s: float) -> dict[str, Any]:
    """What only the host knows."""
    return {
        "events": report.events,
        "virtual_s": round(report.virtual_ns / 1e9, 6),
        "wall_s": round(wall_s, 3),
        "dropped": report.dropped,
        "oversize": report.oversize,
        "links": report.links,
        "faults": {name: report.effects.get(name, 0) for name in _reported(experiment, report)},
        "vacuous": vacuous_faults(experiment, report),
    }


def _reported(experiment: Experiment, report: HostReport) -> list[str]:
    asked = experiment.asked_for()
    return asked + [name for name in sorted(report.effects) if name not in asked]


def _expected(history: History) -> int:
    """How many deliveries the run owes: each message at each node that stays in its group and joined before it.

    Where `recovery` is guaranteed, at each node that is present at the end.
    """
    facts = facts_of(history)
    if "recovery" in history.identity.guarantees:
        return sum(len(_present(facts, submission)) for submission in facts.submissions.values())
    return sum(len(facts.owed(submission)) for submission in facts.submissions.values())


def _present(facts: Facts, submission: Submission) -> set[int]:
    """Who is there at the end and was meant."""
    present = facts.present[submission.event.group]
    return present if submission.event.to is None else present & set(submission.event.to)


def _held_at_end(history: History) -> int:
    held: set[tuple[int, tuple[int, Any]]] = set()
    for event in history.events:
        if event.kind == Kind.HOLD:
            held.add((event.node, event.message))
        elif event.kind == Kind.DELIVER:
            held.discard((event.node, event.message))
        elif event.kind == Kind.CRASH:
            held = {entry for entry in held if entry[0] != event.node}
    return len(held)


def _latency(history: History) -> dict[str, float]:
    submissions = history.submissions
    delays = sorted(
        event.at - submissions[event.message][0].at
        for event in history.of(Kind.DELIVER)
        if event.message in submissions
    )
    if not delays:
        return {"mean": 0, "p50": 0, "p99": 0}
    mean = sum(delays) / len(delays)
    return {name: round(value / MILLISECOND, 6) for name, value in
            (("mean", mean), ("p50", _quantile(delays, 0.5)), ("p99", _quantile(delays, 0.99)))}  # fmt: skip


def _quantile(ordered: Sequence[int], share: float) -> int:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
