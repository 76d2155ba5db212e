"""`no_needless_wait` at scale: for each message that was held back, the last that it had to wait for.

Where a run guarantees `semantic`, these are the messages that it answers, directly or through others; else the messages
of its past. Only what a node delivered while it held the message is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.checks.causality import bound
from castbed_spark.checks.histories import arrow_schema
from castbed_spark.checks.lanes import MESSAGE, MID, PARENT, first_deliveries, first_submissions, is_kind
from castbed_spark.checks.orders import counted, event

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from castbed_spark.checks.causality import Causality

BUCKET_BITS = 14  # of a place in a capture: some hundred records share a bucket
_WAIT = ("run", "node", "hold_place", "place")
_JUDGED = "run string, node int, hold_place bigint, place bigint, waited_place bigint, at bigint, waited_at bigint"


def no_needless_wait(causality: Causality, holds: DataFrame, identities: DataFrame) -> DataFrame:
    """Rows (run, property, violations, shown) for runs in which `no_needless_wait` is violated."""
    semantic = holds.join(F.broadcast(identities.filter("semantic").select("run")), "run", "left_semi")
    others = holds.join(F.broadcast(identities.filter("not semantic").select("run")), "run", "left_semi")
    wrong = after_ancestors(causality.lanes, semantic).unionByName(after_past(causality, others, identities))
    sources = holds.select(*_WAIT, *MESSAGE[1:]).join(first_submissions(causality.lanes), list(MESSAGE), "left")
    shown = F.array(
        event("s_node", "s_place"), event("node", "hold_place"), event("node", "waited_place"), event("node", "place")
    )
    return counted(wrong.join(sources, list(_WAIT)), "no_needless_wait", shown, F.struct("node", "place"))


# --- after the past --------------------------------------------------------------------------------------------------


def after_past(causality: Causality, holds: DataFrame, identities: DataFrame) -> DataFrame:
    """The waits that went on after the last message of the past, or began without need."""
    messages = causality.messages.select(*MESSAGE, "thread", "count")
    known = holds.join(messages, list(MESSAGE)).join(causality.pasts, ["run", "thread", "count"])
    waited = _last_of_past(causality, known)
    judged = known.select(*_WAIT, "memory", "at", "past").join(waited, list(_WAIT), "left")
    late = judged.filter("waited_at != at")
    needless = judged.filter("waited_at is null")
    if not causality.in_order:
        needed = _with_missing(causality, needless, identities)
        needless = needless.join(needed, ["run", "node", "place"], "left_anti")
    return late.unionByName(needless).select(*_WAIT, "waited_place")


def _last_of_past(causality: Causality, known: DataFrame) -> DataFrame:
    """By wait, place and time of the last delivery meanwhile that is of its past."""
    meanwhile = causality.moves.filter("not submits").select(
        "run", "node", F.shiftright("place", BUCKET_BITS).alias("bucket"), F.col("place").alias("waited_place"),
        F.col("thread").alias("w_thread"), F.col("count").alias("w_count"),
    )  # fmt: skip
    buckets = F.sequence(F.shiftright("hold_place", BUCKET_BITS), F.shiftright("place", BUCKET_BITS))
    pairs = known.select(*_WAIT, "past", F.explode(buckets).alias("bucket")).join(meanwhile, ["run", "node", "bucket"])
    inside = pairs.filter("waited_place > hold_place and waited_place < place and past[w_thread] >= w_count")
    last = inside.groupBy(*_WAIT).agg(F.max("waited_place").alias("waited_place"))
    times = causality.lanes.filter(is_kind(Kind.DELIVER)).select(
        "run", "node", F.col("place").alias("waited_place"), F.col("at").alias("waited_at")
    )
    return last.join(times, ["run", "node", "waited_place"])


def _with_missing(causality: Causality, needless: DataFrame, identities: DataFrame) -> DataFrame:
    """Those waits at whose end something of the past was still missing that the node was bound to deliver."""
    late = causality.overtaken.withColumnRenamed("place", "overtaken_place").drop("d_thread", "d_count")
    pairs = needless.drop("at", "waited_at", "waited_place").join(late, ["run", "node", "memory"])
    missing = pairs.filter(
        "overtaken_place <= place and past[thread] >= count and (late_place is null or late_place > place)"
    )
    marked = missing.withColumn("until", F.col("hold_place"))
    return bound(causality, marked, identities).select("run", "node", "place").distinct()


# --- after ancestors -------------------------------------------------------------------------------------------------


def after_ancestors(lanes: DataFrame, holds: DataFrame) -> DataFrame:
    """The waits that went on after the last ancestor was delivered, or began without need."""
    firsts = first_deliveries(lanes)
    parents = firsts.select(
        "run", "node", "memory", "group", *(F.col(name).alias(f"parent_{name}") for name in MID),
        F.col("place").alias("parent_place"),
    )  # fmt: skip
    keys = ["run", "node", "memory", "group", *PARENT]
    releases = holds.join(parents, keys, "left").select(
        "run", "node", "place", "hold_place", F.col("parent_place").alias("hold_parent_place"),
        F.col("parent_origin").isNotNull().alias("hold_answers"),
    )  # fmt: skip
    nodes = holds.select("run", "node").distinct()
    deliveries = (
        lanes.filter(is_kind(Kind.DELIVER))
        .join(nodes, ["run", "node"], "left_semi")
        .join(parents, keys, "left")
        .select("run", "node", "place", "at", "parent_place", F.col("parent_origin").isNotNull().alias("answers"))
        .join(releases, ["run", "node", "place"], "left")
    )
    opened = holds.select("run", "node", F.col("hold_place").alias("place"))
    rows = deliveries.unionByName(opened, allowMissingColumns=True)
    ordered = rows.repartition("run", "node").sortWithinPartitions("run", "node", "place")
    judged = ordered.mapInArrow(_walk_ancestors, _JUDGED)
    return judged.filter("waited_at is null or waited_at != at").select(*_WAIT, "waited_place")


def _walk_ancestors(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    lane: _Lane | None = None
    for batch in batches:
        found: list[dict[str, Any]] = []
        for row in batch.to_pylist():
            if lane is None or lane.key != (row["run"], row["node"]):
                lane = _Lane((row["run"], row["node"]))
            found += lane.read(row)
        yield pa.RecordBatch.from_pylist(found, schema=arrow_schema(_JUDGED))


class _Lane:
    """What one node delivered since the oldest hold that is still open: time and parent by place."""

    def __init__(self, key: tuple[str, int]) -> None:
        self.key = key
        self.open = 0
        self.delivered: dict[int, dict[str, Any]] = {}

    def read(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        """The judgement of the hold that this row ends, if it ends one."""
        if row["at"] is None:
            self.open += 1
            return []
        if self.open:
            self.delivered[row["place"]] = row
        if row["hold_place"] is None:
            return []
        judged = self._judged(row)
        self.open -= 1
        if not self.open:
            self.delivered.clear()
        return judged

    def _judged(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        last, answers, place = -1, row["hold_answers"], row["hold_parent_place"]
        while answers:
            if place is None or place > row["place"]:
                return []  # an ancestor was missing even then
            if place < row["hold_place"]:
                break
            last = max(last, place)
            answers, place = self.delivered[place]["answers"], self.delivered[place]["parent_place"]
        waited = self.delivered[last]["at"] if last >= 0 else None
        wait = {name: row[name] for name in (*_WAIT, "at")}
        return [wait | {"waited_place": last if last >= 0 else None, "waited_at": waited}]
