"""One time for all nodes of a run: nanoseconds since its origin, which never go back.

The origin is a moment of CLOCK_MONOTONIC, which all processes of a machine share and nobody can set. The kernel stamps
frames with CLOCK_REALTIME: how far that is ahead is measured once, by the controller, and told to every life of every
node.
"""

from __future__ import annotations

import time

STAMP_AGE_MAX = 10_000_000_000  # an older or a future stamp means that the machine's time was set, or is not a stamp
READINGS = 16


class Clock:
    """The time of a run, as one process sees it."""

    __slots__ = ("_origin", "_stamped_from")

    def __init__(self, origin: int = 0, ahead: int = 0) -> None:
        self.begin(origin, ahead)

    def begin(self, origin: int, ahead: int) -> None:
        """Count from this moment of CLOCK_MONOTONIC, which may lie ahead; CLOCK_REALTIME shows `ahead` more."""
        self._origin = origin
        self._stamped_from = origin + ahead

    def now(self) -> int:
        return time.monotonic_ns() - self._origin

    def stamped(self, at: int, now: int) -> int:
        """When something happened that the kernel saw at `at` and we see now; 0 is no stamp."""
        seen = at - self._stamped_from
        return seen if 0 <= now - seen < STAMP_AGE_MAX else now


def realtime_ahead() -> int:
    """How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC; of some readings the quickest, for we may be preempted."""
    return min(_reading() for _ in range(READINGS))[1]


def _reading() -> tuple[int, int]:
    """How long it took to read both clocks, and their difference."""
    before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    return after - before, real - (before + after) // 2
