"""The capture of a node that may be killed at any time: written before anything it tells of leaves the node.

A file holds all lives of its node, one after the other. What a killed process left unfinished at the end of the file is
cut off by whoever appends next.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct

from castbed.capture import SUFFIX, capture_header, event_block
from castbed.history import LocalEvent, RunIdentity
from castbed.pcapng import BLOCK_BYTES_MIN
from castbed.values import NodeNumber

_BLOCK_START = Struct("<II")


def capture_path(folder: Path, identity: RunIdentity, node: NodeNumber) -> Path:
    return folder / f"{identity.name(node)}{SUFFIX}"


class LiveCapture:
    """Appends blocks to one node's capture; `write` brings them into the file with one call to the system."""

    def __init__(self, path: Path, identity: RunIdentity, node: NodeNumber) -> None:
        mend(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._pending: list[bytes] = []
        self.append = self._pending.append
        if os.fstat(self._file).st_size == 0:
            self.append(capture_header(identity, node))
            self.write()

    def event(self, event: LocalEvent) -> None:
        self.append(event_block(event))

    def write(self) -> None:
        """Everything appended so far is in the file and outlives this process."""
        if self._pending:
            data = memoryview(b"".join(self._pending))
            self._pending.clear()
            while data:
                data = data[os.write(self._file, data) :]

    def close(self) -> None:
        self.write()
        os.close(self._file)


def mend(path: Path) -> None:
    """Cut an unfinished block off the end of a capture of ours; leave a file that is not there alone."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        size, whole = file.seek(0, os.SEEK_END), 0
        while whole < size:
            file.seek(whole)
            start = file.read(_BLOCK_START.size)
            length = _BLOCK_START.unpack(start)[1] if len(start) == _BLOCK_START.size else 0
            if length < BLOCK_BYTES_MIN or whole + length > size:
                file.truncate(whole)
                return
            whole += length
