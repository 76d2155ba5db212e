"""What one node has to do when: a heap of its own behind one timer of the event loop, which is quicker than many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import ceil
from typing import Any

MILLISECOND = 1_000_000
BATCH = 256  # what is due at once before the sockets are looked at again
CALLED_OFF_MIN = 64  # entries that are called off stay in the heap until there are so many, and half of it is such

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
        self._called_off: set[int] = set()
        self._loop = asyncio.get_running_loop()
        self._armed: asyncio.TimerHandle | None = None
        self._armed_for = 0

    def at(self, due: int, run: Callable[[Any], None], argument: Any) -> int:
        """Call `run(argument)` at `due`, or soon after; returns by which number to call it off."""
        self._serial = serial = self._serial + 1
        heappush(self._heap, (due, serial, run, argument))
        if self._armed is None or due < self._armed_for:
            self._arm(due)
        return serial

    def call_off(self, serial: int) -> None:
        """Do not do this, which is not done yet."""
        called_off = self._called_off
        called_off.add(serial)
        if len(called_off) >= CALLED_OFF_MIN and 2 * len(called_off) > len(self._heap):
            self._heap[:] = [entry for entry in self._heap if entry[1] not in called_off]
            heapify(self._heap)
            called_off.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self._called_off.clear()
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
        heap, called_off, left, now = self._heap, self._called_off, BATCH, self._now()
        while left and heap and heap[0][0] <= now:
            _, serial, run, argument = heappop(heap)
            if serial in called_off:
                called_off.remove(serial)
                continue
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
