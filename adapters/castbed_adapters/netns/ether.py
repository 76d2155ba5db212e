"""The medium at work: one process that reads the TAP of every node and writes copies to those who hear them.

Copies wait in a heap behind a timerfd, because epoll's own timeouts are whole milliseconds. The controller places nodes
and asks for counts over a socket; when it is gone, so is this process, and every TAP with it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import stat
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from heapq import heappop, heappush

import msgspec

from castbed.errors import UnavailableError
from castbed.links import Cell
from castbed.values import NodeNumber
from castbed_adapters.netns.medium import Medium, MediumSpec
from castbed_adapters.netns.syscalls import die_with_parent, set_timer, timer_descriptor
from castbed_adapters.wifi.sockets import dropped_frames

FRAME_BYTES = 65_536
BACKLOG_NS_MAX = 100_000_000  # of one transmitter: above this, what its node sends waits in the TAP, and then there
FRAMES_PER_TURN = 64  # of one node before the others get theirs
CONTROL_BYTES = 65_536
TIMER_BYTES = 8
DEAD = "the medium died: its process was killed, or says above what went wrong"
RESUME = b""  # in place of a frame, and its sender in place of a cell: read the sender's TAP again


class Place(msgspec.Struct, frozen=True, tag=True):
    """Controller to medium: the node is in this cell from now on."""

    node: NodeNumber
    cell: Cell


class Begin(msgspec.Struct, frozen=True, tag=True):
    """Controller to medium: the run starts at this time of the monotonic clock."""

    at: int


class Count(msgspec.Struct, frozen=True, tag=True):
    """Controller to medium: tell what happened so far."""


class Counts(msgspec.Struct, frozen=True):
    """Medium to controller: `dropped` are copies that the medium itself lost, `late_ns` the worst delay it added."""

    frames: int
    copies: int
    dropped: int
    foreign: int
    late_ns: int
    effects: dict[str, int]


_orders = msgspec.msgpack.Decoder(Place | Begin | Count)


class Ether:
    """The loop of the medium's process."""

    def __init__(self, spec: MediumSpec, taps: Mapping[NodeNumber, int], control: socket.socket) -> None:
        self._medium = Medium(spec)
        self._taps = taps
        self._nodes = {descriptor: node for node, descriptor in taps.items()}
        self._control = control
        self._origin = time.monotonic_ns()
        self._timer = timer_descriptor()
        self._armed = 0
        self._serial = 0
        self._waiting: list[tuple[int, int, bytes, NodeNumber, tuple[NodeNumber, ...]]] = []
        self._unread: Counter[NodeNumber] = Counter()
        self._frames = self._copies = self._dropped = self._late = 0
        self._running = True
        self._poll = select.epoll()

    def run(self) -> None:
        """Carry frames until the controller goes away."""
        poll = self._poll
        for descriptor in (*self._nodes, self._timer, self._control.fileno()):
            poll.register(descriptor, select.EPOLLIN)
        while self._running:
            for descriptor, _ in poll.poll():
                if descriptor in self._nodes:
                    self._read(descriptor)
                elif descriptor == self._timer:
                    self._expired()
                else:
                    self._obey()
            self._release()

    def _expired(self) -> None:
        """Read the timer, or it would wake us again and again."""
        with suppress(BlockingIOError):
            os.read(self._timer, TIMER_BYTES)
        self._armed = 0

    def _now(self) -> int:
        return time.monotonic_ns() - self._origin

    def _read(self, descriptor: int) -> None:
        sender = self._nodes[descriptor]
        for _ in range(FRAMES_PER_TURN):
            backlog = self._medium.backlog(sender, self._now())
            if backlog > BACKLOG_NS_MAX:
                self._pause(descriptor, self._now() + backlog - BACKLOG_NS_MAX // 2)
                return
            try:
                frame = os.read(descriptor, FRAME_BYTES)
            except BlockingIOError:
                return
            self._frames += 1
            cell = self._medium.cell(sender)
            for at, receivers in self._medium.transmitted(sender, frame, self._now()):
                self._serial += 1
                heappush(self._waiting, (at, self._serial, frame, cell, receivers))

    def _pause(self, descriptor: int, until: int) -> None:
        """Let what a node sends wait in its TAP until the transmitter has worked some of it off."""
        self._poll.unregister(descriptor)
        self._serial += 1
        heappush(self._waiting, (until, self._serial, RESUME, self._nodes[descriptor], ()))

    def _release(self) -> None:
        """Write every copy that is due, and have the timer wake us for the next."""
        waiting, now = self._waiting, self._now()
        while waiting and waiting[0][0] <= now:
            at, _, frame, cell, receivers = heappop(waiting)
            if frame is RESUME:
                self._poll.register(self._taps[cell], select.EPOLLIN)
                continue
            self._late = max(self._late, now - at)
            self._write(frame, self._medium.still_hears(cell, receivers))
        due = self._origin + waiting[0][0] if waiting else 0
        if due != self._armed:
            set_timer(self._timer, due)
            self._armed = due

    def _write(self, frame: bytes, receivers: Sequence[NodeNumber]) -> None:
        taps, write, dropped = self._taps, os.write, 0
        for receiver in receivers:
            try:
                write(taps[receiver], frame)
            except OSError:  # no room, or the interface is down
                dropped += 1
        self._copies += len(receivers) - dropped
        self._dropped += dropped

    def _obey(self) -> None:
        order = self._control.recv(CONTROL_BYTES)
        if not order:
            self._running = False
            return
        match _orders.decode(order):
            case Place(node, cell):
                self._medium.place(node, cell)
            case Begin(at):
                self._origin = at
            case Count():
                self._control.send(msgspec.msgpack.encode(self._counts()))

    def _counts(self) -> Counts:
        medium = self._medium
        dropped = self._dropped + self._dropped_unread()
        return Counts(self._frames, self._copies, dropped, medium.foreign, self._late, dict(medium.effects))

    def _dropped_unread(self) -> int:
        """What came faster than it was read, where a socket stands in for a TAP; TAPs make their nodes wait instead."""
        for node, descriptor in self._taps.items():
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.socket(fileno=os.dup(descriptor)) as there:
                    self._unread[node] += dropped_frames(there)
        return sum(self._unread.values())


class EtherProcess:
    """The controller's end of the medium: start it before any thread, then place nodes and ask for counts."""

    def __init__(self, spec: MediumSpec, taps: Mapping[NodeNumber, int]) -> None:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = mine
        self.pid = os.fork()
        if self.pid == 0:
            mine.close()
            _carry(spec, taps, its)
        its.close()
        for descriptor in taps.values():
            os.close(descriptor)

    def place(self, node: NodeNumber, cell: NodeNumber) -> None:
        self._say(Place(node, cell))

    def begin(self, at: int) -> None:
        self._say(Begin(at))

    def check(self) -> None:
        """UnavailableError when the medium is dead."""
        try:
            dead = not self._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            dead = True
        if dead:
            raise UnavailableError(DEAD)

    def counts(self) -> Counts:
        """What happened so far."""
        self._say(Count())
        try:
            answer = self._control.recv(CONTROL_BYTES)
        except OSError:
            answer = b""
        if not answer:
            raise UnavailableError(DEAD)
        return msgspec.msgpack.decode(answer, type=Counts)

    def _say(self, order: Place | Begin | Count) -> None:
        try:
            self._control.send(msgspec.msgpack.encode(order))
        except OSError:
            raise UnavailableError(DEAD) from None

    def close(self) -> None:
        """End the medium; the TAPs of all nodes vanish with it."""
        self._control.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _carry(spec: MediumSpec, taps: Mapping[NodeNumber, int], control: socket.socket) -> None:
    """The whole life of the medium's process; never returns."""
    status = 1
    try:
        die_with_parent(signal.SIGKILL)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the controller decides when the run ends
        Ether(spec, taps, control).run()
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)
