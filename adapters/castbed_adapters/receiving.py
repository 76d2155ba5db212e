"""What the Linux kernel tells about each reception: when it was, and how many before it found no room."""

from __future__ import annotations

import socket
from collections import Counter
from struct import Struct

SO_RCVBUFFORCE, SO_TIMESTAMPNS, SO_RXQ_OVFL = 33, 35, 40  # Linux; Python has no names for them
_TIMESPEC = Struct("@qq")
_OVERRUN = Struct("@I")
_OVERRUNS = 1 << 32
ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size) + socket.CMSG_SPACE(_OVERRUN.size)


def make_room(receiver: socket.socket, room: int, counters: Counter[str]) -> None:
    """Have the kernel keep so many bytes for a busy node; where it keeps less, `small_buffer` counts that."""
    try:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, room)
    except PermissionError:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    if receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) < 2 * room:  # the kernel takes and tells the double
        counters["small_buffer"] += 1


def ask_for_notes(receiver: socket.socket, stamps: bool) -> None:
    """Have the kernel count what it drops and, with `stamps`, note the time of each reception."""
    receiver.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)
    if stamps:
        receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


class KernelNotes:
    """Reads the notes of one socket; `overrun` in the counters is what it had no room for."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._overruns = 0

    def read(self, ancillary: list[tuple[int, int, bytes]]) -> int:
        """The time of reception (CLOCK_REALTIME, nanoseconds), 0 where the kernel told none."""
        at = 0
        for _, kind, data in ancillary:
            if kind == SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack_from(data)
                at = seconds * 1_000_000_000 + nanoseconds
            elif kind == SO_RXQ_OVFL and len(data) >= _OVERRUN.size:
                (overruns,) = _OVERRUN.unpack_from(data)
                self._counters["overrun"] += (overruns - self._overruns) % _OVERRUNS
                self._overruns = overruns
        return at
