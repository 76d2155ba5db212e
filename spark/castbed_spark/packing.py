"""Columns of whole numbers as bytes: each as its smallest value, and what is above that in the narrowest type.

Most columns of steps hardly vary: one group, one life of each writer, no wait. Such a column takes no room but its
smallest value. Columns that were never there are all zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
Columns = dict[str, Values]

_WORD = 8  # bytes; every column begins at a multiple of it
_NARROW = (np.dtype("u1"), np.dtype("u2"), np.dtype("u4"))
_WIDE = np.dtype("i8")


def packed(columns: Columns, names: tuple[str, ...]) -> bytes:
    """The named columns, all of one length; how many rows, then of each column the smallest value and the width."""
    parts = [_pack(columns.get(name)) for name in names]
    rows = len(next(iter(columns.values())))
    head = np.array([rows, *(number for low, part in parts for number in (low, part.itemsize if len(part) else 0))])
    return b"".join([head.astype(_WIDE).tobytes(), *(_padded(part.tobytes()) for _, part in parts)])


def _pack(values: Values | None) -> tuple[int, Values]:
    """The smallest value and the differences from it; no differences where there are none."""
    if values is None or not len(values):
        return 0, _NOTHING
    values = values.view(_WIDE) if values.itemsize == _WORD else values.astype(_WIDE)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return low, _NOTHING
    narrow = next((kind for kind in _NARROW if high - low <= np.iinfo(kind).max), None)
    return (low, (values - low).astype(narrow)) if narrow else (0, values)


_NOTHING = np.empty(0, _WIDE)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _WORD)


def unpacked(pieces: list[Any], names: tuple[str, ...]) -> tuple[list[int], Columns]:
    """How many rows each piece has, and the columns of all pieces, one behind the other."""
    heads = [np.frombuffer(piece, _WIDE, 1 + 2 * len(names)).tolist() for piece in pieces]
    sizes = [head[0] for head in heads]
    columns = {name: np.zeros(sum(sizes), _WIDE) for name in names}
    start = 0
    for piece, head in zip(pieces, heads, strict=True):
        _unpack(piece, head, {name: values[start : start + head[0]] for name, values in columns.items()})
        start += head[0]
    return sizes, columns


def _unpack(piece: Any, head: list[int], into: Columns) -> None:
    rows, *numbers = head
    at = len(head) * _WORD
    for values, low, width in zip(into.values(), numbers[::2], numbers[1::2], strict=True):
        if not width:
            values[:] = low
            continue
        kind = _WIDE if width == _WORD else np.dtype(f"u{width}")
        np.add(np.frombuffer(piece, kind, rows, at), np.int64(low), out=values)
        at += -(-rows * width // _WORD) * _WORD
