"""The requests of a host, in order: a window of them on their way, the others behind.

The core numbers the requests of a host in their order only, and those of a life only when all of the life before that
the host remembers are numbered. So requests of two lives are never on their way at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from castbed import Message, Mid


class Outbox:
    """`on_the_way` was sent and is not acknowledged, `behind` waits."""

    def __init__(self, kept: Iterable[Message], window: int) -> None:
        self.on_the_way: deque[Message] = deque()
        self.behind: deque[Message] = deque(kept)
        self._window = window

    def __len__(self) -> int:
        return len(self.on_the_way) + len(self.behind)

    def add(self, message: Message) -> None:
        self.behind.append(message)

    def start(self) -> Iterator[Message]:
        """The requests that may be sent now; they are on their way from then on."""
        while self.behind and len(self.on_the_way) < self._window and self._same_life(self.behind[0]):
            message = self.behind.popleft()
            self.on_the_way.append(message)
            yield message

    def _same_life(self, message: Message) -> bool:
        return not self.on_the_way or self.on_the_way[0].mid.incarnation == message.mid.incarnation

    def taken(self, mid: Mid) -> Iterator[Message]:
        """The requests that this acknowledgement ends."""
        while self.on_the_way and self._is_covered(self.on_the_way[0].mid, mid):
            yield self.on_the_way.popleft()

    def _is_covered(self, own: Mid, taken: Mid) -> bool:
        return own.incarnation == taken.incarnation and own.seqno <= taken.seqno
