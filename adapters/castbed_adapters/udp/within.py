"""Wires between two nodes of one process: queues, in which packets travel as they are. Nobody else is at their ends."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from castbed.links import Arrival, Heard
from castbed.packets import Packet
from castbed.values import NodeNumber

HANDED_OVER_AT_ONCE = 64  # before the sockets of the process get their turn


class Wires(Protocol):
    """All wires of one node, as an end of one of them sees them."""

    me: NodeNumber
    heard: Heard | None

    def forget(self, wire: InnerWire, peer: NodeNumber | None) -> None:
        """The other end is gone."""


class _Exchange:
    """Hands over what nodes of this process send to each other, in order: each gets its turn when the last is done.

    Most of it is done before the sender's call returns, because a turn of the event loop takes longer than a node does.
    """

    def __init__(self) -> None:
        self._due: deque[InnerWire] = deque()
        self._is_busy = False

    def add(self, end: InnerWire) -> None:
        self._due.append(end)
        if not self._is_busy:
            self._work()

    def _work(self) -> None:
        self._is_busy = True
        try:
            for _ in range(HANDED_OVER_AT_ONCE):
                if not self._due:
                    return
                self._due.popleft().hand_over()
        finally:
            self._is_busy = False
        if self._due:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if not self._is_busy:
            self._work()


class InnerWire:
    """The end of a wire between two nodes of this process."""

    def __init__(self, wires: Wires, peer: NodeNumber) -> None:
        self._wires = wires
        self._peer = peer
        self._outgoing: list[Arrival] = []
        self._arrived: list[Arrival] = []
        self._due = False
        self._is_over = False
        self.other: InnerWire

    @property
    def congested(self) -> bool:
        return len(self.other._arrived) > HANDED_OVER_AT_ONCE

    def put(self, frame: bytes, packet: Packet | None) -> None:
        inside = None if packet is None else (packet, self._wires.me)
        self._outgoing.append(Arrival(True, (self._peer,), frame, 0, inside))

    def flush(self) -> None:
        other = self.other
        other._arrived += self._outgoing
        self._outgoing.clear()
        if not other._due and other._wires.heard is not None:
            other._due = True
            _exchange.add(other)

    def is_dead(self) -> bool:
        return self._is_over

    def begin(self) -> None:
        if self._arrived and not self._due:
            self._due = True
            _exchange.add(self)

    def hand_over(self) -> None:
        arrived, self._arrived = self._arrived, []
        self._due = False
        if self._wires.heard is not None and not self._is_over:
            self._wires.heard(arrived)

    def cut(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """The other end reads to the end of what was sent."""
        self._is_over = True
        self.other.peer_is_gone()

    def peer_is_gone(self) -> None:
        self._wires.forget(self, self._peer)


_exchange = _Exchange()
