"""Where the fields of packets, frames and records lie, as numpy types: made from the definitions of the formats."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from castbed.records import RECORD_BYTES, RECORD_FIELDS
from castbed.wire import ETHERNET_BYTES, HEADER_BYTES, HEADER_FIELDS
from castbed_spark.walking import Bytes, Places

DATA_AT = 28  # where a packet's data begins in its block
_BLOCK = (("length", "u4", 4), ("interface", "u4", 8), ("high", "u4", 12), ("low", "u4", 16), ("captured", "u4", 20),
          ("original", "u4", 24))  # fmt: skip
_CODES = {"B": "u1", "H": ">u2", "I": ">u4", "Q": ">u8"}
_ETHERNET = (("address", ">u2", 0), ("to", ">u4", 2), ("ethertype", ">u2", 12))

Fixed = NDArray[Any]  # structured: one of the types below
Field = tuple[str, str, int]


def _behind(start: int, definition: tuple[tuple[str, str, str], ...]) -> list[Field]:
    """Name, type and offset of the fields of a format that begins at `start`."""
    fields: list[Field] = []
    for name, code, _ in definition:
        fields.append((name, _CODES[code], start))
        start += np.dtype(_CODES[code]).itemsize
    return fields


def _structured(mark: str, fields: list[Field], size: int) -> np.dtype[Any]:
    block = [(name, mark + code, at) for name, code, at in _BLOCK]
    names, formats, offsets = zip(*block, *fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": -(-size // 4) * 4})


@lru_cache
def packet_type(mark: str) -> np.dtype[Any]:
    """The fixed part of any packet, in one byte order."""
    return _structured(mark, [], DATA_AT)


@lru_cache
def frame_type(mark: str) -> np.dtype[Any]:
    """A packet with a frame of Castbed."""
    ethernet = [(name, code, DATA_AT + at) for name, code, at in _ETHERNET]
    header = _behind(DATA_AT + ETHERNET_BYTES, HEADER_FIELDS)
    return _structured(mark, [*ethernet, *header], DATA_AT + ETHERNET_BYTES + HEADER_BYTES)


@lru_cache
def event_type(mark: str) -> np.dtype[Any]:
    """A packet with a local event."""
    return _structured(mark, _behind(DATA_AT, RECORD_FIELDS), DATA_AT + RECORD_BYTES)


def gather(data: Bytes, places: Places, layout: np.dtype[Any]) -> Fixed:
    """The fixed parts at `places` (multiples of 4), one behind the other: a copy of so many bytes for each."""
    size = layout.itemsize
    overlapping: Fixed = np.ndarray(((len(data) - size) // 4 + 1,), f"V{size}", data, strides=(4,))
    gathered: Fixed = overlapping[places >> 2].view(layout)
    return gathered
