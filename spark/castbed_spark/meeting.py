"""Where the steps of a message at all nodes meet: rows of `deliveries`, and what it takes to judge the waits left over.

The steps of some messages arrive as bytes, a piece per capture. Spark is not needed here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from castbed_spark.grouping import grouped
from castbed_spark.packing import Values, unpacked
from castbed_spark.receiving import DELIVERED, HELD, IDENTITY, MEANWHILE, NEVER, STEP, SUBMITTED

_SUBMISSION = ("submitted_at", "submitted_place", "submitted_by")
_TYPES = {"origin": pa.int32(), "node": pa.int32(), "stay": pa.int32(), "submitted_by": pa.int32()}


class Meeting:
    """The steps of all messages that met; `message` numbers the one that each step is about."""

    def __init__(self, pieces: pa.Table) -> None:
        sizes, self.steps = unpacked([piece.as_buffer() for piece in pieces["steps"]], STEP)
        self.runs = pieces["run"].combine_chunks().dictionary_encode()
        self.run = np.repeat(self.runs.indices.to_numpy(), sizes)
        self.node = np.repeat(pieces["node"].to_numpy().astype(np.int64), sizes)
        groups = grouped([self.run, *(self.steps[name] for name in IDENTITY)], self.steps["key"])
        self.messages, self.message = groups.count, groups.of_rows()

    def done(self, names: list[str]) -> pa.Table:
        """The rows of `deliveries` that have nothing left to judge, with the named columns."""
        return self._columns(np.flatnonzero(self.steps["role"] == DELIVERED), names)

    def held(self, names: list[str]) -> pa.Table:
        """Deliveries whose wait is still to be judged."""
        return self._columns(np.flatnonzero(self.steps["role"] == HELD), names)

    def meanwhile(self, names: list[str]) -> pa.Table:
        """What was delivered during these waits."""
        return self._columns(np.flatnonzero(self.steps["role"] == MEANWHILE), names)

    def known(self, names: list[str]) -> pa.Table:
        """Where the messages that came meanwhile were submitted or delivered, at any node."""
        came = np.zeros(self.messages, bool)
        came[self.message[self.steps["role"] == MEANWHILE]] = True
        return self._columns(np.flatnonzero(came[self.message] & (self.steps["role"] != MEANWHILE)), names)

    def _submissions(self) -> dict[str, Values]:
        """Of each message; NEVER where no capture has it. A step without an identity has none."""
        theirs = np.flatnonzero((self.steps["role"] == SUBMITTED) & (self.steps["origin"] != 0))
        found = {name: np.full(self.messages, NEVER) for name in _SUBMISSION}
        for first, values in zip(found.values(), (self.steps["at"], self.steps["place"], self.node), strict=True):
            np.minimum.at(first, self.message[theirs], values[theirs])
        return found

    def _columns(self, rows: Values, names: list[str]) -> pa.Table:
        """What is known of these steps, as far as it is named."""
        known = self._of_steps(rows) | self._of_submissions(rows)
        known["run"] = lambda: pa.DictionaryArray.from_arrays(self.run[rows], self.runs.dictionary).cast(pa.string())
        known["node"] = lambda: self.node[rows]
        return pa.table({name: _array(name, known[name]()) for name in names})

    def _of_steps(self, rows: Values) -> dict[str, Callable[[], Any]]:
        """Columns that the steps themselves have, each made when it is called for."""

        def of(name: str) -> Values:
            return self.steps[name][rows]

        plain = ("group", "stay", "place", "at", "copies", "needless_ns")
        return {
            **{name: partial(of, name) for name in plain},
            **{name: lambda name=name: (of(name), of("origin") == 0) for name in IDENTITY[1:]},  # type: ignore[misc]
            "delivered_at": lambda: of("at"),
            "held_at": lambda: (of("at") - of("wait_ns"), of("wait_bytes") == 0),
            "held_place": lambda: of("place") - of("wait_bytes"),
            "hold_ns": lambda: of("wait_ns"),
        }

    def _of_submissions(self, rows: Values) -> dict[str, Callable[[], Any]]:
        """Columns that come from the submission, null where no capture has it."""
        found = {name: values[self.message[rows]] for name, values in self._submissions().items()}
        unknown = found["submitted_at"] == NEVER
        return {
            **{name: lambda values=values: (values, unknown) for name, values in found.items()},  # type: ignore[misc]
            "latency_ns": lambda: (self.steps["at"][rows] - found["submitted_at"], unknown),
        }


def _array(name: str, values: Any) -> pa.Array:
    """An Arrow array of numbers, or of numbers and where they are null."""
    if isinstance(values, pa.Array):
        return values
    numbers, missing = values if isinstance(values, tuple) else (values, None)
    kind = _TYPES.get(name, pa.int64())
    return pa.array(numbers.astype(kind.to_pandas_dtype(), copy=False), kind, mask=missing)
