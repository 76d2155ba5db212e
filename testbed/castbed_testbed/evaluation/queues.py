"""How long transmissions wait, how busy their transmitters are, and whether that can go on: per role and medium.

`queue_ms` is the time between hand-over and start of transmission, `sojourn_ms` that and the transmission itself,
`load` the time that all transmissions handed over take, as a share of the time that all transmitters have. Where more
is handed over than can be sent, or where the queues of a role are longer and longer, no average means anything: such
queues are `overloaded`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

MILLISECOND = 1_000_000
PARTS = 3  # of the time measured; queues that grow are longer in the last part than in the first
GROWTH_MAX = 2.0  # in a stable run the parts differ by chance alone
WAIT_MIN = 10 * MILLISECOND  # shorter queues may double by chance: they are nobody's overload


class Queues:
    """The queues of all roles from `start` to `end`."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self._length = start, end - start
        self._queues: dict[str, _Queue] = defaultdict(_Queue)

    def add(self, name: str, queue: object, entered: int, start: int, sent: int) -> None:
        """One transmission of the queue `name`, at the transmitter `queue`."""
        part = (entered - self._start) * PARTS // self._length
        self._queues[name].add(part, queue, start - entered, sent - start)

    def figures(self) -> dict[str, Any]:
        queues = dict(sorted(self._queues.items()))
        return {
            "queue_ms": {name: queue.waited_ms() for name, queue in queues.items()},
            "sojourn_ms": {name: queue.stayed_ms() for name, queue in queues.items()},
            "load": {name: round(queue.load(self._length), 4) for name, queue in queues.items()},
            "overloaded": [name for name, queue in queues.items() if queue.is_overloaded(self._length)],
        }


class _Queue:
    """Sums over the transmissions of one role on one medium, by the part of the time in which they were handed over."""

    def __init__(self) -> None:
        self.transmitters: set[int] = set()
        self.counts = [0] * PARTS
        self.waited = [0] * PARTS
        self.busy = 0

    def add(self, part: int, queue: object, waited: int, busy: int) -> None:
        self.transmitters.add(id(queue))
        self.counts[part] += 1
        self.waited[part] += waited
        self.busy += busy

    def waited_ms(self) -> float:
        return round(sum(self.waited) / sum(self.counts) / MILLISECOND, 6)

    def stayed_ms(self) -> float:
        return round((sum(self.waited) + self.busy) / sum(self.counts) / MILLISECOND, 6)

    def load(self, length: int) -> float:
        return self.busy / (length * len(self.transmitters))

    def is_overloaded(self, length: int) -> bool:
        """More than can be sent, or longer and longer queues."""
        if self.load(length) >= 1:
            return True
        first, last = (self.waited[part] / max(1, self.counts[part]) for part in (0, PARTS - 1))
        return last > WAIT_MIN and last > GROWTH_MAX * first
