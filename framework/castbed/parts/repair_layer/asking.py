"""Asking for what is missing: after a random wait, less and less often, and not when another just asked for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from castbed.context import Context
from castbed.machine import Machine
from castbed.parts.repair_layer.options import RepairOptions
from castbed.parts.repair_layer.packets import MICROSECOND, RANGES_MAX, RANGES_PER_SOURCE_MAX, Missing, Ranges, Source
from castbed.parts.repair_layer.reception import Reception

DOUBLINGS_MAX = 30  # of the wait between asks; `ask_interval_max` ends it long before
LISTENING_SLACK = 10**9  # nodes of one run start within a second; who asks for more than its due judges by ages itself

Wanted = dict[Source, Ranges]


class Asking(Machine):
    """One timer for the gaps of all writers."""

    options: RepairOptions

    def __init__(
        self,
        context: Context,
        options: RepairOptions,
        receptions: Mapping[Source, Reception[Any]],
        give_up: Callable[[Source, int], None],
    ) -> None:
        super().__init__(context, options)
        self._receptions = receptions
        self._give_up = give_up
        self._since = 0
        self._asked = 0
        self._running = False
        self._covered = False
        self._away = False

    @property
    def listening(self) -> int:
        """For how long this node has been up."""
        return self.now - self._since

    def begin(self) -> None:
        self._since = self.now

    def go_away(self) -> None:
        """Out of range: asking makes no sense, and nothing is given up."""
        self._away = True

    def come_back(self) -> None:
        self._away = False
        for reception in self._receptions.values():
            reception.pressed = None
        self.hurry()

    def hurry(self) -> None:
        """There is a new gap, or others begin to answer: ask soon, whatever was waited for until now."""
        if self._running and self._asked == 0:
            return
        self._asked = 0
        delay = self.options.ask_delay
        self._ask_in(self.context.random.randint(delay // 2, delay))

    def progressed(self) -> None:
        """A gap became smaller."""
        if self._asked > 1:
            self.hurry()

    def overheard(self, packet: Missing) -> None:
        """Another node asks; if it lacks all that we lack, our own ask can wait."""
        if not self._running or packet.listening_us * MICROSECOND + LISTENING_SLACK < self.listening:
            return
        theirs: Wanted = {}
        for writer, life, ranges in packet.wanted:
            theirs[writer, life] = theirs.get((writer, life), ()) + ranges
        self._covered = all(_within(ranges, theirs.get(source, ())) for source, ranges in self._wanted().items())

    def expired(self, timer: Any) -> None:  # noqa: ARG002 (there is one)
        self._running = False
        if not self._away:
            self._press()
        wanted = self._wanted()
        if not wanted:
            return
        if not self._away and not self._covered:
            asked = tuple((*source, ranges) for source, ranges in wanted.items())
            self.broadcast(Missing(self.listening // MICROSECOND, asked))
        self._covered = False
        self._asked += 1
        wait = min(self.options.ask_delay << min(self._asked, DOUBLINGS_MAX), self.options.ask_interval_max)
        self._ask_in(self.context.random.randint(wait * 3 // 4, wait * 5 // 4))

    def _ask_in(self, delay: int) -> None:
        self._running = True
        self.set_timer("ask", delay)

    def _press(self) -> None:
        """Give up what was asked for in vain for too long."""
        for source, reception in list(self._receptions.items()):
            if reception.complete:
                reception.pressed = None
                continue
            upto = reception.in_vain(self.now, self.options.give_up_after)
            if upto:
                self._give_up(source, upto)

    def _wanted(self) -> Wanted:
        """The gaps of all writers, as many as an ask holds, beginning anywhere so that none is always left out."""
        lacking = [source for source, reception in self._receptions.items() if not reception.complete]
        wanted: Wanted = {}
        room = RANGES_MAX
        start = self._asked % len(lacking) if lacking else 0
        for source in lacking[start:] + lacking[:start]:
            ranges = self._receptions[source].gaps(min(RANGES_PER_SOURCE_MAX, room))
            room -= len(ranges)
            if ranges:
                wanted[source] = ranges
        return wanted


def _within(ranges: Ranges, others: Ranges) -> bool:
    return all(any(from_ <= low and high <= upto for from_, upto in others) for low, high in ranges)
