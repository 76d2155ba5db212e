"""What members say about what they have: digests, repairs, and how digests are read.

A digest lists the known message numbers of each writer as intervals. One that would not fit into a frame speaks of a
part of all identities only, and says of which.
"""

from __future__ import annotations

from castbed.errors import PeerError
from castbed.intervals import IntervalSet
from castbed.packets import Packet
from castbed.values import Group, Message, NodeNumber

REPAIR_BYTES_MAX = 1300  # of messages in one packet: with the header, one frame of 1400 bytes
MESSAGE_BYTES = 48  # what a message costs in a repair besides its payload and addressees: two identities and a group
ADDRESSEE_BYTES = 5  # the longest way to write a node number
DIGEST_INTERVALS_MAX = 64  # fits a frame of 1400 bytes even if each interval has a writer of its own

Writer = tuple[NodeNumber, int]
Intervals = tuple[tuple[int, int], ...]
Writers = tuple[tuple[NodeNumber, int, Intervals], ...]
Place = tuple[NodeNumber, int, int]
"""Where an identity stands among all others: writer, life of the writer, number."""


class Digest(Packet, frozen=True, tag=65):
    """For all identities after `after` and up to `upto` (None: no bound), the sender knows exactly these."""

    group: Group
    writers: Writers
    after: Place | None = None
    upto: Place | None = None


class Repair(Packet, frozen=True, tag=66):
    """Messages that somebody's digest lacked."""

    group: Group
    messages: tuple[Message, ...]


def by_writer(digest: Digest) -> dict[Writer, Intervals]:
    """What the digest says of each writer, not yet checked; PeerError if it is too long or ambiguous."""
    if sum(len(intervals) for _, _, intervals in digest.writers) > DIGEST_INTERVALS_MAX:
        raise PeerError(f"a digest of more than {DIGEST_INTERVALS_MAX} intervals")
    theirs = {(sender, life): intervals for sender, life, intervals in digest.writers}
    if len(theirs) < len(digest.writers):
        raise PeerError("a digest that names a writer twice")
    return theirs


def checked(intervals: Intervals) -> IntervalSet:
    """The numbers that a digest lists for a writer, or PeerError if it makes no sense."""
    below = 0
    for low, high in intervals:
        if not below < low <= high:
            raise PeerError(f"a digest with the interval {low}..{high} after {below}")
        below = high + 1
    if not intervals:
        raise PeerError("a digest that names a writer for nothing")
    return IntervalSet(intervals)


def follows(place: Place, after: Place | None) -> bool:
    """Whether the place is beyond that bound."""
    return after is None or place > after


def describes(digest: Digest, place: Place) -> bool:
    """Whether the digest says anything about the identity."""
    return follows(place, digest.after) and (digest.upto is None or place <= digest.upto)


def last(writers: list[tuple[NodeNumber, int, Intervals]]) -> Place:
    """The last identity that these intervals list."""
    sender, life, intervals = writers[-1]
    return sender, life, intervals[-1][1]


def size_in_repair(message: Message) -> int:
    """What the message takes of a repair packet, at most."""
    return len(message.payload) + MESSAGE_BYTES + ADDRESSEE_BYTES * len(message.to or ())
