"""Repair between equals: members say what they have, and whoever has more sends the difference.

Nobody needs to know who was away, what was lost, or who wrote it: members broadcast digests, which list the known
message numbers of each writer as intervals. A member that knows more than a digest says broadcasts the difference after
a random delay, unless another one does so first. A member that knows less sends its own digest soon, so that the others
learn of it. While all digests are equal nothing else is sent.

One instance serves one group at one member, as a part of the protocol's machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nsmallest
from typing import Any

import msgspec

from castbed.context import Context
from castbed.errors import PeerError
from castbed.intervals import IntervalSet
from castbed.machine import Machine, on
from castbed.packets import Packet
from castbed.parts.validation import check_message
from castbed.units import Duration
from castbed.values import Group, Message, Mid, NodeNumber

REPAIR_BYTES_MAX = 1300  # of messages in one packet: with the header, one frame of 1400 bytes
MESSAGE_BYTES = 48  # what a message costs in a repair besides its payload and addressees: two identities and a group
ADDRESSEE_BYTES = 5  # the longest way to write a node number
DIGEST_INTERVALS_MAX = 64  # fits a frame of 1400 bytes even if each interval has a writer of its own
EVICTED_AT_ONCE = 8  # an eighth of the log goes at a time, so that the cost of persisting it is shared

Writer = tuple[NodeNumber, int]
Intervals = tuple[tuple[int, int], ...]
Place = tuple[NodeNumber, int, int]
"""Where an identity stands among all others: writer, life of the writer, number."""


class Digest(Packet, frozen=True, tag=65):
    """For all identities after `after` and up to `upto` (None: no bound), the sender knows exactly these."""

    group: Group
    writers: tuple[tuple[NodeNumber, int, Intervals], ...]
    after: Place | None = None
    upto: Place | None = None


class Repair(Packet, frozen=True, tag=66):
    """Messages that somebody's digest lacked."""

    group: Group
    messages: tuple[Message, ...]


class AntiEntropyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How eager repair is, and how much a member keeps for it."""

    digest_interval: Duration = Duration(10**9)
    """Between two periodic digests of a member, on average; each is up to a quarter early or late."""
    repair_backoff_max: Duration = Duration(50 * 10**6)
    """Longest random wait before a first repair or a digest out of turn; others' repairs in it suppress ours."""
    repair_gap: Duration = Duration(2 * 10**6)
    """Between two repair packets of a member."""
    repairs_per_digest_max: int = 256
    """Messages that one digest makes a member send; the next digest asks for more."""
    log_max: int = 16_384
    """Messages kept for others; the oldest go first and cannot be repaired by this member any more."""
    persist: bool = True
    """Keep each message over a restart; the owner then takes up `evicted` and `reloaded` when it is made."""

    def __post_init__(self) -> None:
        for name in ("digest_interval", "repair_backoff_max", "repair_gap", "repairs_per_digest_max", "log_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be positive")


class AntiEntropy(Machine):
    """What one member of a group knows, and its part in making all members know the same."""

    PACKETS: tuple[type[Packet], ...] = (Digest, Repair)

    def __init__(
        self,
        context: Context,
        options: AntiEntropyOptions | None,
        group: Group,
        learned: Callable[[Message], None],
        settled: Callable[[Mid], bool],
    ) -> None:
        super().__init__(context, options if options is not None else AntiEntropyOptions())
        self.group = group
        self.known: dict[Writer, IntervalSet] = {}
        self.evicted: dict[Writer, IntervalSet] = {}
        self.reloaded: list[Message] = []
        self._learned = learned
        self._settled = settled
        self._log: dict[Mid, tuple[int, Message]] = {}
        self._arrivals = 0
        self._wanted: dict[Mid, None] = {}
        self._ahead: Digest | None = None
        self._described_upto: Place | None = None
        self._hurried = False
        self._may_answer = True
        self._reload()

    @classmethod
    def for_group(
        cls, group: Group, learned: Callable[[Message], None], settled: Callable[[Mid], bool] = lambda mid: True
    ) -> Callable[[Context, AntiEntropyOptions | None], AntiEntropy]:
        """What `Machine.part` makes a part from.

        `learned(message)` is called for each message that came through repair and was not known; it must not raise.
        Only messages for which `settled(mid)` holds (the owner is done with them) are ever evicted from the log.
        """
        return lambda context, options: cls(context, options, group, learned, settled)

    # --- for the owner -----------------------------------------------------------------------------------------------

    @property
    def log(self) -> list[Message]:
        """The messages that this member can repair, in the order of arrival."""
        return [message for _, message in self._log.values()]

    def start(self) -> None:
        """Begin to send digests; the first one soon."""
        self.set_timer("digest", self._soon())

    def stop(self) -> None:
        """Send nothing any more."""
        self.cancel_timer("digest")
        self.cancel_timer("repair")
        self._wanted.clear()

    def announce(self) -> None:
        """Send a digest soon instead of in turn, because something may be missing here."""
        if not self._hurried:
            self._hurried = True
            self.set_timer("digest", self._soon())

    def knows(self, mid: Mid) -> bool:
        """Whether the message was ever stored here (and not forgotten)."""
        numbers = self.known.get((mid.sender, mid.incarnation))
        return numbers is not None and mid.seqno in numbers

    def store(self, message: Message) -> bool:
        """Keep a message that was sent or received; False: it was known, and the owner must drop this copy."""
        if not self._add(message):
            return False
        if self.options.persist:
            self.persist(self._key(message.mid), _plain(message))
        if len(self._log) > self.options.log_max:
            self._evict()
        return True

    def forget(self, mid: Mid) -> None:
        """Take a message out as if it had never come: later digests ask for it again."""
        if mid not in self._log:
            return
        if self.options.persist:
            self.persist(self._key(mid), None)
        del self._log[mid]
        self.known[mid.sender, mid.incarnation].remove(mid.seqno)

    # --- handlers ----------------------------------------------------------------------------------------------------

    @on(Digest)
    def digest_received(self, packet: Digest, _sender: NodeNumber) -> None:
        if packet.group != self.group:
            return
        theirs = _checked(packet)
        self._queue_what_lacks(packet, theirs)
        if self._is_ahead(theirs):
            self._ahead = packet
            if self._may_answer:
                self.announce()

    @on(Repair)
    def repair_received(self, packet: Repair, _sender: NodeNumber) -> None:
        if packet.group != self.group:
            return
        for message in packet.messages:
            check_message(message, self.group)
        fresh = [message for message in packet.messages if self._take(message)]
        if fresh:
            self._progressed()

    def expired(self, timer: Any) -> None:
        if timer == "digest":
            self._send_digest()
        elif timer == "repair":
            self._send_repair()

    # --- digests -----------------------------------------------------------------------------------------------------

    def _send_digest(self) -> None:
        """One out of turn is not answered by another one until something was learned or the turn comes."""
        self._may_answer = not self._hurried
        self._hurried = False
        self.broadcast(self._digest())
        interval = self.options.digest_interval
        self.set_timer("digest", self.context.random.randint(interval * 3 // 4, interval * 5 // 4))

    def _digest(self) -> Digest:
        """All that is known or, when that is too much for one frame, the part after the one described last."""
        after, upto = self._described_upto, None
        writers: list[tuple[NodeNumber, int, Intervals]] = []
        room = DIGEST_INTERVALS_MAX
        for sender, life in sorted(self.known):
            shown = [pair for pair in self.known[sender, life].intervals() if _follows((sender, life, pair[1]), after)]
            if len(shown) > room:
                shown = shown[:room]
                upto = (sender, life, shown[-1][1]) if shown else _last(writers)
            if shown:
                writers.append((sender, life, tuple(shown)))
            room -= len(shown)
            if upto is not None:
                break
        self._described_upto = upto
        return Digest(self.group, tuple(writers), after, upto)

    def _queue_what_lacks(self, digest: Digest, theirs: dict[Writer, IntervalSet]) -> None:
        lacking = (mid for mid in self._lacking(digest, theirs) if mid not in self._wanted)
        limit = self.options.repairs_per_digest_max
        # In order of arrival: a message mostly arrives here after those that it answers or follows.
        chosen = nsmallest(limit, lacking, key=lambda mid: self._log[mid][0])
        if chosen and not self._wanted:
            self.set_timer("repair", self._soon())
        self._wanted.update(dict.fromkeys(chosen[: max(0, limit - len(self._wanted))]))

    def _lacking(self, digest: Digest, theirs: dict[Writer, IntervalSet]) -> Iterator[Mid]:
        nothing = IntervalSet()
        for writer, numbers in self.known.items():
            have = theirs.get(writer, nothing)
            if have == numbers:
                continue
            out_of_reach = have.intervals() + self.evicted.get(writer, nothing).intervals()
            for number in numbers.minus(IntervalSet(out_of_reach)):
                if _describes(digest, (*writer, number)):
                    yield Mid(writer[0], number, writer[1])

    def _is_ahead(self, theirs: dict[Writer, IntervalSet]) -> bool:
        nothing = IntervalSet()
        return any(True for writer, have in theirs.items() for _ in have.minus(self.known.get(writer, nothing)))

    # --- repairs -----------------------------------------------------------------------------------------------------

    def _send_repair(self) -> None:
        """One packet at a time, so that the medium is shared and others can suppress the rest."""
        messages: list[Message] = []
        room = REPAIR_BYTES_MAX
        for mid in list(self._wanted):
            entry = self._log.get(mid)
            if entry is not None:
                room -= _size(entry[1])
                if room < 0 and messages:
                    break
                messages.append(entry[1])
            del self._wanted[mid]
        if messages:
            self.broadcast(Repair(self.group, tuple(messages)))
        if self._wanted:
            self.set_timer("repair", self.options.repair_gap)

    def _take(self, message: Message) -> bool:
        """Another member sent this: nobody needs it from us at the moment, and we may learn it."""
        self._wanted.pop(message.mid, None)
        if not self.store(message):
            return False
        self._learned(message)
        return True

    def _progressed(self) -> None:
        """Something was learned; if more is missing, say so when this burst of repairs is over."""
        self._may_answer = True
        if self._ahead is None:
            return
        if self._is_ahead(_checked(self._ahead)):
            self._hurried = True
            self.set_timer("digest", self.options.repair_backoff_max + self._soon())
        else:
            self._ahead = None

    # --- the log -----------------------------------------------------------------------------------------------------

    def _add(self, message: Message) -> bool:
        mid = message.mid
        if not self.known.setdefault((mid.sender, mid.incarnation), IntervalSet()).add(mid.seqno):
            return False
        self._arrivals += 1
        self._log[mid] = (self._arrivals, message)
        return True

    def _evict(self) -> None:
        """Drop the oldest messages that are done with; their identities stay known, so no copy counts as new."""
        count = len(self._log) - self.options.log_max + self.options.log_max // EVICTED_AT_ONCE
        for mid in [mid for mid in self._log if self._settled(mid)][:count]:
            if self.options.persist:
                self.persist(self._key(mid), None)
            del self._log[mid]
            self.evicted.setdefault((mid.sender, mid.incarnation), IntervalSet()).add(mid.seqno)
        if self.options.persist:
            self.persist("evicted", [[*writer, gone.intervals()] for writer, gone in self.evicted.items()])

    def _reload(self) -> None:
        """Take up what an earlier life of this member persisted."""
        if not self.options.persist:
            return
        for sender, life, intervals in self.context.kept("evicted", ()):
            self.evicted[sender, life] = IntervalSet(map(tuple, intervals))
            self.known[sender, life] = IntervalSet(map(tuple, intervals))
        for key in self.context.kept_keys("m/"):
            self._arrivals = int(key[2:].partition(".")[0]) - 1
            message = msgspec.convert(self.context.kept(key), Message)
            if self._add(message):
                self.reloaded.append(message)

    def _key(self, mid: Mid) -> str:
        """Sorted as text, the keys are in the order of arrival."""
        return f"m/{self._log[mid][0]:015d}.{mid.sender}.{mid.incarnation}.{mid.seqno}"

    def _soon(self) -> int:
        return self.context.random.randint(1, self.options.repair_backoff_max)


def _checked(digest: Digest) -> dict[Writer, IntervalSet]:
    """What the digest says, or PeerError if it makes no sense."""
    if sum(len(intervals) for _, _, intervals in digest.writers) > DIGEST_INTERVALS_MAX:
        raise PeerError(f"a digest of more than {DIGEST_INTERVALS_MAX} intervals")
    theirs: dict[Writer, IntervalSet] = {}
    for sender, life, intervals in digest.writers:
        below = 0
        for low, high in intervals:
            if not below < low <= high:
                raise PeerError(f"a digest with the interval {low}..{high} after {below}")
            below = high + 1
        if (sender, life) in theirs or not intervals:
            raise PeerError("a digest that names a writer twice or for nothing")
        theirs[sender, life] = IntervalSet(intervals)
    return theirs


def _follows(place: Place, after: Place | None) -> bool:
    return after is None or place > after


def _describes(digest: Digest, place: Place) -> bool:
    """Whether the digest says anything about the identity."""
    return _follows(place, digest.after) and (digest.upto is None or place <= digest.upto)


def _last(writers: list[tuple[NodeNumber, int, Intervals]]) -> Place:
    sender, life, intervals = writers[-1]
    return sender, life, intervals[-1][1]


def _size(message: Message) -> int:
    return len(message.payload) + MESSAGE_BYTES + ADDRESSEE_BYTES * len(message.to or ())


def _plain(message: Message) -> Any:
    return msgspec.to_builtins(message, builtin_types=(bytes,))
