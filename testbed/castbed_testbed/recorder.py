"""Where a host leaves what happened: in capture files, in memory, or nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from castbed.actions import Deliver
from castbed.capture import EVENT_NODE_OFFSET as NODE_OFFSET
from castbed.capture import CaptureWriter, event_block
from castbed.history import History, LocalEvent, RunIdentity
from castbed.recording import delivered
from castbed.values import Group, Mid, NodeNumber


class Recorder(Protocol):
    """What hosts need of a recorder. `appender` is None where frames are not kept: then nobody makes blocks of them."""

    keeps_events: bool

    def event(self, event: LocalEvent) -> None: ...

    def deliver(self, node: NodeNumber, at: int, action: Deliver) -> None: ...

    def appender(self, node: NodeNumber) -> Callable[[bytes], None] | None: ...

    def close(self) -> None: ...


class CaptureRecorder:
    """One pcapng file per node, complete up to the last flush whatever happens to this process."""

    keeps_events = True

    def __init__(self, directory: Path, identity: RunIdentity) -> None:
        self._writers = {
            number: CaptureWriter(directory / f"{name}.pcapng", identity, number)
            for number, name in enumerate(identity.names, start=1)
        }
        self._numbers = {number: number.to_bytes(4, "big") for number in self._writers}
        self._at = -1
        self._payload: bytes | None = None
        self._mid: Mid | None = None
        self._about: tuple[Group, Mid | None] | None = None
        self._start = self._end = b""

    def event(self, event: LocalEvent) -> None:
        self._writers[event.node].append(event_block(event))

    def deliver(self, node: NodeNumber, at: int, action: Deliver) -> None:
        """Record a delivery. Nodes that deliver one message at one time leave records that differ in the node only."""
        message = action.message
        about = (message.group, message.parent)
        same = message.payload is self._payload and message.mid is self._mid and about == self._about
        if at != self._at or not same:
            self._at, self._payload, self._mid, self._about = at, message.payload, message.mid, about
            block = event_block(delivered(node, at, action))
            self._start, self._end = block[:NODE_OFFSET], block[NODE_OFFSET + 4 :]
        self._writers[node].append(self._start + self._numbers[node] + self._end)

    def appender(self, node: NodeNumber) -> Callable[[bytes], None] | None:
        return self._writers[node].append

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class MemoryRecorder:
    """Local events only, for checks that need no files."""

    keeps_events = True

    def __init__(self, identity: RunIdentity) -> None:
        self.identity = identity
        self.events: list[LocalEvent] = []
        self.event = self.events.append

    def deliver(self, node: NodeNumber, at: int, action: Deliver) -> None:
        self.events.append(delivered(node, at, action))

    def appender(self, node: NodeNumber) -> Callable[[bytes], None] | None:  # noqa: ARG002 (the protocol's signature)
        return None

    def close(self) -> None:
        """Nothing to close."""

    def history(self) -> History:
        return History(self.identity, self.events)


class NullRecorder:
    """Nothing is kept; the host's own counters are all there is."""

    keeps_events = False

    def event(self, event: LocalEvent) -> None:
        """Forget it."""

    def deliver(self, node: NodeNumber, at: int, action: Deliver) -> None:
        """Forget it."""

    def appender(self, node: NodeNumber) -> Callable[[bytes], None] | None:  # noqa: ARG002 (the protocol's signature)
        return None

    def close(self) -> None:
        """Nothing to close."""
