"""From places of packets to columns: each column is computed for all rows at once, and only if it is asked for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castbed import pcapng
from castbed.capture import AIR, INTERFACES, WIRE
from castbed.history import Kind
from castbed.wire import HAS_MID
from castbed_spark.details import DETAIL_COLUMNS, detail_columns
from castbed_spark.layout import DATA_AT, Fixed
from castbed_spark.walking import Packets, Places

Values = NDArray[Any]
_FLAGS_OPTION = (pcapng.PACKET_FLAGS, 4)
_NODE_ADDRESS = 0x02CB
_CODED = {
    "medium": {medium: INTERFACES[medium][0] for medium in (AIR, WIRE)},
    "event": {int(kind): kind.name for kind in Kind},
}
_RENAMED = {"frame_bytes": "original"}
_MID = ("origin", "seqno", "incarnation")
_PARENT = ("parent_origin", "parent_seqno", "parent_incarnation")

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda values, wanted: np.isin(values, list(wanted)),
}  # fmt: skip


class Condition(msgspec.Struct, frozen=True):
    """A filter that the source applies itself; the operator is a key of OPERATORS."""

    column: str
    operator: str
    value: Any

    def holds(self, value: Any) -> bool:
        """Whether it holds for one value."""
        return value in self.value if self.operator == "in" else bool(OPERATORS[self.operator](value, self.value))


class Rows:
    """The rows of one window in one table. `fixed` are their gathered fixed parts, `media` their kinds of interface."""

    def __init__(self, run: str, packets: Packets, places: Places, fixed: Fixed, media: Values) -> None:
        self.run, self.packets, self.places, self.fixed, self.media = run, packets, places, fixed, media

    def __len__(self) -> int:
        return len(self.places)

    def where(self, kept: Values) -> Rows:
        return Rows(self.run, self.packets, self.places[kept], self.fixed[kept], self.media[kept])

    def matching(self, conditions: list[Condition]) -> Rows:
        rows = self
        for condition in conditions:
            kept = rows._mask(condition)
            rows = rows if kept.all() else rows.where(kept)
        return rows

    def _mask(self, condition: Condition) -> Values:
        coded = _CODED.get(condition.column)
        if coded is not None:
            return np.isin(self._codes(condition.column), [c for c, word in coded.items() if condition.holds(word)])
        mask: Values = OPERATORS[condition.operator](self.values(condition.column), condition.value)
        valid = self.valid(condition.column)
        return mask if valid is None else mask & valid

    # --- numbers -------------------------------------------------------------------------------------------------

    def values(self, name: str) -> Values:
        """The numbers of a column; what they are where `valid` is false has no meaning."""
        if name == "at":
            return self._times()
        if name == "place":
            return self.places + self.packets.base
        if name == "node":
            return np.full(len(self), self.packets.head.node, np.int32)
        if name == "outgoing":
            return self._outgoing()
        return self.fixed[_RENAMED.get(name, name)]

    def valid(self, name: str) -> Values | None:
        """Where a column is not null; None for a column that never is."""
        valid: Values | None = None
        if name in _MID:
            valid = self.fixed["flags"] & HAS_MID != 0 if "flags" in self._names else self.fixed["origin"] != 0
        elif name in _PARENT:
            valid = self.fixed["parent_origin"] != 0
        elif name == "to":
            valid = self.fixed["address"] == _NODE_ADDRESS
        return valid

    def _codes(self, name: str) -> Values:
        return self.media if name == "medium" else self.fixed["kind"]

    def _times(self) -> Values:
        ticks = self.fixed["high"].astype(np.int64) << 32 | self.fixed["low"].astype(np.int64)
        interfaces = self.packets.head.interfaces
        if all(interface.in_nanoseconds for interface in interfaces):
            return ticks
        times = ticks
        for number, interface in enumerate(interfaces):
            if not interface.in_nanoseconds:
                here = self.fixed["interface"] == number
                times[here] = _nanoseconds(ticks[here], interface)
        return times

    def _outgoing(self) -> Values:
        """What the packet flags say. Ours are the first option; others are looked for, all rows at a time."""
        found = np.zeros(len(self), bool)
        words = self.packets.data[: len(self.packets.data) & ~3].view(self.packets.head.mark + "u4")
        halves = words.view(self.packets.head.mark + "u2")
        at = (self.places + DATA_AT + 3 + self.fixed["captured"]) >> 2
        end = (self.places + self.fixed["length"] - 4) >> 2
        rows = np.flatnonzero(at < end)
        while len(rows):
            code, size = halves[2 * at[rows]], halves[2 * at[rows] + 1]
            ours = (code == _FLAGS_OPTION[0]) & (size == _FLAGS_OPTION[1])
            flagged = rows[ours]
            found[flagged] = words[at[flagged] + 1] & pcapng.DIRECTION_MASK == pcapng.OUTBOUND
            others = ~ours & (code != pcapng.END_OF_OPTIONS)
            rows, size = rows[others], size[others].astype(np.int64)
            at[rows] += 1 + ((size + 3) >> 2)
            rows = rows[at[rows] < end[rows]]
        return found

    # --- arrow ---------------------------------------------------------------------------------------------------

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """The columns of `schema`, in order."""
        details = [field.name for field in schema if field.name in DETAIL_COLUMNS and "detail_bytes" in self._names]
        decoded = detail_columns(self.packets.data, self.places, self.fixed["detail_bytes"], details) if details else {}
        arrays = [decoded[field.name] if field.name in decoded else self._array(field) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    @property
    def _names(self) -> tuple[str, ...]:
        return self.fixed.dtype.names or ()

    def _array(self, field: pa.Field) -> pa.Array:
        if field.name == "run":
            return pa.repeat(pa.scalar(self.run, pa.string()), len(self))
        if field.name in _CODED:
            return _words(self._codes(field.name), _CODED[field.name])
        valid = self.valid(field.name)
        values = self.values(field.name).astype(field.type.to_pandas_dtype(), copy=False)
        return pa.array(values, field.type, mask=None if valid is None else ~valid)


def _words(codes: Values, words: dict[int, str]) -> pa.Array:
    known = list(words)
    places = np.zeros(max(known) + 1, np.int32)
    places[known] = np.arange(len(known))
    return pa.DictionaryArray.from_arrays(pa.array(places[codes]), pa.array(list(words.values()))).cast(pa.string())


def _nanoseconds(ticks: Values, interface: pcapng.Interface) -> Values:
    """Exact for every resolution, as `castbed.pcapng` computes it."""
    exact = ticks.astype(object) * pcapng.NANOSECONDS // interface.ticks_per_second + interface.offset_ns
    return exact.astype(np.int64)
