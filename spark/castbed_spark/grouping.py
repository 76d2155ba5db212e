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
    """Which rows are equal: `order` puts them together, in their old order; `starts` says where each group begins."""

    order: Values
    starts: Values

    def each(self, function: np.ufunc, values: Values) -> Values:
        """What `function` makes of the values of each group, as `np.minimum` of the smallest; they are in `order`."""
        found: Values = function.reduceat(values, self.starts) if len(self.starts) else values[:0]
        return found

    def numbers(self) -> Values:
        """For each row, in its old place, the number of its group."""
        numbers = np.empty(len(self.order), np.int64)
        sizes = np.diff(self.starts, append=len(self.order))
        numbers[self.order] = np.repeat(np.arange(len(self.starts)), sizes)
        return numbers


def grouped(columns: list[Values], keys: Keys | None = None, rising: list[Values] | None = None) -> Groups:
    """Rows grouped by all columns, and by those that are `rising` among equal rows already.

    `keys` are the mixed numbers of `columns`, if somebody has them already. Groups are in the order of these.
    """
    keys = mixed(columns) if keys is None else keys
    order = np.argsort(keys, kind="stable")
    changes = _changes([column[order] for column in columns])
    if np.count_nonzero(changes) > np.count_nonzero(_changes([keys[order]])):
        order = np.lexsort([*columns, keys])
        changes = _changes([column[order] for column in columns])
    if rising:
        changes |= _changes([column[order] for column in rising])
    return Groups(order, np.flatnonzero(changes))


def _changes(columns: list[Values]) -> Values:
    """Where a row differs from the one before it; the first one does."""
    changes = np.zeros(len(columns[0]), bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return changes
