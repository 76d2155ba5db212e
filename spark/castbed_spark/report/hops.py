"""Copies of frames, from where they were sent to where they came. Frames have no numbers: those that look alike match.

A copy that came is drawn from the last like frame that its sender had sent before, to it or to everybody.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from castbed_spark.report.document import Hop
from castbed_spark.report.kinds import Names, kind_name
from castbed_spark.report.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import Row

_LIKENESS = ("medium", "sender", "family", "kind", "control_bytes", "payload_bytes")


def hops(frames: list[Row], timeline: Timeline, names: Names) -> list[Hop]:
    """A hop for each copy that came, from the frame that it is a copy of."""
    sent: dict[tuple[Any, ...], list[tuple[int, int | None]]] = defaultdict(list)
    for row in sorted(frames, key=lambda row: row["at"]):
        if row["outgoing"]:
            sent[_likeness(row)].append((row["at"], row["to"]))
    found = []
    for row in sorted(frames, key=lambda row: (row["at"], row["node"])):
        if row["outgoing"] or row["sender"] == row["node"]:
            continue
        at = _sent_at(sent[_likeness(row)], row)
        if at is not None:
            kind = kind_name(names, row["family"], row["kind"])
            found.append((timeline.at(at), row["sender"] - 1, timeline.at(row["at"]), row["node"] - 1, kind))
    return found


def _likeness(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _LIKENESS)


def _sent_at(sent: list[tuple[int, int | None]], row: Row) -> int | None:
    """When the last frame was sent that was for this node; the first one if clocks say that none was yet."""
    times = [at for at, to in sent if to is None or to == row["node"]]
    return times[max(bisect_right(times, row["at"]) - 1, 0)] if times else None
