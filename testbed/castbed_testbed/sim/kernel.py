"""Virtual time: a heap of things to do, in order of time; at one time, in the order in which they were asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

from castbed.errors import ContractError

PROGRESS_EVENTS = 1 << 15  # how many events pass between two calls of `progress`
STUCK_MAX = 32  # times that many events in one moment: a million are no honest work

T = TypeVar("T")
Entry = tuple[int, int, Callable[[Any], None], Any]


class Kernel:
    """The clock of a simulation."""

    __slots__ = ("_heap", "_serial", "events", "now")

    def __init__(self) -> None:
        self.now = 0
        self.events = 0
        self._serial = 0
        self._heap: list[Entry] = []

    def at(self, when: int, run: Callable[[Any], None], argument: Any) -> None:
        """Call `run(argument)` at `when`."""
        self._serial = serial = self._serial + 1
        heappush(self._heap, (when, serial, run, argument))

    def withdraw(self, run: Callable[[Any], None], is_void: Callable[[Any], bool]) -> None:
        """Let no `run(argument)` happen whose argument is void; looks at everything that is to come."""
        self._heap[:] = [entry for entry in self._heap if entry[2] != run or not is_void(entry[3])]
        heapify(self._heap)

    def in_turn(self, arguments: Sequence[T], when: Callable[[T], int], run: Callable[[T], None]) -> None:
        """Call `run` with each of the arguments, which are in order of time, as if all of that were asked for now.

        Only the next one is in the heap: a long schedule makes it neither large nor slow.
        """
        first = self._serial + 1
        self._serial += len(arguments)

        def follow(at: int) -> None:
            if at + 1 < len(arguments):
                heappush(self._heap, (when(arguments[at + 1]), first + at + 1, follow, at + 1))
            run(arguments[at])

        if arguments:
            heappush(self._heap, (when(arguments[0]), first, follow, 0))

    def run(self, end: int, progress: Callable[[int], None] | None = None) -> None:
        """Let everything happen that is due up to `end`."""
        heap = self._heap
        stuck = 0
        while heap and heap[0][0] <= end:
            left, before = PROGRESS_EVENTS, self.now
            while left and heap and heap[0][0] <= end:
                self.now, _, run, argument = heappop(heap)
                run(argument)
                left -= 1
            self.events += PROGRESS_EVENTS - left
            stuck = stuck + 1 if self.now == before else 0
            if stuck == STUCK_MAX:
                raise ContractError(f"time stands still at {self.now} ns: something without delay goes round for ever")
            if progress is not None:
                progress(self.now)
        self.now = end
