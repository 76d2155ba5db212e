"""The messages of a host that are not numbered yet, kept over a crash.

Messages that were submitted together are kept together, and forgotten when all of them are numbered. So a host that
restarts may ask again for some that are: the core knows them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from castbed import Context, Message, Mid
from castbed.actions import Persist

KEYS = "request/"


class KeptRequests:
    """What this host and its earlier lives have to send; keys are `request/LIFE/NUMBER`, the number of the first."""

    def __init__(self, context: Context) -> None:
        self._me, self._life = context.me, context.incarnation
        self._prefix = context.prefix
        self._last = 0
        self._keys: deque[tuple[int, int, str]] = deque()  # life and number of the last message, and the key
        self._earlier: list[Message] = []
        for life, first in sorted(_place(key) for key in context.kept_keys(KEYS)):
            key = _key(life, first)
            kept = context.kept(key)
            self._keys.append((life, first + len(kept) - 1, context.prefix + key))
            for number, (group, payload, parent) in enumerate(kept, first):
                answered = None if parent is None else Mid(*parent)
                self._earlier.append(Message(Mid(context.me, number, life), group, payload, answered))

    def of_earlier_lives(self) -> list[Message]:
        """What was accepted and not numbered, as far as this host knows, in the order in which it was accepted."""
        return self._earlier

    def add(self, messages: Sequence[Message]) -> tuple[Persist, list[Message]]:
        """The messages with their identities, and what keeps them."""
        first, me, life = self._last + 1, self._me, self._life
        self._last = last = self._last + len(messages)
        key = self._prefix + _key(life, first)
        self._keys.append((life, last, key))
        contents = tuple((message.group, message.payload, message.parent) for message in messages)
        accepted = [
            Message(Mid(me, number, life), message.group, message.payload, message.parent)
            for number, message in enumerate(messages, first)
        ]
        return Persist(key, contents), accepted

    def forget(self, taken: Mid) -> Iterator[Persist]:
        """What this message and all before it were kept for is over."""
        keys, reached = self._keys, (taken.incarnation, taken.seqno)
        while keys and keys[0][:2] <= reached:
            yield Persist(keys.popleft()[2], None)


def _key(life: int, first: int) -> str:
    return f"{KEYS}{life}/{first}"


def _place(key: str) -> tuple[int, int]:
    """The life and the number that a key names."""
    life, first = key.removeprefix(KEYS).split("/")
    return int(life), int(first)
