"""Verdicts of runs that do not fit into memory: judged by Spark over the tables, with one witness per property."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.history import Kind, LocalEvent
from castbed.registry import Registry
from castbed.values import Mid
from castbed_spark.report.document import Property
from castbed_spark.report.labels import Labels
from castbed_spark.report.timeline import Timeline
from castbed_spark.report.verdicts import Judged, messages_of, witness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

EVENTS_IN_MEMORY_MAX = 500_000  # of all runs together: half a minute and about a gigabyte

Place = tuple[str, int, int]
"""Run, node, and place in its capture."""


def judge_at_scale(
    events: DataFrame, nodes: DataFrame, registry: Registry, timelines: dict[str, Timeline], labels: dict[str, Labels]
) -> dict[str, Judged]:
    """Judge the runs of `timelines`, each by its guarantees."""
    from castbed_spark.checks import judge

    mine = F.col("run").isin(list(timelines))
    tables = {"events": events.filter(mine), "nodes": nodes.filter(mine)}
    rows = judge(events.sparkSession, tables, registry=registry).collect()
    shown = _located(tables["events"], rows)
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_run[row["run"]].append(row)
    return {run: _judged(by_run[run], shown, timelines[run], labels[run]) for run in timelines}


def _judged(rows: list[Row], shown: dict[Place, LocalEvent], timeline: Timeline, labels: Labels) -> Judged:
    properties, told = [], []
    for row in rows:
        found = [shown[row["run"], one["node"], one["place"]] for one in row["events"] or ()]
        found.sort(key=lambda event: event.at)
        witnesses = [] if row["holds"] else [witness(row["witness"], found, lambda e: timeline.at(e.at), labels)]
        properties.append(Property(row["property"], row["holds"], row["violations"], witnesses))
        told += found
    return Judged(properties, messages_of(told))


def _located(events: DataFrame, rows: list[Row]) -> dict[Place, LocalEvent]:
    """The events of the witnesses, from where they are in the captures."""
    places = [(row["run"], one["node"], one["place"]) for row in rows for one in row["events"] or ()]
    if not places:
        return {}
    wanted = events.sparkSession.createDataFrame(places, "run string, node int, place bigint").distinct()
    found = events.join(F.broadcast(wanted), ["run", "node", "place"]).collect()
    return {(row["run"], row["node"], row["place"]): _event(row) for row in found}


def _event(row: Row) -> LocalEvent:
    mid = None if row["origin"] is None else Mid(row["origin"], row["seqno"], row["incarnation"])
    return LocalEvent(
        row["node"], row["at"], Kind(row["kind"]), row["group"], mid, number=row["number"], peer=row["peer"],
        members=tuple(row["members"] or ()), text=row["text"] or "",
    )  # fmt: skip
