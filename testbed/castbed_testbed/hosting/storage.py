"""What a node keeps over a restart: a log of values on disk, written before anything that follows from them is sent.

A record is its length and a msgpack pair of key and value (None forgets the key). The last record of a killed node may
be cut short; it was never acted upon and does not count.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec

LENGTH = Struct(">I")
COMPACT_BYTES = 1 << 20  # a log below this is never rewritten
COMPACT_RATIO = 8  # nor one that is not this many times as long as what it still says

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, Any]).decode


class Storage:
    """The values of one node, in memory and in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[str, bytes] = {}
        self._pending: list[bytes] = []
        self._logged = 0
        self.values: dict[str, Any] = {}
        if path.exists():
            self._load(path.read_bytes())
        self._file = self._rewritten()

    def keep(self, key: str, value: Any) -> None:
        """Remember the value from the next `write` on."""
        record = _encode((key, value))
        if value is None:
            self._records.pop(key, None)
        else:
            self._records[key] = record
        self._pending.append(LENGTH.pack(len(record)) + record)

    def write(self) -> None:
        """Everything kept so far outlives this process."""
        if not self._pending:
            return
        data = b"".join(self._pending)
        self._pending.clear()
        os.write(self._file, data)
        self._logged += len(data)
        if self._logged > COMPACT_BYTES and self._logged > COMPACT_RATIO * self._live_bytes():
            os.close(self._file)
            self._file = self._rewritten()

    def close(self) -> None:
        self.write()
        os.close(self._file)

    def _load(self, data: bytes) -> None:
        at = 0
        while at + LENGTH.size <= len(data):
            end = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
            if end > len(data):
                return
            record = data[at + LENGTH.size : end]
            key, value = _decode(record)
            if value is None:
                self._records.pop(key, None)
                self.values.pop(key, None)
            else:
                self._records[key], self.values[key] = record, value
            at = end

    def _live_bytes(self) -> int:
        return sum(len(record) + LENGTH.size for record in self._records.values())

    def _rewritten(self) -> int:
        """Replace the log by one that says the same in the fewest records; returns the new file."""
        fresh = self._path.with_suffix(".new")
        data = b"".join(LENGTH.pack(len(record)) + record for record in self._records.values())
        fresh.write_bytes(data)
        fresh.replace(self._path)
        self._logged = len(data)
        return os.open(self._path, os.O_WRONLY | os.O_APPEND)
