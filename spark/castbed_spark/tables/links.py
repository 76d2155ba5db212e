"""Links: what each node heard of each other, and how long frames were on their way.

A frame has no number. Those that can be told apart are matched: the fields of its header are unlike those of every
other frame that its sender sent, and the receiver got it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed_spark.tables.columns import LINKS, names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LIKENESS = (
    "run", "medium", "sender", "family", "kind", "group", "origin", "seqno", "incarnation",
    "control_bytes", "payload_bytes",
)  # fmt: skip
_PAIR = ("run", "medium", "sender", "receiver")
FRAME_COLUMNS = (*_LIKENESS, "node", "at", "outgoing", "to", "frame_bytes")
"""What `links` and `crossings` need of `frames`."""


def links(frames: DataFrame) -> DataFrame:
    """The table `links`. Put `frames` on one timeline first (`clocks.align`) if nodes have clocks of their own."""
    received = (
        frames.filter("not outgoing")
        .groupBy("run", "medium", "sender", F.col("node").alias("receiver"))
        .agg(F.count(F.lit(1)).alias("received"), F.sum("frame_bytes").alias("bytes"))
    )
    way = F.col("received_at") - F.col("sent_at")
    ways = crossings(frames).groupBy(*_PAIR).agg(
        F.min(way).alias("delay_min_ns"), F.avg(way).alias("delay_mean_ns"), F.count(F.lit(1)).alias("matched")
    )  # fmt: skip
    addressed = frames.filter("outgoing and to is not null and to != sender").select(
        "run", "medium", "sender", F.col("to").alias("receiver")
    )
    pairs = received.select(*_PAIR).unionByName(addressed).distinct()
    linked = _sent(frames, pairs).join(received, list(_PAIR), "left").join(ways, list(_PAIR), "left")
    return linked.na.fill(0, ["received", "bytes", "matched"]).select(*names(LINKS))


def _sent(frames: DataFrame, pairs: DataFrame) -> DataFrame:
    """How many frames each receiver was meant to get: those for it, and those for everybody."""
    outgoing = frames.filter("outgoing").groupBy("run", "medium", "sender", "to").agg(F.count(F.lit(1)).alias("sent"))
    meant = F.when(F.col("to").isNull() | (F.col("to") == F.col("receiver")), F.col("sent"))
    both = pairs.join(outgoing, ["run", "medium", "sender"], "left")
    return both.groupBy(*_PAIR).agg(F.coalesce(F.sum(meant), F.lit(0)).alias("sent"))


def crossings(frames: DataFrame) -> DataFrame:
    """Frames that were matched: run, medium, sender, receiver, `sent_at` and `received_at`, each on its own clock."""
    alike = [F.coalesce(name, F.lit(0)).alias(name) if name in _MID else F.col(name) for name in _LIKENESS]
    sent = (
        frames.filter("outgoing and sender = node")
        .select(*alike, "at")
        .groupBy(*_LIKENESS)
        .agg(F.min("at").alias("sent_at"), F.count(F.lit(1)).alias("copies"))
        .filter("copies = 1")
        .drop("copies")
    )
    received = (
        frames.filter("not outgoing and sender != node")
        .select(*alike, F.col("node").alias("receiver"), "at")
        .groupBy(*_LIKENESS, "receiver")
        .agg(F.min("at").alias("received_at"), F.count(F.lit(1)).alias("copies"))
        .filter("copies = 1")
    )
    return received.join(sent, list(_LIKENESS)).select(*_PAIR, "sent_at", "received_at")


_MID = ("origin", "seqno", "incarnation")
