"""Each run on a timeline of its own that starts at 0: when it began, how long it took, who took part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.report.document import Clock, Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

SECOND = 1_000_000_000
MICROSECOND = 1_000
PPM = 1e-6
DIGITS = 7  # of a second: finer than any plot shows


class Timeline(msgspec.Struct, frozen=True):
    """When a run began and ended, in nanoseconds of its reference node; how often and when last each kind occurred."""

    start: int
    end: int
    counts: dict[Kind, int]
    last: dict[Kind, int]

    @property
    def span(self) -> int:
        return max(self.end - self.start, 1)

    def until(self, *kinds: Kind) -> Timeline:
        """The part of it up to the last event of these kinds."""
        last = max((self.last[kind] for kind in kinds if kind in self.last), default=self.end)
        return msgspec.structs.replace(self, end=last)

    @property
    def seconds(self) -> float:
        return round((self.end - self.start) / SECOND, DIGITS)

    def at(self, aligned: float) -> float:
        """Seconds since the start, of a time that is on the reference's clock already."""
        return round((aligned - self.start) / SECOND, DIGITS)


class Head(msgspec.Struct, frozen=True):
    """What the captures of a run say about it."""

    protocol: str
    variant: str
    transport: str
    model: str
    seed: int


class Cast(msgspec.Struct, frozen=True):
    """Who took part in a run, and the numbers of those who left a capture."""

    head: Head
    nodes: list[Node]
    captured: frozenset[int] = frozenset()

    def name(self, number: int) -> str:
        return self.nodes[number - 1].name if 0 < number <= len(self.nodes) else f"#{number}"

    @property
    def silent(self) -> list[str]:
        """The nodes that left no capture."""
        return [node.name for number, node in enumerate(self.nodes, 1) if number not in self.captured]


def casts(nodes: DataFrame) -> dict[str, Cast]:
    """The cast of each run, from the table `nodes`; a node without a capture has no role."""
    found: dict[str, list[Row]] = {}
    for row in nodes.orderBy("run", "node").collect():
        found.setdefault(row["run"], []).append(row)
    return {run: _cast(rows) for run, rows in found.items()}


def _cast(rows: list[Row]) -> Cast:
    roles = {row["node"]: row["role"] for row in rows}
    nodes = [Node(name, roles.get(number, "")) for number, name in enumerate(rows[0]["names"], 1)]
    return Cast(Head(*(rows[0][name] for name in Head.__struct_fields__)), nodes, frozenset(roles))


def timelines(events: DataFrame) -> dict[str, Timeline]:
    """The timeline of each run, from the aligned `events`."""
    spans = events.groupBy("run", "kind").agg(
        F.min("at").alias("first"), F.max("at").alias("last"), F.count(F.lit(1)).alias("count")
    )
    found: dict[str, list[Row]] = {}
    for row in spans.collect():
        found.setdefault(row["run"], []).append(row)
    return {run: _timeline(rows) for run, rows in found.items()}


def _timeline(rows: list[Row]) -> Timeline:
    counts = {Kind(row["kind"]): row["count"] for row in rows}
    last = {Kind(row["kind"]): row["last"] for row in rows}
    return Timeline(min(row["first"] for row in rows), max(last.values()), counts, last)


def by_run(clocks: DataFrame) -> dict[str, list[Row]]:
    """The rows of the table `clocks`, run by run."""
    found: dict[str, list[Row]] = {}
    for row in clocks.orderBy("run", "node").collect():
        found.setdefault(row["run"], []).append(row)
    return found


def clock_list(rows: list[Row], cast: Cast) -> list[Clock]:
    return [
        Clock(
            cast.name(row["node"]),
            row["offset_ns"] / MICROSECOND,
            row["drift"] / PPM,
            None if row["error_ns"] is None else row["error_ns"] / MICROSECOND,
        )
        for row in rows
    ]
