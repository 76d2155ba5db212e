"""One time for all nodes of a run: nanoseconds since its origin, which never go back.

The origin is a moment of CLOCK_REALTIME, because that is what machines agree on and what the kernel stamps frames with.
Progress is that of the monotonic clock, so that nobody who sets the machine's time disturbs a run.
"""

from __future__ import annotations

import time

STAMP_AGE_MAX = 10_000_000_000  # an older or a future stamp means that the machine's time was set, or is not a stamp


class Clock:
    """The time of a run, as one process sees it."""

    __slots__ = ("_ahead", "_origin")

    def __init__(self, origin: int = 0) -> None:
        self.begin(origin)

    def begin(self, origin: int) -> None:
        """Count from this moment of CLOCK_REALTIME, which may lie ahead."""
        self._origin = origin
        self._ahead = time.time_ns() - time.monotonic_ns() - origin

    def now(self) -> int:
        return time.monotonic_ns() + self._ahead

    def stamped(self, at: int, now: int) -> int:
        """When something happened that the kernel saw at `at` and we see now; 0 is no stamp."""
        age = now - (at - self._origin)
        return now - age if 0 <= age < STAMP_AGE_MAX else now
