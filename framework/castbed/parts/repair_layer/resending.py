"""Answering asks: the writer first, others later, and nobody what another has just sent."""

from __future__ import annotations

from typing import Any

import msgspec

from castbed.context import Context
from castbed.machine import Machine
from castbed.parts.repair_layer.asking import LISTENING_SLACK
from castbed.parts.repair_layer.keeping import Keeping
from castbed.parts.repair_layer.options import RepairOptions
from castbed.parts.repair_layer.packets import MICROSECOND, Bygone, Missing, Place, Source

RESENDS_MAX = 1_024  # that wait at a node; asks for more come again
RESENDS_AT_ONCE = 16  # then others get a word in, and may have heard what they wanted
OTHERS_WAIT_MAX = 4  # times `resend_delay`
_SAYING = 0  # stands for a number where no packet but a word about old ones is due


class Resending(Machine):
    """What this node is about to resend, each with the time when it is due."""

    options: RepairOptions

    def __init__(self, context: Context, options: RepairOptions, kept: Keeping) -> None:
        super().__init__(context, options)
        self._kept = kept
        self._due: dict[Place, int] = {}
        self._said: dict[Source, Bygone] = {}
        self._runs_out: int | None = None

    def asked(self, packet: Missing) -> None:
        """Somebody lacks packets: those that we have and that were sent in its time become due."""
        for writer, life, ranges in packet.wanted:
            source, due = (writer, life), self.now + self._wait(writer)
            for low, high in ranges:
                self._help(source, low, high, packet.listening_us * MICROSECOND, due)
        self._hurry()

    def seen(self, place: Place) -> None:
        """Another copy was just on the air."""
        self._due.pop(place, None)

    def told(self, source: Source) -> None:
        """Another node said what there is to say about old packets of the source."""
        self._due.pop((*source, _SAYING), None)
        self._said.pop(source, None)

    def expired(self, timer: Any) -> None:  # noqa: ARG002 (there is one)
        self._runs_out = None
        now_due = [place for place, due in self._due.items() if due <= self.now]
        for place in now_due[:RESENDS_AT_ONCE]:
            del self._due[place]
            self._resend(place)
        self._hurry(self.options.resend_delay)

    def _wait(self, writer: int) -> int:
        delay, random = self.options.resend_delay, self.context.random
        return random.randint(0, delay) if writer == self.me else random.randint(delay, OTHERS_WAIT_MAX * delay)

    def _help(self, source: Source, low: int, high: int, listening: int, due: int) -> None:
        old = oldest = 0
        for number in range(max(low, high - self.options.history_max), high + 1):
            kept = self._kept.find((*source, number))
            if kept is None:
                continue
            age = self.now - kept.at
            if age > listening + LISTENING_SLACK:
                old, oldest = number, age
            elif len(self._due) < RESENDS_MAX:
                self._due.setdefault((*source, number), due)
        gone = self._kept.own_gone if source[0] == self.me else 0
        if old or low <= gone:
            self._said[source] = Bygone(*source, old, oldest // MICROSECOND, gone)
            self._due.setdefault((*source, _SAYING), due)

    def _resend(self, place: Place) -> None:
        writer, life, number = place
        if number == _SAYING:
            self.broadcast(self._said.pop((writer, life)))
            return
        kept = self._kept.find(place)
        if kept is not None:
            self.broadcast(msgspec.structs.replace(kept.packet, age_us=(self.now - kept.at) // MICROSECOND))

    def _hurry(self, wait: int = 0) -> None:
        """Run out when the first is due, but not before `wait` is over."""
        if not self._due:
            return
        first = max(min(self._due.values()), self.now + wait)
        if self._runs_out is None or first < self._runs_out:
            self._runs_out = first
            self.set_timer("resend", first - self.now)
