"""A process that does not sleep: it looks at its links again and again, and gives way while others want its core.

Whoever shares the core with it would wait for it to stop looking at nothing. So it compares, from time to time, how
long it ran with how much time passed, and when it did not run for a good part of that, it sleeps for a while as
everybody does: its event loop wakes it when something comes. Each time that it is in the way again it sleeps longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LOOKS_PER_TURN = 16  # one takes a microsecond or two, a turn of the event loop several
JUDGED_EVERY_NS = 20_000_000
RAN_SHARE = (3, 4)  # of the time, at least, on a core of its own; who else is woken there now and then takes less
REST_S, REST_S_MAX = 0.1, 1.6

Time = Callable[[], int]


class Vigil:
    """Keeps the process of the running event loop awake; every look is called again and again."""

    def __init__(self, ran: Time = time.process_time_ns, now: Time = time.monotonic_ns) -> None:
        self._looks: list[Callable[[], None]] = []
        self._ran, self._now = ran, now
        self._loop = asyncio.get_running_loop()
        self._rest_s = REST_S
        self._begin()

    def add(self, look: Callable[[], None]) -> None:
        self._looks.append(look)

    def end(self) -> None:
        """Look at nothing any more."""
        self._looks.clear()

    def _begin(self) -> None:
        self._judged, self._ran_then = self._now(), self._ran()
        self._turn()

    def _turn(self) -> None:
        for _ in range(LOOKS_PER_TURN):
            for look in self._looks:
                look()
        if self._now() - self._judged < JUDGED_EVERY_NS:
            self._loop.call_soon(self._turn)
        elif self._is_in_the_way():
            self._loop.call_later(self._rest_s, self._begin)
            self._rest_s = min(2 * self._rest_s, REST_S_MAX)
        else:
            self._rest_s = REST_S
            self._loop.call_soon(self._turn)

    def _is_in_the_way(self) -> bool:
        """Whether others got a good part of the time since the last judgement."""
        now, ran = self._now(), self._ran()
        passed, ours = now - self._judged, ran - self._ran_then
        self._judged, self._ran_then = now, ran
        part, whole = RAN_SHARE
        return ours * whole < passed * part
