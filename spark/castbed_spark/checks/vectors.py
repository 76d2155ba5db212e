"""Happened-before as vectors, streamed lane by lane with numpy. Spark is not needed here.

A *thread* is one memory of one node; its messages are counted 1, 2, 3, ... as they were submitted. The past of a
message is a vector: how far into each thread it reaches (`castbed.properties.causality`). A lane arrives in its order,
in batches; between batches only what is stated below is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Numbers = NDArray[np.int64]
Vectors = NDArray[np.int32]
"""One row per step, one column per thread."""

CELLS_MAX = 4_000_000
"""So many entries of vectors are worked on at a time: 16 MB in each array."""

_COUNT_BITS = 32


class Steps:
    """Some steps of one lane: submissions and deliveries of messages that were submitted."""

    def __init__(self, table: pa.Table, start: int, end: int) -> None:
        rows = table.slice(start, end - start)
        self.key: tuple[Any, ...] = tuple(rows.column(name)[0].as_py() for name in ("run", "node", "memory"))
        self.threads: int = rows.column("threads")[0].as_py()
        self.submits = rows.column("submits").to_numpy().astype(bool)
        self.thread = rows.column("thread").to_numpy().astype(np.int64)
        self.count = rows.column("count").to_numpy().astype(np.int64)
        self.place = rows.column("place").to_numpy()
        self.pasts = self._pasts(rows) if "past" in rows.column_names else np.zeros((0, self.threads), np.int32)

    def _pasts(self, rows: pa.Table) -> Vectors:
        flat: Vectors = rows.column("past").combine_chunks().flatten().to_numpy()
        return flat.reshape(len(rows), self.threads)

    def __len__(self) -> int:
        return len(self.thread)


def lanes_in(batch: pa.RecordBatch) -> Iterator[Steps]:
    """The steps of a batch, lane by lane, in pieces that are not too large."""
    import pyarrow as pa

    table = pa.Table.from_batches([batch])
    runs = table.column("run").combine_chunks().dictionary_encode().indices.to_numpy()
    keys = (runs, table.column("node").to_numpy(), table.column("memory").to_numpy())
    differs = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    bounds = [0, *(np.flatnonzero(differs) + 1).tolist(), len(table)]
    for start, end in pairwise(bounds):
        rows_max = max(CELLS_MAX // table.column("threads")[start].as_py(), 1) if end > start else 1
        for first in range(start, end, rows_max):
            yield Steps(table, first, min(first + rows_max, end))


class Knowledge:
    """What one lane knows: the vector of all that it submitted and delivered, and of their pasts if these are given."""

    def __init__(self, threads: int) -> None:
        self.known = np.zeros(threads, np.int32)

    def learn(self, steps: Steps) -> Vectors:
        """The vector before each submission among the steps."""
        learned = np.where(steps.submits[:, None], 0, steps.pasts) if len(steps.pasts) else _nothing(steps)
        at = np.arange(len(steps))
        learned[at, steps.thread] = np.maximum(learned[at, steps.thread], steps.count)
        after = np.maximum(np.maximum.accumulate(learned, axis=0), self.known)
        before = np.vstack([self.known, after[:-1]])
        self.known = after[-1]
        pasts: Vectors = before[steps.submits]
        return pasts


def _nothing(steps: Steps) -> Vectors:
    return np.zeros((len(steps), steps.threads), np.int32)


class Overtaken:
    """Which messages a lane has not delivered when it delivers one whose past they are in, each at the first such one.

    `passed` is the join of the pasts so far; of what was delivered only that which lies beyond it is kept (`ahead`).
    """

    def __init__(self, threads: int) -> None:
        self.passed = np.zeros(threads, np.int32)
        self.ahead: Numbers = np.zeros(0, np.int64)

    def find(self, steps: Steps) -> tuple[Numbers, Numbers, Numbers]:
        """Row of the delivery, thread and count of the message, for each one that was overtaken."""
        pasts = np.where(steps.submits[:, None], 0, steps.pasts)
        after = np.maximum(np.maximum.accumulate(pasts, axis=0), self.passed)
        before = np.vstack([self.passed, after[:-1]])
        rows, threads = np.nonzero(pasts > before)
        rows, threads, counts = _spread(rows, threads, before[rows, threads], pasts[rows, threads])
        delivered = np.flatnonzero(~steps.submits)
        keys = np.concatenate([self.ahead, _key(steps.thread[delivered], steps.count[delivered])])
        when = np.concatenate([np.full(len(self.ahead), -1), delivered])
        known, first = np.unique(keys, return_index=True)
        missing = ~_seen(_key(threads, counts), rows, known, when[first])
        self.passed = after[-1]
        self.ahead = known[known & (1 << _COUNT_BITS) - 1 > self.passed[known >> _COUNT_BITS]]
        return rows[missing], threads[missing], counts[missing]


def _key(threads: Numbers, counts: Numbers) -> Numbers:
    return threads.astype(np.int64) << _COUNT_BITS | counts


def _spread(rows: Numbers, threads: Numbers, low: Vectors, high: Vectors) -> tuple[Numbers, Numbers, Numbers]:
    """One entry for each count above `low`, up to `high`."""
    lengths = (high - low).astype(np.int64)
    which = np.repeat(np.arange(len(rows)), lengths)
    offsets = np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return rows[which], threads[which], low[which].astype(np.int64) + 1 + offsets


def _seen(wanted: Numbers, rows: Numbers, known: Numbers, when: Numbers) -> NDArray[np.bool_]:
    """Whether each wanted message was delivered before the row that asks for it."""
    if not len(known):
        return np.zeros(len(wanted), bool)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    seen: NDArray[np.bool_] = (known[at] == wanted) & (when[at] < rows)
    return seen
