"""The figures that a report opens with, and what is wrong with the captures."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.report.document import Fault
from castbed_spark.report.timeline import Cast, Timeline
from castbed_spark.tables.buffers import HELD
from castbed_spark.tables.columns import MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

SUMMARY = "summary.json"
_VISIBLE_FAULTS = {Kind.CRASH: "crashes", Kind.RESTART: "restarts", Kind.DETACH: "detachments"}
_DAMAGE = {
    "bad_blocks": "damaged blocks were skipped",
    "bad_records": "event records were skipped",
    "foreign": "foreign frames were skipped",
}


def duplicates(deliveries: DataFrame) -> dict[str, int]:
    """By run, how often a node delivered a message that it had delivered."""
    per_node = deliveries.groupBy(*MESSAGE, "node").agg(F.sum("copies").alias("copies"))
    repeated = per_node.groupBy("run").agg(F.sum(F.col("copies") - 1).alias("repeated"))
    return {row["run"]: row["repeated"] for row in repeated.collect()}


def held_at_end(buffers: DataFrame) -> dict[str, int]:
    """By run, how many messages nodes still held back at the end."""
    last = buffers.filter(F.col("what") == HELD).groupBy("run", "node").agg(F.max_by("value", "place").alias("value"))
    return {row["run"]: row["value"] for row in last.groupBy("run").agg(F.sum("value").alias("value")).collect()}


def damage(captures: DataFrame, casts: dict[str, Cast], clocks: dict[str, list[Row]]) -> dict[str, list[str]]:
    """By run, what is missing or damaged, in words."""
    found: dict[str, list[str]] = defaultdict(list)
    sums = [F.sum(name).alias(name) for name in _DAMAGE]
    per_node = captures.groupBy("run", "node").agg(*sums, F.max("cut").alias("cut"))
    for row in captures.filter("node is null").orderBy("run", "file").collect():
        found[row["run"]].append(f"{Path(row['file']).name}: no capture of Castbed, ignored")
    for row in per_node.filter("node is not null").orderBy("run", "node").collect():
        name = casts[row["run"]].name(row["node"])
        found[row["run"]] += [f"{name}: {row[what]} {words}" for what, words in _DAMAGE.items() if row[what]]
        if row["cut"]:
            found[row["run"]].append(f"{name}: the capture ends inside a block")
    for run, cast in casts.items():
        bent = [cast.name(row["node"]) for row in clocks.get(run, ()) if not row["straight"]]
        found[run] += [f"{name}: its clock was set or slewed during the run, so its times are rough" for name in bent]
        found[run] += [f"{name}: no capture" for name in cast.silent]
    return found


def faults(directory: Path, timeline: Timeline) -> list[Fault]:
    """What took effect: as the run's summary says; without one, what the captures show."""
    try:
        stated = json.loads((directory / SUMMARY).read_text(encoding="utf-8"))["faults"]
        return [Fault(str(name), int(count)) for name, count in stated.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        shown = ((name, timeline.counts.get(kind, 0)) for kind, name in _VISIBLE_FAULTS.items())
        return [Fault(name, count) for name, count in shown if count]
