"""Where the steps of a message at all nodes meet: rows of `deliveries`, and what it takes to judge the waits left over.

The steps of some messages arrive as bytes, a piece per capture. Spark is not needed here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from castbed.history import Kind
from castbed_spark.grouping import Values, grouped
from castbed_spark.receiving import DELIVERED, HELD, IDENTITY, MEANWHILE, NEVER, STEP, SUBMITTED, Steps

_SUBMISSION = ("submitted_at", "submitted_place", "submitted_by")
_TYPES = {"origin": pa.int32(), "node": pa.int32(), "stay": pa.int32(), "kind": pa.int32(), "submitted_by": pa.int32()}


class Meeting:
    """The steps of all messages that met, one message behind the other."""

    def __init__(self, pieces: pa.Table) -> None:
        found = [np.frombuffer(piece.as_buffer(), STEP) for piece in pieces["steps"]]
        sizes = [len(piece) for piece in found]
        self.runs = pieces["run"].combine_chunks().dictionary_encode()
        runs = np.repeat(self.runs.indices.to_numpy(), sizes)
        nodes = np.repeat(pieces["node"].to_numpy().astype(np.int64), sizes)
        steps = np.concatenate([np.empty(0, STEP), *found])
        groups = grouped([runs, *(steps[name] for name in IDENTITY)], steps["key"])
        self.steps, self.run, self.node = steps[groups.order], runs[groups.order], nodes[groups.order]
        self.groups = groups
        self.message = np.repeat(np.arange(len(groups.starts)), np.diff(groups.starts, append=len(steps)))

    def done(self, names: list[str]) -> pa.Table:
        """The rows of `deliveries` that have nothing left to judge, with the named columns."""
        return self._columns(np.flatnonzero(self.steps["role"] == DELIVERED), names)

    def left_over(self, names: list[str]) -> pa.Table:
        """Deliveries whose wait is to be judged (`held`), and all steps of messages that came meanwhile (`step`)."""
        role = self.steps["role"]
        step = self.groups.each(np.logical_or, role == MEANWHILE)[self.message]
        rows = np.flatnonzero((role == HELD) | step)
        more = {"held": pa.array(role[rows] == HELD), "step": pa.array(step[rows])}
        found = self._columns(rows, [name for name in names if name not in more])
        for name, values in more.items():
            found = found.append_column(name, values)
        return found.select(names)

    def _submissions(self) -> dict[str, Values]:
        """Of each message; NEVER where no capture has it. A step without an identity has none."""
        theirs = (self.steps["role"] == SUBMITTED) & (self.steps["origin"] != 0)
        values = (self.steps["at"], self.steps["place"], self.node)
        return {
            name: self.groups.each(np.minimum, np.where(theirs, value, NEVER))
            for name, value in zip(_SUBMISSION, values, strict=True)
        }

    def _columns(self, rows: Values, names: list[str]) -> pa.Table:
        """What is known of these steps, as far as it is named."""
        steps = self.steps[rows]
        known = self._of_steps(steps) | self._of_submissions(steps, self.message[rows])
        known["run"] = lambda: pa.DictionaryArray.from_arrays(self.run[rows], self.runs.dictionary).cast(pa.string())
        known["node"] = lambda: self.node[rows]
        return pa.table({name: _array(name, known[name]()) for name in names})

    def _of_steps(self, steps: Steps) -> dict[str, Callable[[], Any]]:
        """Columns that the steps themselves have, each made when it is called for."""
        held, nameless = steps["held_at"] < NEVER, steps["origin"] == 0
        plain = ("group", "stay", "place", "at", "copies", "held_place", "needless_ns")
        return {
            **{name: partial(steps.__getitem__, name) for name in plain},
            **{name: lambda name=name: (steps[name], nameless) for name in IDENTITY[1:]},  # type: ignore[misc]
            "delivered_at": lambda: steps["at"],
            "held_at": lambda: (steps["held_at"], ~held),
            "hold_ns": lambda: np.where(held, steps["at"] - steps["held_at"], 0),
            "kind": lambda: np.where(steps["role"] == SUBMITTED, int(Kind.SUBMIT), int(Kind.DELIVER)),
        }

    def _of_submissions(self, steps: Steps, message: Values) -> dict[str, Callable[[], Any]]:
        """Columns that come from the submission, null where no capture has it."""
        found = {name: values[message] for name, values in self._submissions().items()}
        unknown = found["submitted_at"] == NEVER
        return {
            **{name: lambda values=values: (values, unknown) for name, values in found.items()},  # type: ignore[misc]
            "latency_ns": lambda: (steps["at"] - found["submitted_at"], unknown),
        }


def _array(name: str, values: Any) -> pa.Array:
    """An Arrow array of numbers, or of numbers and where they are null."""
    if isinstance(values, pa.Array):
        return values
    numbers, missing = values if isinstance(values, tuple) else (values, None)
    kind = _TYPES.get(name, pa.int64())
    return pa.array(numbers.astype(kind.to_pandas_dtype(), copy=False), kind, mask=missing)
