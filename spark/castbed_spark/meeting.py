"""Where the steps of a message at all nodes meet: rows of `deliveries`, and what is needed to judge the waits left over.

The steps of some messages arrive as bytes, a piece per capture. Spark is not needed here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from castbed.history import Kind
from castbed_spark.grouping import Values, grouped
from castbed_spark.receiving import DELIVERED, HELD, IDENTITY, MEANWHILE, NEVER, STEP, SUBMITTED

_SUBMISSION = ("submitted_at", "submitted_place", "submitted_by")
_TYPES = {"origin": pa.int32(), "node": pa.int32(), "stay": pa.int32(), "kind": pa.int32(), "submitted_by": pa.int32()}


class Meeting:
    """The steps of all messages that met, one message behind the other."""

    def __init__(self, pieces: pa.Table) -> None:
        found = [np.frombuffer(piece.as_buffer(), STEP) for piece in pieces["steps"]]
        sizes = [len(piece) for piece in found]
        self.runs = pieces["run"].combine_chunks().dictionary_encode()
        runs = np.repeat(self.runs.indices.to_numpy(), sizes)
        nodes = np.repeat(pieces["node"].to_numpy(), sizes)
        steps = np.concatenate([np.empty(0, STEP), *found])
        groups = grouped([runs, *(steps[name] for name in IDENTITY)], steps["key"])
        self.steps, self.run, self.node = steps[groups.order], runs[groups.order], nodes[groups.order]
        self.starts = groups.starts
        self.message = np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(steps)))

    def done(self) -> pa.Table:
        """The rows of `deliveries` that have nothing left to judge."""
        rows = np.flatnonzero(self.steps["role"] == DELIVERED)
        found = self._columns(rows)
        return found.append_column("needless_ns", pa.array(self.steps["needless_ns"][rows]))

    def left_over(self) -> pa.Table:
        """Deliveries whose wait is to be judged (`held`), and all steps of messages that came meanwhile (`step`)."""
        role = self.steps["role"]
        step = self._of_each_message(np.logical_or, role == MEANWHILE)[self.message]
        rows = np.flatnonzero((role == HELD) | step)
        kinds = np.where(role[rows] == SUBMITTED, int(Kind.SUBMIT), int(Kind.DELIVER))
        found = self._columns(rows)
        more = {"held": role[rows] == HELD, "step": step[rows], "kind": kinds.astype(np.int32)}
        more["at"], more["held_place"] = self.steps["at"][rows], self.steps["held_place"][rows]
        for name, values in more.items():
            found = found.append_column(name, pa.array(values))
        return found

    def _of_each_message(self, function: np.ufunc, values: Values) -> Values:
        found: Values = function.reduceat(values, self.starts) if len(self.starts) else values[:0]
        return found

    def _submissions(self) -> dict[str, Values]:
        """Of each message; NEVER where no capture has it. A step without an identity has none."""
        theirs = (self.steps["role"] == SUBMITTED) & (self.steps["origin"] != 0)
        values = (self.steps["at"], self.steps["place"], self.node)
        return {
            name: self._of_each_message(np.minimum, np.where(theirs, value, NEVER))
            for name, value in zip(_SUBMISSION, values, strict=True)
        }

    def _columns(self, rows: Values) -> pa.Table:
        """All that `deliveries` says of these steps but `needless_ns`, and where they were submitted."""
        steps, message = self.steps[rows], self.message[rows]
        submission = {name: values[message] for name, values in self._submissions().items()}
        held, known = steps["held_at"] < NEVER, submission["submitted_at"] < NEVER
        nameless = steps["origin"] == 0
        hold_ns = np.where(held, steps["at"] - steps["held_at"], 0)
        columns: dict[str, Any] = {
            "run": pa.DictionaryArray.from_arrays(self.run[rows], self.runs.dictionary).cast(pa.string()),
            "group": steps["group"], "origin": (steps["origin"], nameless), "seqno": (steps["seqno"], nameless),
            "incarnation": (steps["incarnation"], nameless), "node": self.node[rows], "stay": steps["stay"],
            "delivered_at": steps["at"], "place": steps["place"], "copies": steps["copies"],
            **{name: (values, ~known) for name, values in submission.items()},
            "latency_ns": (steps["at"] - submission["submitted_at"], ~known),
            "held_at": (steps["held_at"], ~held), "hold_ns": hold_ns,
        }  # fmt: skip
        return pa.table({name: _array(name, values) for name, values in columns.items()})


def _array(name: str, values: Any) -> pa.Array:
    """An Arrow array of numbers, or of numbers and where they are null."""
    if isinstance(values, pa.Array):
        return values
    numbers, missing = values if isinstance(values, tuple) else (values, None)
    kind = _TYPES.get(name, pa.int64())
    return pa.array(numbers.astype(kind.to_pandas_dtype(), copy=False), kind, mask=missing)
