"""What a node keeps over a restart: a log of values in a file, written before anything that follows from them is sent.

A record is its length and a msgpack list of keys with their values, all that was kept since the last record (None
forgets the key); behind the last one stands the length 0. The file is mapped into memory, where a record costs no call
of the system; the kernel keeps what is there although the process is killed. The length of a record comes last, so that
it is there as a whole or not at all. A log that is full is written anew, with what counts of it, to the file that the
log had before, whose memory is there already.
"""

from __future__ import annotations

import os
from mmap import mmap
from pathlib import Path
from struct import Struct
from typing import Any

import msgspec

LENGTH = Struct(">I")
END = LENGTH.pack(0)
LOG_BYTES_MIN = 1 << 18  # a new file has at least these, and
ROOM_RATIO = 8  # so many times what counts as room
ROOM_RATIO_MIN = 4  # a file that has less is not used again

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
        self._spare_path, self._old_path = path.with_suffix(".spare"), path.with_suffix(".old")
        for left in (self._spare_path, self._old_path):
            left.unlink(missing_ok=True)
        self._spare: mmap | None = None
        self._log, self._end = self._rewritten(0)
        self._spare_path.rename(path)

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
        if end + LENGTH.size > len(self._log):
            self._exchange(*self._rewritten(len(record)))
            return
        self._log[start : end + LENGTH.size] = record + END
        self._log[self._end : start] = LENGTH.pack(len(record))
        self._end = end

    def close(self) -> None:
        self.write()
        self._log.close()
        if self._spare is not None:
            self._spare.close()

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
        """A log of one record that says the same as this one, in the spare file, with room for more; and its end."""
        record = _encode(list(self.values.items()))
        end = LENGTH.size + len(record)
        needed = max(end, expected)
        log = self._spare
        if log is None or len(log) < ROOM_RATIO_MIN * needed:
            if log is not None:
                log.close()
            log = _new_log(self._spare_path, max(LOG_BYTES_MIN, ROOM_RATIO * needed))
        log[: end + LENGTH.size] = LENGTH.pack(len(record)) + record + END
        return log, end

    def _exchange(self, log: mmap, end: int) -> None:
        """The log is the one in the spare file from now on, and the other way round."""
        os.link(self._path, self._old_path)
        self._spare_path.replace(self._path)
        self._old_path.rename(self._spare_path)
        self._spare, self._log, self._end = self._log, log, end


def _new_log(path: Path, size: int) -> mmap:
    with path.open("w+b") as file:
        os.posix_fallocate(file.fileno(), 0, size)  # a disk that is full says so here, and not when it is too late
        return mmap(file.fileno(), size)
