"""What the core agrees on: the entries of the replicated log, and how they are written.

Every node of the core applies the same entries in the same order. Bytes that are no entry are skipped by all alike.
"""

from __future__ import annotations

import msgspec

from castbed import Group, Mid, NodeNumber
from castbed_plugins.eomp.repaired.bundles import Parents, Sizes
from castbed_plugins.eomp.repaired.packets import Stint


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all entries."""


class Requested(Entry, frozen=True, tag=1):
    """A message, which gets the next number of its group if it is its sender's next one."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None

    @property
    def last(self) -> Mid:
        return self.mid


class Joined(Entry, frozen=True, tag=2):
    """The host is a member from here on."""

    group: Group
    host: NodeNumber
    stint: Stint


class Left(Entry, frozen=True, tag=3):
    """The host is no member any more, because it asked for that or forgot that it was one."""

    group: Group
    host: NodeNumber
    stint: Stint


class Expelled(Entry, frozen=True, tag=4):
    """The host is no member any more, because it kept the buffers full and was silent."""

    group: Group
    host: NodeNumber
    stint: Stint


class RequestedBundle(Entry, frozen=True, tag=5):
    """Messages that get the next numbers of their group, those of them that are not numbered yet."""

    group: Group
    first: Mid
    payload: bytes
    sizes: Sizes
    parents: Parents

    @property
    def last(self) -> Mid:
        first = self.first
        return Mid(first.sender, first.seqno + len(self.sizes) - 1, first.incarnation)


Entries = Requested | RequestedBundle | Joined | Left | Expelled
REQUESTS = (Requested, RequestedBundle)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entries)


def encoded(entry: Entries) -> bytes:
    return _encoder.encode(entry)


def decoded(data: bytes) -> Entries | None:
    """The entry, or None if the bytes are none."""
    try:
        entry: Entries = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return entry


def membership_change(group: Group, host: NodeNumber, stint: Stint, joins: bool) -> Joined | Left:
    return (Joined if joins else Left)(group, host, stint)
