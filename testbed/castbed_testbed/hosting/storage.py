"""What a node keeps over a restart: a log of values in a file, written before anything that follows from them is sent.

A record is its length and a msgpack list of keys with their values, all that was kept since the last record (None
forgets the key). The file is mapped into memory, where a record costs no call of the system; the kernel keeps what is
there although the process is killed. The length comes last, so that a record is there as a whole or not at all; behind
the last one the file is empty.
"""

from __future__ import annotations

import os
from mmap import mmap
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec

LENGTH = Struct(">I")
LOG_BYTES_MIN = 1 << 18  # a log that is full is written anew, with what counts of it and
ROOM_RATIO = 8  # so many times its size as room

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, Any]]).decode


class Storage:
    """The values of one node, in memory and in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.pending: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        """What is in the file; `pending` is what the next `write` adds, always the same dictionary."""
        if path.exists():
            self._load(path.read_bytes())
        self._log, self._end = self._rewritten(0)

    def keep(self, key: str, value: Any) -> None:
        """Remember the value from the next `write` on."""
        self.pending[key] = value

    def write(self) -> None:
        """Everything kept so far outlives this process."""
        pending = self.pending
        if not pending:
            return
        record, start = _encode(list(pending.items())), self._end + LENGTH.size
        self._take(pending)
        pending.clear()
        end = start + len(record)
        if end > len(self._log):
            self._log.close()
            self._log, self._end = self._rewritten(len(record))
            return
        self._log[start:end] = record
        self._log[self._end : start] = LENGTH.pack(len(record))
        self._end = end

    def close(self) -> None:
        self.write()
        self._log.close()

    def _take(self, changed: dict[str, Any]) -> None:
        values = self.values
        values.update(changed)
        for key, value in changed.items():
            if value is None:
                del values[key]

    def _load(self, data: bytes) -> None:
        at = 0
        while at + LENGTH.size <= len(data):
            (length,) = LENGTH.unpack_from(data, at)
            end = at + LENGTH.size + length
            if not length or end > len(data):
                return
            self._take(dict(_decode(data[at + LENGTH.size : end])))
            at = end

    def _rewritten(self, expected: int) -> tuple[mmap, int]:
        """Replace the log by one record that says the same, with room for more; returns it and where it ends."""
        fresh = self._path.with_suffix(".new")
        record = _encode(list(self.values.items()))
        data = LENGTH.pack(len(record)) + record
        size = max(LOG_BYTES_MIN, ROOM_RATIO * max(len(data), expected))
        with fresh.open("w+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a disk that is full says so here, and not when it is too late
            log = mmap(file.fileno(), size)
        log[: len(data)] = data
        fresh.replace(self._path)
        return log, len(data)
