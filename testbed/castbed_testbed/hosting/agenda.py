"""What one node has to do when: a heap of its own behind one timer of the event loop, which is quicker than many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil
from typing import Any

MILLISECOND = 1_000_000
BATCH = 256  # what is due at once before the sockets are looked at again

Entry = tuple[int, int, Callable[[Any], None], Any]


class Agenda:
    """Things to do in order of time; at one time, in the order in which they were asked for.

    `after` is called whenever a batch was done.
    """

    def __init__(self, now: Callable[[], int], after: Callable[[], None]) -> None:
        self._now = now
        self._after = after
        self._heap: list[Entry] = []
        self._serial = 0
        self._loop = asyncio.get_running_loop()
        self._armed: asyncio.TimerHandle | None = None
        self._armed_for = 0

    def at(self, due: int, run: Callable[[Any], None], argument: Any) -> None:
        """Call `run(argument)` at `due`, or soon after."""
        self._serial = serial = self._serial + 1
        heappush(self._heap, (due, serial, run, argument))
        if self._armed is None or due < self._armed_for:
            self._arm(due)

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def _arm(self, due: int) -> None:
        if self._armed is not None:
            self._armed.cancel()
        # Event loops count in whole milliseconds: rounding up wakes once, and late by less than one.
        wait = ceil((due - self._now()) / MILLISECOND) / 1000
        self._armed_for = due
        self._armed = self._loop.call_later(max(wait, 0), self._fire)

    def _fire(self) -> None:
        self._armed, self._armed_for = _BUSY, 0
        heap, left, now = self._heap, BATCH, self._now()
        while left and heap and heap[0][0] <= now:
            _, _, run, argument = heappop(heap)
            run(argument)
            left -= 1
        self._armed = None
        self._after()
        if heap and self._armed is None:
            self._arm(heap[0][0])


class _Busy:
    """Stands for the timer while things are being done, so that what they ask for arms none."""

    def cancel(self) -> None:
        """There is nothing to cancel."""


_BUSY: Any = _Busy()
