"""What a node keeps over a restart: a log of values on disk, written before anything that follows from them is sent.

A record is its length and a msgpack list of keys with their values, all that was kept since the last record (None
forgets the key). The last record of a killed node may be cut short; it was never acted upon and does not count.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec

LENGTH = Struct(">I")
COMPACT_BYTES = 1 << 20  # a log below this is never rewritten
COMPACT_RATIO = 8  # nor one that is not this many times as long as it was after it was rewritten

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, Any]]).decode


class Storage:
    """The values of one node, in memory and in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.pending: dict[str, Any] = {}
        self._logged = 0
        self._compact_at = 0
        self.values: dict[str, Any] = {}
        """What is in the file; `pending` is what the next `write` adds, always the same dictionary."""
        if path.exists():
            self._load(path.read_bytes())
        self._file = self._rewritten()

    def keep(self, key: str, value: Any) -> None:
        """Remember the value from the next `write` on."""
        self.pending[key] = value

    def write(self) -> None:
        """Everything kept so far outlives this process."""
        pending = self.pending
        if not pending:
            return
        data = _record(pending)
        self._take(pending)
        pending.clear()
        os.write(self._file, data)
        self._logged += len(data)
        if self._logged > self._compact_at:
            os.close(self._file)
            self._file = self._rewritten()

    def close(self) -> None:
        self.write()
        os.close(self._file)

    def _take(self, changed: dict[str, Any]) -> None:
        values = self.values
        values.update(changed)
        for key, value in changed.items():
            if value is None:
                del values[key]

    def _load(self, data: bytes) -> None:
        at = 0
        while at + LENGTH.size <= len(data):
            end = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
            if end > len(data):
                return
            self._take(dict(_decode(data[at + LENGTH.size : end])))
            at = end

    def _rewritten(self) -> int:
        """Replace the log by one record that says the same; returns the new file."""
        fresh = self._path.with_suffix(".new")
        data = _record(self.values)
        fresh.write_bytes(data)
        fresh.replace(self._path)
        self._logged = len(data)
        self._compact_at = max(COMPACT_BYTES, COMPACT_RATIO * len(data))
        return os.open(self._path, os.O_WRONLY | os.O_APPEND)


def _record(values: dict[str, Any]) -> bytes:
    record = _encode(list(values.items()))
    return LENGTH.pack(len(record)) + record
