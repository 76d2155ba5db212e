"""The few Linux calls that Python 3.11 has no name for, each with an error that says what failed."""

from __future__ import annotations

import ctypes
import os
import struct

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
CLOCK_MONOTONIC = 1
TFD_NONBLOCK = 0o4000
TFD_CLOEXEC = 0o2000000
TFD_TIMER_ABSTIME = 1
PR_SET_PDEATHSIG = 1
SECOND = 1_000_000_000

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Give this thread namespaces of its own."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def enter_namespace(descriptor: int) -> None:
    """Move this thread into the network namespace behind the descriptor."""
    _checked(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(CLONE_NEWNET)), "setns")


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when the thread that started it ends."""
    _checked(_libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def timer_descriptor() -> int:
    """A timerfd on the monotonic clock: epoll's own timeouts are whole milliseconds, too coarse for a radio."""
    made = _libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
    return _checked(made, "timerfd_create")


def set_timer(descriptor: int, at: int) -> None:
    """Let the timerfd become readable at this time of the monotonic clock; 0 disarms it."""
    when = struct.pack("qqqq", 0, 0, at // SECOND, at % SECOND)
    _checked(_libc.timerfd_settime(descriptor, TFD_TIMER_ABSTIME, when, None), "timerfd_settime")
