"""Heartbeats: what a node has heard of, so that others notice what they miss although nothing follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from castbed.context import Context
from castbed.machine import Machine
from castbed.parts.repair_layer.options import RepairOptions
from castbed.parts.repair_layer.packets import HEARTBEAT_SOURCES_MAX, Heartbeat, Place

EQUAL_ENOUGH = 2  # heartbeats of others that say what ours would; one of them may be lost to some


class Beating(Machine):
    """Soon after a packet of one's own, then less and less often; a packet that follows makes a heartbeat needless."""

    options: RepairOptions

    def __init__(self, context: Context, options: RepairOptions, heard: Callable[[], tuple[Place, ...]]) -> None:
        super().__init__(context, options)
        self._heard = heard
        self._due: int | None = None
        self._wait: int = options.heartbeat_max
        self._sent_at = 0
        self._beat_at = 0
        self._equal = 0
        self._turn = 0

    def sent(self) -> None:
        """This node broadcast a packet: others have to learn its number even if that is lost."""
        self._sent_at = self.now
        self._wait = self.options.heartbeat
        if self._due is None or self._due > self.now + self._wait:
            self._beat_in(self._wait)

    def rest(self) -> None:
        """There is something to speak of: beat now and then."""
        if self._due is None:
            self._beat_in(self._spread(self._wait))

    def overheard(self, packet: Heartbeat) -> None:
        """Count what makes our own heartbeat needless."""
        self._equal += packet.heard == self._said()

    def expired(self, timer: Any) -> None:  # noqa: ARG002 (there is one)
        quiet, silent = self.now - self._sent_at, self.now - self._beat_at
        if quiet < self.options.heartbeat and silent < self.options.heartbeat_max:
            self._beat_in(self.options.heartbeat - quiet)
            return
        if self._equal < EQUAL_ENOUGH:
            self.broadcast(Heartbeat(self._said()))
            self._turn += 1
        self._beat_at, self._equal = self.now, 0
        self._wait = min(2 * self._wait, self.options.heartbeat_max)
        self._beat_in(self._spread(self._wait))

    def _beat_in(self, delay: int) -> None:
        self._due = self.now + delay
        self.set_timer("beat", delay)

    def _spread(self, wait: int) -> int:
        return self.context.random.randint(wait * 3 // 4, wait * 5 // 4)

    def _said(self) -> tuple[Place, ...]:
        """All that was heard of or, when that is too much for one frame, the part whose turn it is."""
        heard = self._heard()
        if len(heard) <= HEARTBEAT_SOURCES_MAX:
            return heard
        parts = -(-len(heard) // HEARTBEAT_SOURCES_MAX)
        start = self._turn % parts * HEARTBEAT_SOURCES_MAX
        return heard[start : start + HEARTBEAT_SOURCES_MAX]
