"""Where a host leaves what happened: in capture files, in memory, or nowhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from castbed.actions import Deliver
from castbed.capture import EVENT_NODE_OFFSET as NODE_OFFSET
from castbed.capture import CaptureWriter, FrameHeader, FrameStatistics, event_block
from castbed.history import History, LocalEvent, RunIdentity
from castbed.recording import delivered
from castbed.values import Message, NodeNumber
from castbed.wire import HEADER

FLUSH_EVERY_S = 1.0
PENDING_BYTES_MAX = 32 * 2**20  # of all captures together, in memory

Measure = Callable[[bytes], None]
Queued = Callable[[Any, object, int, int, int], None]
Heard = Callable[[Any, tuple[Any, ...], int], None]


class Recorder(Protocol):
    """What hosts need of a recorder.

    `appender` takes blocks of frames; it is None where frames are not kept, and then nobody makes any. Who appends says
    how many bytes it `appended`. `measure` takes each frame that a node sends; it is None where nobody asks, as are
    `queued` and `heard`, which take every transmission of a simulation, and every arrival of one.
    """

    keeps_events: bool
    measure: Measure | None

    @property
    def queued(self) -> Queued | None: ...

    @property
    def heard(self) -> Heard | None: ...

    def event(self, event: LocalEvent) -> None: ...

    def deliver(self, node: NodeNumber, at: int, action: Deliver) -> None: ...

    def appender(self, node: NodeNumber) -> Callable[[bytes], None] | None: ...

    def appended(self, count: int) -> None: ...

    def breathe(self) -> None: ...

    def close(self) -> None: ...


class CaptureRecorder:
    """One pcapng file per node, complete up to the last flush whatever happens to this process."""

    keeps_events = True
    measure: Measure | None = None
    queued: Queued | None = None
    heard: Heard | None = None

    def __init__(self, directory: Path, identity: RunIdentity) -> None:
        self._writers = {
            number: CaptureWriter(directory / f"{name}.pcapng", identity, number)
            for number, name in enumerate(identity.names, start=1)
        }
        self._numbers = {number: number.to_bytes(4, "big") for number in self._writers}
        self._pending = {number: writer.pending.append for number, writer in self._writers.items()}
        self._pending_bytes = 0
        self._flushed = time.monotonic()
        self._at = -1
        self._last = Message()
        self._start = self._end = b""
        self._size = 0

    def event(self, event: LocalEvent) -> None:
        block = event_block(event)
        self._pending[event.node](block)
        self.appended(len(block))

    def deliver(self, node: NodeNumber, at: int, action: Deliver) -> None:
        """Record a delivery. Nodes that deliver one message at one time leave records that differ in the node only."""
        message = action.message
        last = self._last
        if (
            at != self._at
            or message.mid is not last.mid
            or message.payload is not last.payload
            or message.parent is not last.parent
            or message.group != last.group
        ):
            self._at, self._last = at, message
            block = event_block(delivered(node, at, action))
            self._start, self._end, self._size = block[:NODE_OFFSET], block[NODE_OFFSET + 4 :], len(block)
        append = self._pending[node]
        append(self._start)
        append(self._numbers[node])
        append(self._end)
        self._pending_bytes += self._size

    def appender(self, node: NodeNumber) -> Callable[[bytes], None] | None:
        return self._pending[node]

    def appended(self, count: int) -> None:
        """Write everything out when enough has gathered: many captures at once, because opening files costs."""
        self._pending_bytes += count
        if self._pending_bytes >= PENDING_BYTES_MAX:
            self._flush()

    def breathe(self) -> None:
        """Called now and then: what happened is in the files soon after, also when the run is killed."""
        if time.monotonic() - self._flushed > FLUSH_EVERY_S:
            self._flush()

    def _flush(self) -> None:
        self._pending_bytes = 0
        self._flushed = time.monotonic()
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class MemoryRecorder:
    """Local events only, for checks that need no files."""

    keeps_events = True
    measure: Measure | None = None
    queued: Queued | None = None
    heard: Heard | None = None

    def __init__(self, identity: RunIdentity) -> None:
        self.identity = identity
        self.events: list[LocalEvent] = []
        self.event = self.events.append

    def deliver(self, node: NodeNumber, at: int, action: Deliver) -> None:
        self.events.append(delivered(node, at, action))

    def appender(self, node: NodeNumber) -> Callable[[bytes], None] | None:  # noqa: ARG002 (the protocol's signature)
        return None

    def appended(self, count: int) -> None:
        """Nothing is appended here."""

    def breathe(self) -> None:
        """Nothing waits to be written."""

    def close(self) -> None:
        """Nothing to close."""

    def history(self) -> History:
        return History(self.identity, self.events)


class MeasuringRecorder(MemoryRecorder):
    """Local events and the sizes of all frames: what a summary needs, without files."""

    def __init__(self, identity: RunIdentity) -> None:
        super().__init__(identity)
        self.frames = FrameStatistics()
        self.measure = self._measured

    def _measured(self, frame: bytes) -> None:
        self.frames.add(FrameHeader._make(HEADER.unpack_from(frame)))


class NullRecorder:
    """Nothing is kept; the host's own counters are all there is."""

    keeps_events = False
    measure: Measure | None = None
    queued: Queued | None = None
    heard: Heard | None = None

    def event(self, event: LocalEvent) -> None:
        """Forget it."""

    def deliver(self, node: NodeNumber, at: int, action: Deliver) -> None:
        """Forget it."""

    def appender(self, node: NodeNumber) -> Callable[[bytes], None] | None:  # noqa: ARG002 (the protocol's signature)
        return None

    def appended(self, count: int) -> None:
        """Nothing is appended here."""

    def breathe(self) -> None:
        """Nothing waits to be written."""

    def close(self) -> None:
        """Nothing to close."""
