"""Rows with equal columns brought together, with numpy: sorted by one mixed number instead of by every column.

Two identities may share such a number. Then the rows are sorted by the columns themselves, so the result never depends
on luck.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from castbed_spark.packing import Values

Keys = NDArray[np.uint64]

_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)  # the golden ratio as a fraction of 2**64: spreads neighbours
_HALF = np.uint64(32)


def mixed(columns: list[Values], start: int = 0) -> Keys:
    """One number per row, equal for equal rows and well spread in all its bits."""
    keys = np.array([start], np.uint64)
    for column in columns:
        numbers = column if differs(column) else column[:1]
        keys = (keys ^ numbers.astype(np.int64, copy=False).view(np.uint64)) * _ODD
        keys ^= keys >> _HALF
    return np.broadcast_to(keys, (len(columns[0]),))


def differs(column: Values) -> bool:
    """Whether not all of its values are the same."""
    return len(column) > 0 and bool(column.min() != column.max())


class Groups(msgspec.Struct):
    """Which rows are equal: `order` puts them together; `numbers` says for each row, in that order, of which group."""

    order: Values
    numbers: Values

    @property
    def count(self) -> int:
        return int(self.numbers[-1]) + 1 if len(self.numbers) else 0

    def of_rows(self) -> Values:
        """For each row, in its old place, the number of its group."""
        numbers = np.empty_like(self.numbers)
        numbers[self.order] = self.numbers
        return numbers


def grouped(columns: list[Values], keys: Values | None = None, rising: Values | None = None) -> Groups:
    """Rows grouped by all columns, and by the one that is `rising` among equal rows already.

    `keys` are numbers that are equal for equal rows, if somebody has them already. Groups are in the order of these.
    """
    keys = mixed(columns) if keys is None else keys
    order = np.argsort(keys, kind="stable")
    differing = [column for column in columns if differs(column)]
    changed = changes(differing, order)
    if np.count_nonzero(changed) > np.count_nonzero(changes([keys], order)):
        order = np.lexsort([*differing, keys])
        changed = changes(differing, order)
    if rising is not None and differs(rising):
        changed |= changes([rising], order)
    return Groups(order, np.cumsum(changed) - 1)


def changes(columns: list[Values], order: Values) -> Values:
    """Where a row differs from the one before it in this order; the first one does."""
    changed = np.zeros(len(order), bool)
    changed[:1] = True
    for column in columns:
        ordered = column[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    return changed


class Firsts(msgspec.Struct):
    """Of some rows: the groups that they are of, in order, and where in them each group begins."""

    groups: Values
    starts: Values
    rows: Values

    def each(self, function: np.ufunc, values: Values) -> Values:
        """What `function` makes of each group, as `np.minimum` of its smallest value; `values` are of `rows`."""
        found: Values = function.reduceat(values, self.starts) if len(self.starts) else values[:0]
        return found

    def copies(self) -> Values:
        return np.diff(self.starts, append=len(self.rows))


def firsts(groups: Groups, kept: Values) -> Firsts:
    """The rows for which `kept` is true, by group; it is in the order of `groups`, and so are they."""
    places = np.flatnonzero(kept)
    numbers = groups.numbers[places]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return Firsts(numbers[starts], starts, groups.order[places])
