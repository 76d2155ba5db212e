"""The requests of a host, in order: a window of them on their way, the messages for which there is no room behind.

A request has one message as long as the window is open; of those that had to wait, as many as fit go together.

The core numbers the requests of a host in their order only, and those of a life only when all of the life before that
the host remembers are numbered. So requests of two lives are never on their way at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from castbed import Message, Mid
from castbed_plugins.eomp.packets import content
from castbed_plugins.eomp.repaired.bundles import (
    MESSAGES_MAX,
    bundled,
    bytes_in_bundle,
    count_of,
    first_of,
    fits_behind,
    last_of,
)
from castbed_plugins.eomp.repaired.packets import AnyRequest, BundleRequest, Request


class Outbox:
    """`on_the_way` was sent and is not acknowledged; `messages` are those of it, and all that wait behind."""

    def __init__(self, window: int, bundle_bytes: int) -> None:
        self.on_the_way: deque[AnyRequest] = deque()
        self.messages = 0
        self._behind: deque[list[Message]] = deque()  # what goes together is together
        self._room = 0  # in the last of them
        self._window = window
        self._bundle_bytes = bundle_bytes

    def add(self, messages: Sequence[Message]) -> None:
        """Put them to the last that wait, as far as they fit there."""
        self.messages += len(messages)
        behind, room = self._behind, self._room
        last = behind[-1] if behind else []
        for message in messages:
            size = bytes_in_bundle(message)
            room -= size
            if last and room >= 0 and len(last) < MESSAGES_MAX and fits_behind(last[-1], message):
                last.append(message)
            else:
                last = [message]
                behind.append(last)
                room = self._bundle_bytes - size
        self._room = room

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent now."""
        return len(self.on_the_way) < self._window

    def start(self) -> Iterator[AnyRequest]:
        """The requests that may be sent now; they are on their way from then on."""
        while self._behind and self.is_open and self._same_life(self._behind[0][0]):
            messages = self._behind.popleft()
            several = len(messages) > 1
            request = BundleRequest(*bundled(messages)) if several else Request(*content(messages[0]))
            self.on_the_way.append(request)
            yield request

    def _same_life(self, message: Message) -> bool:
        return not self.on_the_way or first_of(self.on_the_way[0]).incarnation == message.mid.incarnation

    def taken(self, mid: Mid) -> Iterator[AnyRequest]:
        """The requests that this acknowledgement ends; one of which it covers a part goes on."""
        while self.on_the_way and self._is_covered(last_of(self.on_the_way[0]), mid):
            ended = self.on_the_way.popleft()
            self.messages -= count_of(ended)
            yield ended

    def _is_covered(self, own: Mid, taken: Mid) -> bool:
        return own.incarnation == taken.incarnation and own.seqno <= taken.seqno
