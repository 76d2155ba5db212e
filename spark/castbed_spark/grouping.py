"""Rows with equal columns brought together, with numpy: sorted by one mixed number instead of by every column.

Two identities may share such a number. Then the rows are sorted by the columns themselves, so the result never depends
on luck.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
Keys = NDArray[np.uint64]

_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)  # the golden ratio as a fraction of 2**64: spreads neighbours
_HALF = np.uint64(32)


def mixed(columns: list[Values], start: int = 0) -> Keys:
    """One number per row, equal for equal rows and well spread in all its bits."""
    keys = np.full(len(columns[0]), start, np.uint64)
    for column in columns:
        keys ^= column.astype(np.int64, copy=False).view(np.uint64)
        keys *= _ODD
        keys ^= keys >> _HALF
    return keys


class Groups(msgspec.Struct):
    """Which rows are equal: `order` puts them next to each other, in their old order; `starts` says where each begins."""

    order: Values
    starts: Values

    def least(self, values: Values) -> Values:
        """The smallest value of each group."""
        least: Values = np.minimum.reduceat(values[self.order], self.starts) if len(self.starts) else values[:0]
        return least

    def most(self, values: Values) -> Values:
        """The largest value of each group."""
        most: Values = np.maximum.reduceat(values[self.order], self.starts) if len(self.starts) else values[:0]
        return most

    def total(self, values: Values) -> Values:
        """The sum of each group."""
        total: Values = np.add.reduceat(values[self.order], self.starts) if len(self.starts) else values[:0]
        return total

    def numbers(self) -> Values:
        """For each row, in its old place, the number of its group."""
        numbers = np.empty(len(self.order), np.int64)
        sizes = np.diff(self.starts, append=len(self.order))
        numbers[self.order] = np.repeat(np.arange(len(self.starts)), sizes)
        return numbers


def grouped(columns: list[Values], keys: Keys | None = None) -> Groups:
    """Rows grouped by all columns; `keys` are their mixed numbers, if somebody has them already."""
    keys = mixed(columns) if keys is None else keys
    order = np.argsort(keys, kind="stable")
    changes = _changes([column[order] for column in columns])
    if np.count_nonzero(changes) > np.count_nonzero(_changes([keys[order]])):
        order = np.lexsort(columns)
        changes = _changes([column[order] for column in columns])
    return Groups(order, np.flatnonzero(changes))


def _changes(columns: list[Values]) -> Values:
    """Where a row differs from the one before it; the first one does."""
    changes = np.zeros(len(columns[0]), bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return changes
