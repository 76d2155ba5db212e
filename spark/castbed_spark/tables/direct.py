"""The table `deliveries` straight from captures: the same rows as from `events`, for a part of the work.

Each capture is read once, whole, into the steps of messages at its node (`receiving`). They travel as bytes, some
thousand to a row, to where the steps of a message at all nodes meet (`meeting`). Only waits that depend on what the
writer knew become rows of Spark, to be judged as everywhere else (`waiting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from castbed.errors import ConfigurationError
from castbed_spark.meeting import Meeting
from castbed_spark.reading import node_of, plan
from castbed_spark.receiving import steps_of
from castbed_spark.schemas import Column, ddl
from castbed_spark.slices import SLICE_BYTES_MIN, Slice, bundled
from castbed_spark.source import WHOLE_FILES, read_events, read_nodes
from castbed_spark.tables.columns import DELIVERIES, names
from castbed_spark.tables.deliveries import EVENT_COLUMNS, deliveries
from castbed_spark.tables.waiting import judged_by_past

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAPTURE_BYTES_MAX = 2**30  # of one capture: a task holds its steps, about as many bytes, at once
MEETING_BYTES = 32 * 2**20  # of captures to one meeting: some hundred thousand steps, which fit into a cache
_HALF = np.uint64(32)
_PIECES = "bucket int not null, run string not null, node int not null, steps binary not null"
_ONLY_LEFT_OVER = (
    Column("submitted_by", "int", "node that submitted it", True),
    Column("submitted_place", "bigint", "where, in that node's capture", True),
    Column("held", "boolean", "whether this delivery is to be judged"),
    Column("step", "boolean", "whether it is a step of a message that came while another was held"),
    Column("kind", "int", "what the step was"),
    Column("at", "bigint", "when"),
    Column("held_place", "bigint", "where the hold is in the node's capture"),
)
_LEFT_OVER = (*(column for column in DELIVERIES if column.name != "needless_ns"), *_ONLY_LEFT_OVER)


def deliveries_of(spark: SparkSession, paths: str, columns: Iterable[str] = ()) -> DataFrame:
    """The table `deliveries` of the captures at `paths`, for nodes whose clocks agree; only the named columns, if any.

    Captures too large for a task, or several of one node, take the way through `events`.
    The others are read when this is called, and their steps kept with Spark until the table is no longer in use.
    """
    wanted = _chosen(tuple(columns))
    captures = plan(paths, WHOLE_FILES)
    if not _fit(captures):
        return deliveries(read_events(spark, paths, EVENT_COLUMNS), read_nodes(spark, paths)).select(*names(wanted))
    bundles = bundled(captures, SLICE_BYTES_MIN)
    size = sum(capture.end for capture in captures)
    count = max(size // MEETING_BYTES, min(len(bundles), spark.sparkContext.defaultParallelism), 1)
    tasks = spark.range(0, len(bundles), 1, max(len(bundles), 1))
    pieces = tasks.mapInArrow(partial(_pieces, bundles, count), _PIECES).localCheckpoint().groupBy("bucket")
    done = pieces.applyInArrow(_done(names(wanted)), ddl(wanted))
    left_over = pieces.applyInArrow(_left_over, ddl(_LEFT_OVER)).localCheckpoint()
    judged = judged_by_past(left_over.filter("held"), left_over.filter("step"))
    return done.unionByName(judged.select(*names(wanted)))


def _chosen(wanted: tuple[str, ...]) -> tuple[Column, ...]:
    unknown = [name for name in wanted if name not in names(DELIVERIES)]
    if unknown:
        raise ConfigurationError("columns", f"deliveries has no {unknown[0]!r}; it has {', '.join(names(DELIVERIES))}")
    return tuple(column for column in DELIVERIES if not wanted or column.name in wanted)


def _fit(captures: list[Slice]) -> bool:
    lanes = {(capture.run, node_of(capture)) for capture in captures}
    return len(lanes) == len(captures) and all(capture.end <= CAPTURE_BYTES_MAX for capture in captures)


def _pieces(bundles: list[list[Slice]], count: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The steps of whole captures, each piece for one of `count` meetings."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for capture in bundles[number]:
                yield _dealt(capture, count)


def _dealt(capture: Slice, count: int) -> pa.RecordBatch:
    steps = steps_of(capture)
    buckets = (steps["key"] >> _HALF) * np.uint64(count) >> _HALF  # in order, because the keys are
    ends = np.searchsorted(buckets, np.arange(count, dtype=np.uint64), side="right").tolist()
    rows = [(bucket, steps[a:b].tobytes()) for bucket, (a, b) in enumerate(pairwise([0, *ends])) if a < b]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([bucket for bucket, _ in rows], pa.int32()),
            pa.array([capture.run] * len(rows), pa.string()),
            pa.array([node_of(capture)] * len(rows), pa.int32()),
            pa.array([data for _, data in rows], pa.binary()),
        ],
        names=["bucket", "run", "node", "steps"],
    )


def _done(wanted: list[str]) -> Callable[[pa.Table], pa.Table]:
    def done(pieces: pa.Table) -> pa.Table:
        return Meeting(pieces).done(wanted)

    return done


def _left_over(pieces: pa.Table) -> pa.Table:
    return Meeting(pieces).left_over(names(_LEFT_OVER))
