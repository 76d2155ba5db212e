"""The table `deliveries` straight from captures: the same rows as from `events`, for a part of the work.

Each capture is read once, whole, into the steps of messages at its node (`receiving`). They travel as bytes, some
thousand to a row, to where the steps of a message at all nodes meet (`meeting`). What is made there is kept as bytes
too, and becomes rows when it is used; only waits that depend on what the writer knew are then judged by Spark, as
everywhere else (`waiting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from castbed.errors import ConfigurationError
from castbed.history import Kind
from castbed_spark.meeting import Meeting
from castbed_spark.packing import packed
from castbed_spark.reading import node_of, plan
from castbed_spark.receiving import IDENTITY, STEP, Steps, steps_of
from castbed_spark.schemas import Column, ddl
from castbed_spark.slices import SLICE_BYTES_MIN, Paths, Slice, bundled
from castbed_spark.source import WHOLE_FILES, read_events, read_nodes
from castbed_spark.tables.columns import DELIVERIES, names
from castbed_spark.tables.deliveries import EVENT_COLUMNS, deliveries
from castbed_spark.tables.waiting import judged_by_past, of_several_groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAPTURE_BYTES_MAX = 2**30  # of one capture: a task holds its steps, about as many bytes, at once
MEETING_BYTES = 32 * 2**20  # of captures to one meeting: some hundred thousand steps, which fit into a cache
MEETINGS_AT_A_TASK = 16  # at most, about; a batch of Arrow holds what all of them made, and no more than 2 GiB
_HALF = np.uint64(32)
_PIECES = "bucket int not null, run string not null, node int not null, steps binary not null"
_STEP = tuple(column for column in DELIVERIES if column.name in ("run", *IDENTITY, "node", "place"))
_HELD = (
    *(column for column in DELIVERIES if column.name != "needless_ns"),
    Column("submitted_by", "int", "node that submitted it", True),
    Column("submitted_place", "bigint", "where, in that node's capture", True),
    Column("held_place", "bigint", "where the hold is in the node's capture"),
)
_MEANWHILE = (*_STEP, Column("at", "bigint", "when"))
_MET = "done binary not null, held binary not null, meanwhile binary not null, known binary not null"


def deliveries_of(spark: SparkSession, paths: Paths, columns: Iterable[str] = ()) -> DataFrame:
    """The table `deliveries` of the captures at `paths`, for nodes whose clocks agree; only the named columns, if any.

    Captures too large for a task, or several of one node, take the way through `events`.
    The others are read when this is called, and the rows kept with Spark until the table is no longer in use.
    """
    wanted = _chosen(tuple(columns))
    captures = plan(paths, WHOLE_FILES)
    if not _fit(captures):
        return deliveries(read_events(spark, paths, EVENT_COLUMNS), read_nodes(spark, paths)).select(*names(wanted))
    bundles = bundled(captures, SLICE_BYTES_MIN)
    size = sum(capture.end for capture in captures)
    parallel = spark.sparkContext.defaultParallelism
    count = max(size // MEETING_BYTES, min(len(bundles), parallel), 1)
    tasks = spark.range(0, len(bundles), 1, max(len(bundles), 1))
    pieces = tasks.mapInArrow(partial(_pieces, bundles, count), _PIECES)
    apart = pieces.repartition(max(count // MEETINGS_AT_A_TASK, min(count, parallel)), "bucket")
    met = apart.groupBy("bucket").applyInArrow(_met(names(wanted)), _MET).localCheckpoint()
    held, meanwhile, known = _rows(met, "held", _HELD), _rows(met, "meanwhile", _MEANWHILE), _rows(met, "known", _STEP)
    several = of_several_groups(_marks(held, Kind.HOLD).unionByName(_marks(meanwhile, Kind.DELIVER)))
    judged = judged_by_past(held, meanwhile, known, several, read_events(spark, paths, EVENT_COLUMNS))
    return _rows(met, "done", wanted).unionByName(judged.select(*names(wanted)))


def _marks(steps: DataFrame, kind: Kind) -> DataFrame:
    return steps.select("run", "group", F.lit(int(kind)).alias("kind"))


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
    rows = [row for steps in steps_of(capture) for row in _by_bucket(steps, count)]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([bucket for bucket, _ in rows], pa.int32()),
            pa.array([capture.run] * len(rows), pa.string()),
            pa.array([node_of(capture)] * len(rows), pa.int32()),
            pa.array([data for _, data in rows], pa.binary()),
        ],
        names=["bucket", "run", "node", "steps"],
    )


def _by_bucket(steps: Steps, count: int) -> Iterator[tuple[int, bytes]]:
    """Steps that are in the order of their keys, as bytes for each meeting that has some of them."""
    buckets = (steps["key"] >> _HALF) * np.uint64(count) >> _HALF
    ends = np.searchsorted(buckets, np.arange(count, dtype=np.uint64), side="right").tolist()
    for bucket, (first, last) in enumerate(pairwise([0, *ends])):
        if first < last:
            yield bucket, packed({name: values[first:last] for name, values in steps.items()}, STEP)


def _met(wanted: list[str]) -> Callable[[pa.Table], pa.Table]:
    """What comes of one meeting, as bytes: the rows that are done, and what the others are judged by."""

    def met(pieces: pa.Table) -> pa.Table:
        meeting = Meeting(pieces)
        tables = {
            "done": meeting.done(wanted),
            "held": meeting.held(names(_HELD)),
            "meanwhile": meeting.meanwhile(names(_MEANWHILE)),
            "known": meeting.known(names(_STEP)),
        }
        return pa.table({name: pa.array([_as_bytes(table)], pa.binary()) for name, table in tables.items()})

    return met


def _as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _rows(met: DataFrame, what: str, columns: tuple[Column, ...]) -> DataFrame:
    """What all meetings have of one kind, as rows."""
    return met.select(what).mapInArrow(_from_bytes, ddl(columns))


def _from_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for data in batch.column(0):
            yield from pa.ipc.open_stream(data.as_buffer())
