"""The parts of event records that have no fixed size. Only records that have one are decoded, and only when asked."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from castbed.records import RECORD_BYTES, Detail
from castbed_spark.layout import DATA_AT
from castbed_spark.walking import Bytes, Places

_MID = pa.struct([("origin", pa.int32()), ("seqno", pa.int64()), ("incarnation", pa.int64())])
DETAIL_COLUMNS = {
    "waiting_for": pa.list_(_MID),
    "members": pa.list_(pa.int32()),
    "stations": pa.list_(pa.int32()),
    "to": pa.list_(pa.int32()),
    "local": pa.bool_(),
    "text": pa.string(),
}
_decode = msgspec.msgpack.Decoder(Detail).decode
_UNREADABLE = Detail()


def detail_columns(data: Bytes, places: Places, sizes: NDArray[Any], names: list[str]) -> dict[str, pa.Array]:
    """The named columns; null where the record has no detail, or nothing in it, or one that cannot be read."""
    rows = np.flatnonzero(sizes)
    details = [
        _decoded(data[at : at + size].tobytes())
        for at, size in zip((places[rows] + DATA_AT + RECORD_BYTES).tolist(), sizes[rows].tolist(), strict=True)
    ]
    positions = np.zeros(len(places), np.int64)
    positions[rows] = np.arange(len(rows))
    taken = pa.array(positions, mask=sizes == 0)
    return {name: pa.array([_value(d, name) for d in details], DETAIL_COLUMNS[name]).take(taken) for name in names}


def _decoded(detail: bytes) -> Detail:
    try:
        return _decode(detail)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _UNREADABLE


def _value(detail: Detail, name: str) -> Any:
    value = getattr(detail, name)
    if name == "waiting_for":
        return [(mid.sender, mid.seqno, mid.incarnation) for mid in value] or None
    return value if name == "to" else value or None
