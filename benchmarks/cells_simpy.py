"""The cell workload written naturally in SimPy: a process per sender, per hop and per delivery, as it is taught."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import simpy
from cells import CELLS, PER_CELL, RATE, SENDERS

WIRE_S, AIR_S, PROPAGATION_S = 1e-3, 0.4e-3, 1e-6


class Receiver:
    """Checks the number of every message against the last one of its sender, and keeps the sum of latencies."""

    def __init__(self) -> None:
        self.expected = [1] * (SENDERS + 1)
        self.count = 0
        self.latency = 0.0

    def receive(self, now: float, message: tuple[int, int, float]) -> None:
        sender, number, sent = message
        if number == self.expected[sender]:
            self.expected[sender] = number + 1
            self.count += 1
            self.latency += now - sent


def deliveries(seconds: float) -> int:
    """Simulate `seconds` of the workload; returns how many messages were delivered."""
    environment = simpy.Environment()
    cells = [[Receiver() for _ in range(PER_CELL)] for _ in range(CELLS)]
    air = [simpy.Resource(environment, 1) for _ in range(CELLS)]

    def deliver(receiver: Receiver, message: tuple[int, int, float]) -> Iterator[Any]:
        yield environment.timeout(PROPAGATION_S)
        receiver.receive(environment.now, message)

    def hop(cell: int, message: tuple[int, int, float]) -> Iterator[Any]:
        yield environment.timeout(WIRE_S)
        with air[cell].request() as turn:
            yield turn
            yield environment.timeout(AIR_S)
        for receiver in cells[cell]:
            environment.process(deliver(receiver, message))

    def sender(number: int) -> Iterator[Any]:
        yield environment.timeout(number / (SENDERS * RATE))
        for count in range(1, int(RATE * seconds) + 1):
            for cell in range(CELLS):
                environment.process(hop(cell, (number, count, environment.now)))
            yield environment.timeout(1 / RATE)

    for number in range(1, SENDERS + 1):
        environment.process(sender(number))
    environment.run(until=seconds + 1)
    return sum(receiver.count for cell in cells for receiver in cell)
