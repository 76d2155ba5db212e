"""Repair between equals: members say what they have, and whoever has more sends the difference.

Nobody needs to know who was away, what was lost, or who wrote it: members broadcast digests, which list the known
message numbers of each writer as intervals. A member that knows more than a digest says broadcasts the difference after
a random delay, unless another one does so first. A member that knows less sends its own digest soon, so that the others
learn of it. While all digests are equal nothing else is sent, and who has heard enough equal ones in its interval is
silent itself, so that the traffic of a large group at rest is that of a small one (the idea of the Trickle algorithm).

One instance serves one group at one member, as a part of the protocol's machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nsmallest
from typing import Any

import msgspec

from castbed.context import Context
from castbed.intervals import IntervalSet
from castbed.machine import Machine, on
from castbed.packets import Packet
from castbed.parts.digests import (
    DIGEST_INTERVALS_MAX,
    REPAIR_BYTES_MAX,
    Digest,
    Intervals,
    Place,
    Repair,
    Writer,
    Writers,
    by_writer,
    checked,
    describes,
    follows,
    last,
    size_in_repair,
)
from castbed.parts.validation import check_message
from castbed.units import Duration
from castbed.values import Group, Message, Mid, NodeNumber

DIGESTS_ENOUGH = 2  # equal digests of others in an interval that make ours needless; one of them may be lost to some
EVICTED_AT_ONCE = 8  # an eighth of the log goes at a time, so that the cost of persisting it is shared


class _Logged(msgspec.Struct, frozen=True, gc=False):
    """A message in the log: the how-many-th it was, and when it came."""

    number: int
    at: int
    message: Message


class AntiEntropyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How eager repair is, and how much a member keeps for it."""

    digest_interval: Duration = Duration(10**9)
    """Between two periodic digests of a member, on average; each is up to a quarter early or late."""
    repair_backoff_max: Duration = Duration(50 * 10**6)
    """Longest random wait before a first repair or a digest out of turn; others' repairs in it suppress ours."""
    repair_grace: Duration = Duration(100 * 10**6)
    """What came less than this ago is not repaired yet: the copy of the one who lacks it may still be on its way."""
    repair_gap: Duration = Duration(2 * 10**6)
    """Between two repair packets of a member."""
    repairs_per_digest_max: int = 256
    """Messages that one digest makes a member send; the next digest asks for more."""
    log_max: int = 16_384
    """Messages kept for others; the oldest go first and cannot be repaired by this member any more."""
    persist: bool = True
    """Keep each message over a restart; the owner then takes up `evicted` and `reloaded` when it is made."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < (0 if name in ("repair_grace", "persist") else 1):
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
        self._log: dict[Mid, _Logged] = {}
        self._arrivals = 0
        self._wanted: dict[Mid, None] = {}
        self._ahead: Digest | None = None
        self._described_upto: Place | None = None
        self._cached_writers: Writers | None = None
        self._heard_equal = 0
        self._asking = False
        self._must_ask = False
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
        return [entry.message for entry in self._log.values()]

    def start(self, soon: bool = True) -> None:
        """Begin to send digests; the first one soon, or in turn where others cannot have more: all begin at once."""
        first = self._soon() if soon else self.context.random.randint(1, self.options.digest_interval)
        self.set_timer("digest", first)

    def stop(self) -> None:
        """Send nothing any more."""
        for timer in ("digest", "ask", "repair"):
            self.cancel_timer(timer)
        self._asking = self._must_ask = False
        self._wanted.clear()

    def announce(self) -> None:
        """Send a digest soon instead of in turn, because something may be missing here."""
        self._must_ask = True
        if not self._asking:
            self._ask_in(self._soon())

    def knows(self, mid: Mid) -> bool:
        """Whether the message was ever stored here (and not forgotten)."""
        numbers = self.known.get((mid.sender, mid.incarnation))
        return numbers is not None and mid.seqno in numbers

    def store(self, message: Message) -> bool:
        """Keep a message that was sent or received; False: it was known, and the owner must drop this copy."""
        if not self._add(message, self.now):
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
        self._cached_writers = None

    # --- handlers ----------------------------------------------------------------------------------------------------

    @on(Digest)
    def digest_received(self, packet: Digest, _sender: NodeNumber) -> None:
        if packet.group != self.group:
            return
        if packet.writers == self._writers() and packet.after is None and packet.upto is None:
            self._heard_equal += 1
            return
        differing = self._differing(packet)
        self._queue_what_lacks(packet, differing)
        if self._is_ahead(differing):
            self._ahead = packet
            if self._may_answer and not self._asking:
                self._ask_in(self._soon())

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
            self._turn()
        elif timer == "ask":
            self._ask_now()
        elif timer == "repair":
            self._send_repair()

    # --- digests -----------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        """The periodic digest, unless enough others have just said the same."""
        if self._heard_equal < DIGESTS_ENOUGH:
            self.broadcast(self._digest())
        self._heard_equal = 0
        self._may_answer = True
        interval = self.options.digest_interval
        self.set_timer("digest", self.context.random.randint(interval * 3 // 4, interval * 5 // 4))

    def _ask_in(self, delay: int) -> None:
        self._asking = True
        self.set_timer("ask", delay)

    def _ask_now(self) -> None:
        """A digest out of turn, if what another has is still missing here; not another until something was learned."""
        self._asking = False
        if self._must_ask or self._is_behind():
            self._must_ask = self._may_answer = False
            self.broadcast(self._digest())

    def _is_behind(self) -> bool:
        """Whether the digest that was ahead of us still is."""
        if self._ahead is not None and not self._is_ahead(self._differing(self._ahead)):
            self._ahead = None
        return self._ahead is not None

    def _writers(self) -> Writers:
        """All that is known, in the order of writers; made anew only after it changed."""
        if self._cached_writers is None:
            writers = sorted(writer for writer, numbers in self.known.items() if numbers)
            self._cached_writers = tuple((*writer, self.known[writer].intervals()) for writer in writers)
        return self._cached_writers

    def _digest(self) -> Digest:
        """All that is known or, when that is too much for one frame, the part after the one described last."""
        after, upto = self._described_upto, None
        if after is None and sum(len(intervals) for _, _, intervals in self._writers()) <= DIGEST_INTERVALS_MAX:
            return Digest(self.group, self._writers())
        writers: list[tuple[NodeNumber, int, Intervals]] = []
        room = DIGEST_INTERVALS_MAX
        for sender, life, intervals in self._writers():
            shown = [pair for pair in intervals if follows((sender, life, pair[1]), after)]
            if len(shown) > room:
                shown = shown[:room]
                upto = (sender, life, shown[-1][1]) if shown else last(writers)
            if shown:
                writers.append((sender, life, tuple(shown)))
            room -= len(shown)
            if upto is not None:
                break
        self._described_upto = upto
        return Digest(self.group, tuple(writers), after, upto)

    def _differing(self, digest: Digest) -> dict[Writer, IntervalSet]:
        """What the digest says of the writers of whom it does not say what we would say."""
        theirs = by_writer(digest)
        ours = {(sender, life): intervals for sender, life, intervals in self._writers()}
        differing = {w: checked(numbers) for w, numbers in theirs.items() if numbers != ours.get(w)}
        return differing | {writer: IntervalSet() for writer in ours if writer not in theirs}

    def _queue_what_lacks(self, digest: Digest, differing: dict[Writer, IntervalSet]) -> None:
        lacking = (mid for mid in self._lacking(digest, differing) if mid not in self._wanted)
        limit = self.options.repairs_per_digest_max
        # In order of arrival: a message mostly arrives here after those that it answers or follows.
        chosen = nsmallest(limit, lacking, key=lambda mid: self._log[mid].number)
        if chosen and not self._wanted:
            self.set_timer("repair", self._soon())
        self._wanted.update(dict.fromkeys(chosen[: max(0, limit - len(self._wanted))]))

    def _lacking(self, digest: Digest, differing: dict[Writer, IntervalSet]) -> Iterator[Mid]:
        nothing, settled = IntervalSet(), self.now - self.options.repair_grace
        for writer, have in differing.items():
            out_of_reach = have.intervals() + self.evicted.get(writer, nothing).intervals()
            for number in self.known.get(writer, nothing).minus(IntervalSet(out_of_reach)):
                mid = Mid(writer[0], number, writer[1])
                if self._log[mid].at <= settled and describes(digest, (*writer, number)):
                    yield mid

    def _is_ahead(self, differing: dict[Writer, IntervalSet]) -> bool:
        nothing = IntervalSet()
        return any(True for writer, have in differing.items() for _ in have.minus(self.known.get(writer, nothing)))

    # --- repairs -----------------------------------------------------------------------------------------------------

    def _send_repair(self) -> None:
        """One packet at a time, so that the medium is shared and others can suppress the rest."""
        messages: list[Message] = []
        room = REPAIR_BYTES_MAX
        for mid in list(self._wanted):
            entry = self._log.get(mid)
            if entry is not None:
                room -= size_in_repair(entry.message)
                if room < 0 and messages:
                    break
                messages.append(entry.message)
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
        if self._is_behind():
            self._ask_in(self.options.repair_backoff_max + self._soon())

    # --- the log -----------------------------------------------------------------------------------------------------

    def _add(self, message: Message, at: int) -> bool:
        mid = message.mid
        if not self.known.setdefault((mid.sender, mid.incarnation), IntervalSet()).add(mid.seqno):
            return False
        self._arrivals += 1
        self._log[mid] = _Logged(self._arrivals, at, message)
        self._cached_writers = None
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
            if self._add(message, -self.options.repair_grace):
                self.reloaded.append(message)

    def _key(self, mid: Mid) -> str:
        """Sorted as text, the keys are in the order of arrival."""
        return f"m/{self._log[mid].number:015d}.{mid.sender}.{mid.incarnation}.{mid.seqno}"

    def _soon(self) -> int:
        return self.context.random.randint(1, self.options.repair_backoff_max)


def _plain(message: Message) -> Any:
    return msgspec.to_builtins(message, builtin_types=(bytes,))
