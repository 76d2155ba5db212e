"""The pasts of all messages, found by passes over the lanes until nothing changes.

The first pass gives each message what its submitter had submitted and delivered itself. Each further pass adds the
pasts of the delivered messages. Where causal order holds and all nodes get all messages, they add nothing, and the
second pass is the last; what becomes known only through others takes one pass for each node that passes it on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.checks.histories import arrow_schema
from castbed_spark.checks.lanes import MESSAGE, first_submissions, is_kind
from castbed_spark.checks.vectors import Knowledge, Overtaken, Steps, lanes_in

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_DIRECT = "run string, thread int, count int, past array<int>"
_CLOSED = (
    "run string, thread int, count int, past array<int>, changed boolean, circle boolean, "
    "node int, memory int, place bigint, d_thread int, d_count int"
)
"""Pasts (`past` is not null), and messages that were overtaken: at this node, by the delivery of d at this place."""


def placed(lanes: DataFrame) -> DataFrame:
    """Every message with its `thread` and `count`, and how many `threads` its run has."""
    lane = Window.partitionBy("run", "s_node", "s_memory")
    counted = first_submissions(lanes).withColumn("count", F.row_number().over(lane.orderBy("s_place")))
    owners = counted.select("run", "s_node", "s_memory").distinct()
    of_run = Window.partitionBy("run")
    numbered = owners.withColumns(
        {
            "thread": F.row_number().over(of_run.orderBy("s_node", "s_memory")) - 1,
            "threads": F.count(F.lit(1)).over(of_run),
        }
    )
    return counted.join(F.broadcast(numbered), ["run", "s_node", "s_memory"])


def steps(lanes: DataFrame, messages: DataFrame) -> DataFrame:
    """The first submissions, and all deliveries of messages that were submitted, by thread and count."""
    moves = lanes.filter(is_kind(Kind.SUBMIT, Kind.DELIVER)).select(*MESSAGE, "node", "memory", "place", "kind")
    first = (F.col("node") == F.col("s_node")) & (F.col("place") == F.col("s_place"))
    known = moves.join(messages, list(MESSAGE)).filter(is_kind(Kind.DELIVER) | first)
    return known.select(
        "run", "node", "memory", "place", is_kind(Kind.SUBMIT).alias("submits"), "thread", "count",
        F.col("threads").cast("int").alias("threads"),
    )  # fmt: skip


def direct_pasts(moves: DataFrame) -> DataFrame:
    """What each submitter had submitted and delivered itself."""
    return _in_lanes(moves).mapInArrow(_direct, _DIRECT)


def closed(moves: DataFrame, pasts: DataFrame) -> DataFrame:
    """One pass: pasts that take in those of delivered messages, and what was overtaken according to the old ones."""
    return _in_lanes(moves.join(pasts, ["run", "thread", "count"])).mapInArrow(_close, _CLOSED)


def _in_lanes(moves: DataFrame) -> DataFrame:
    return moves.repartition("run", "node").sortWithinPartitions("run", "node", "place")


def _direct(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for lane, piece in _streamed(batches, Knowledge):
        pasts = lane.learn(piece)
        if len(pasts):
            yield _batch(_DIRECT, _of_submissions(piece, pasts))


def _close(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for lane, piece in _streamed(batches, _Both):
        pasts = lane.knowledge.learn(piece)
        if len(pasts):
            own = pasts[range(len(pasts)), piece.thread[piece.submits]]
            changed = (pasts != piece.pasts[piece.submits]).any(axis=1)
            judged = {"changed": changed, "circle": own >= piece.count[piece.submits]}
            yield _batch(_CLOSED, _of_submissions(piece, pasts) | judged)
        rows, threads, counts = lane.overtaken.find(piece)
        if len(rows):
            _, node, memory = piece.key
            yield _batch(_CLOSED, {
                "run": [piece.key[0]] * len(rows), "thread": threads, "count": counts, "node": [node] * len(rows),
                "memory": [memory] * len(rows), "place": piece.place[rows], "d_thread": piece.thread[rows],
                "d_count": piece.count[rows],
            })  # fmt: skip


class _Both:
    def __init__(self, threads: int) -> None:
        self.knowledge, self.overtaken = Knowledge(threads), Overtaken(threads)


def _streamed(batches: Iterable[pa.RecordBatch], start: Callable[[int], Any]) -> Iterator[tuple[Any, Steps]]:
    """Each piece of a lane with the state of that lane."""
    key, state = None, None
    for batch in batches:
        for piece in lanes_in(batch) if batch.num_rows else ():
            if piece.key != key:
                key, state = piece.key, start(piece.threads)
            yield state, piece


def _of_submissions(piece: Steps, pasts: Any) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    ends = np.arange(len(pasts) + 1, dtype=np.int32) * piece.threads
    return {
        "run": [piece.key[0]] * len(pasts),
        "thread": piece.thread[piece.submits],
        "count": piece.count[piece.submits],
        "past": pa.ListArray.from_arrays(pa.array(ends), pa.array(pasts.reshape(-1))),
    }


def _batch(ddl: str, columns: dict[str, Any]) -> pa.RecordBatch:
    """A batch with these columns and nulls in all others."""
    import pyarrow as pa

    schema = arrow_schema(ddl)
    size = len(columns["run"])
    arrays = [
        pa.array(columns[field.name]).cast(field.type) if field.name in columns else pa.nulls(size, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
