"""The requests of a host, in order: a window of them on their way, the messages for which there is no room behind.

A request has one message as long as the window is open; of those that had to wait, as many as fit go together.

The core numbers the requests of a host in their order only, and those of a life only when all of the life before that
the host remembers are numbered. So requests of two lives are never on their way at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from castbed import Message, Mid
from castbed_plugins.eomp.packets import content
from castbed_plugins.eomp.repaired.bundles import MESSAGES_MAX, bundled, bytes_in_bundle, first_of, fits_behind, last_of
from castbed_plugins.eomp.repaired.packets import AnyRequest, BundleRequest, Request


class Outbox:
    """`on_the_way` was sent and is not acknowledged, `behind` waits; its length is in messages."""

    def __init__(self, kept: Iterable[Message], window: int, bundle_bytes: int) -> None:
        self.on_the_way: deque[AnyRequest] = deque()
        self.behind: deque[Message] = deque(kept)
        self._messages_on_the_way = 0
        self._window = window
        self._bundle_bytes = bundle_bytes

    def __len__(self) -> int:
        return self._messages_on_the_way + len(self.behind)

    def add(self, message: Message) -> None:
        self.behind.append(message)

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent now."""
        return len(self.on_the_way) < self._window

    def start(self) -> Iterator[AnyRequest]:
        """The requests that may be sent now; they are on their way from then on."""
        while self.behind and self.is_open and self._same_life(self.behind[0]):
            messages = self._next_ones()
            self._messages_on_the_way += len(messages)
            several = len(messages) > 1
            request = BundleRequest(*bundled(messages)) if several else Request(*content(messages[0]))
            self.on_the_way.append(request)
            yield request

    def _same_life(self, message: Message) -> bool:
        return not self.on_the_way or first_of(self.on_the_way[0]).incarnation == message.mid.incarnation

    def _next_ones(self) -> list[Message]:
        """At least one."""
        behind = self.behind
        chosen = [behind.popleft()]
        room = self._bundle_bytes - bytes_in_bundle(chosen[0])
        while behind and len(chosen) < MESSAGES_MAX and fits_behind(chosen[-1], behind[0]):
            room -= bytes_in_bundle(behind[0])
            if room < 0:
                break
            chosen.append(behind.popleft())
        return chosen

    def taken(self, mid: Mid) -> Iterator[AnyRequest]:
        """The requests that this acknowledgement ends; one of which it covers a part goes on."""
        while self.on_the_way and self._is_covered(last_of(self.on_the_way[0]), mid):
            ended = self.on_the_way.popleft()
            self._messages_on_the_way -= last_of(ended).seqno - first_of(ended).seqno + 1
            yield ended

    def _is_covered(self, own: Mid, taken: Mid) -> bool:
        return own.incarnation == taken.incarnation and own.seqno <= taken.seqno
