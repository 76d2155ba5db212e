"""How long messages were held back after the last one that they truly had to wait for.

True predecessors are, as in `castbed.properties.waiting`: where a run guarantees `semantic`, the message that this one
answers (its own predecessors came before it wherever that order holds); else what the writer had submitted or delivered
before it wrote the message. Within one group that is all: causal order brings to the writer first what is in the past
of another message. Where a run has several groups, the writer may be no member of the group of such a predecessor;
there the whole pasts decide, which takes some passes over the run (`castbed_spark.checks.passes`).

The joins look only at what happened at the node while the message was held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.checks.causality import Causality
from castbed_spark.checks.lanes import laned
from castbed_spark.tables.columns import MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SEMANTIC = "semantic"
BUCKET_BITS = 14  # of a place in a capture: some hundred records share a bucket
_WAIT = (*MESSAGE, "node", "stay")
_PARENT = ("run", "node", "group", "parent_origin", "parent_seqno", "parent_incarnation")


def needless_waits(received: DataFrame, events: DataFrame, nodes: DataFrame) -> DataFrame:
    """`needless_ns` of the deliveries that were held back."""
    semantic = nodes.select("run", F.array_contains("guarantees", SEMANTIC).alias("semantic")).distinct()
    held = received.filter("held_at is not null").join(F.broadcast(semantic), "run")
    steps = events.filter(F.col("kind").isin(int(Kind.SUBMIT), int(Kind.DELIVER)))
    delivered = steps.filter(F.col("kind") == int(Kind.DELIVER))
    by_parent = _after_parent(held.filter("semantic"), delivered)
    marks = events.filter(F.col("kind").isin(int(Kind.HOLD), int(Kind.DELIVER))).join(F.broadcast(semantic), "run")
    several = of_several_groups(marks.filter("not semantic"))
    judged = judged_by_past(held.filter("not semantic"), delivered, steps, several, events)
    by_past = judged.select(*_WAIT, "needless_ns")
    return by_parent.unionByName(by_past)


def _after_parent(held: DataFrame, delivered: DataFrame) -> DataFrame:
    """Since the parent was delivered, or all of the wait if it had been before; none if it never was."""
    parents = delivered.select(
        "run", "node", "group",
        F.col("origin").alias("parent_origin"), F.col("seqno").alias("parent_seqno"),
        F.col("incarnation").alias("parent_incarnation"),
        F.col("place").alias("parent_place"), F.col("at").alias("parent_at"),
    )  # fmt: skip
    parents = parents.groupBy(*_PARENT).agg(
        F.min("parent_place").alias("parent_place"), F.min("parent_at").alias("parent_at")
    )
    last = held.join(parents, list(_PARENT), "left")
    came = F.col("parent_place") < F.col("place")
    since = F.greatest(F.col("held_at"), F.col("parent_at"))
    waited = F.when(F.col("parent_origin").isNull(), F.col("held_at")).when(came, since)
    return last.select(*_WAIT, _needless(waited))


def judged_by_past(
    held: DataFrame, delivered: DataFrame, steps: DataFrame, several: list[str], events: DataFrame
) -> DataFrame:
    """`held` with `needless_ns`: since the last delivery, while it was held, of something of its past.

    `delivered` are deliveries, at least those that came meanwhile; `steps` are submissions and deliveries, at least
    those of the messages that came meanwhile. Of the runs in `several` (`of_several_groups`) all
    `events` are looked at.
    """
    pairs = _meanwhile(held, delivered)
    if not several:
        return _since(held, _after_known(pairs, steps))
    of_several = F.col("run").isin(several)
    causality = Causality(laned(events.filter(of_several)))
    by_vectors = of_several & ~F.col("run").isin(causality.circles)
    after_past = _after_past(pairs.filter(by_vectors), causality)
    return _since(held, _after_known(pairs.filter(~by_vectors), steps).unionByName(after_past))


def of_several_groups(events: DataFrame) -> list[str]:
    """The runs in which something was held, and not all of these holds and deliveries are of one group."""
    holds = F.max(F.col("kind") == int(Kind.HOLD)).alias("holds")
    groups = events.groupBy("run").agg(F.min("group").alias("first"), F.max("group").alias("last"), holds)
    return [row["run"] for row in groups.filter("holds and first != last").collect()]


def _meanwhile(held: DataFrame, delivered: DataFrame) -> DataFrame:
    """Each wait with each delivery at the node during it; what is of that delivery begins with d."""
    meanwhile = delivered.select(
        "run", "node", F.shiftright("place", BUCKET_BITS).alias("bucket"),
        F.col("group").alias("d_group"), F.col("origin").alias("d_origin"),
        F.col("seqno").alias("d_seqno"), F.col("incarnation").alias("d_incarnation"),
        F.col("place").alias("d_place"), F.col("at").alias("d_at"),
    )  # fmt: skip
    first, last = F.shiftright("held_place", BUCKET_BITS), F.shiftright("place", BUCKET_BITS)
    pairs = held.withColumn("bucket", F.explode(F.sequence(first, last))).join(meanwhile, ["run", "node", "bucket"])
    return pairs.filter("d_place >= held_place and d_place < place")


def _after_known(pairs: DataFrame, steps: DataFrame) -> DataFrame:
    """By wait, when the last message came that its writer had submitted or delivered itself."""
    known = steps.select(
        "run", F.col("node").alias("submitted_by"), F.col("group").alias("d_group"), F.col("origin").alias("d_origin"),
        F.col("seqno").alias("d_seqno"), F.col("incarnation").alias("d_incarnation"), F.col("place").alias("k_place"),
    )  # fmt: skip
    keys = ["run", "submitted_by", "d_group", "d_origin", "d_seqno", "d_incarnation"]
    true = pairs.join(known, keys).filter("k_place < submitted_place")
    return true.groupBy(*_WAIT).agg(F.max("d_at").alias("last_at"))


def _after_past(pairs: DataFrame, causality: Causality) -> DataFrame:
    """By wait, when the last message came that happened before it, through whomever."""
    placed = causality.messages.select(*MESSAGE, "thread", "count")
    came = placed.toDF("run", "d_group", "d_origin", "d_seqno", "d_incarnation", "d_thread", "d_count")
    pasts = placed.join(causality.pasts, ["run", "thread", "count"]).select(*MESSAGE, "past")
    both = pairs.join(came, ["run", "d_group", "d_origin", "d_seqno", "d_incarnation"]).join(pasts, list(MESSAGE))
    true = both.filter("past[d_thread] >= d_count")
    return true.groupBy(*_WAIT).agg(F.max("d_at").alias("last_at"))


def _since(held: DataFrame, latest: DataFrame) -> DataFrame:
    waited = F.greatest(F.col("held_at"), F.coalesce(F.col("last_at"), F.col("held_at")))
    return held.join(latest, list(_WAIT), "left").withColumn("needless_ns", _needless(waited)).drop("last_at")


def _needless(waited: Column) -> Column:
    return F.coalesce(F.col("delivered_at") - waited, F.lit(0)).alias("needless_ns")
