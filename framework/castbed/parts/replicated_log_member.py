"""What a member of a replicated log is and has, whatever the protocol does with it.

Entries are applied here and nowhere else, whole logs leave and arrive here, and here is checked who may say what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import msgspec

from castbed.context import Context
from castbed.errors import ContractError, PeerError
from castbed.machine import Machine, on
from castbed.parts.replicated_log_journal import Incoming, Journal, Log, Told, pieces_of
from castbed.parts.replicated_log_packets import (
    LOG_PACKETS,
    PIECE_BYTES_MAX,
    PIECES_MAX,
    Lives,
    Piece,
    Suffix,
    check_lives,
    check_order,
    check_suffix,
)
from castbed.values import NodeNumber

LIFE_SHIFT = 24  # transfers of one life; with the 32 bits of a life they fit a number
PATIENCE_DOUBLED_MAX = 4  # a view change that needs longer than 16 times the patience is not waited for


class LogOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who replicates the log, how soon a silent leader is replaced, how much is kept. Equal at all members."""

    members: tuple[NodeNumber, ...]
    """The leader of view v is members[v % n]."""
    beat: int
    """Nanoseconds; the leader says something to every other member at least this often."""
    patience: int
    """Nanoseconds of silence, plus a random share of up to one half, after which a leader is suspected."""
    retained: int
    """Committed entries kept for members that lag behind; one further behind gets a snapshot."""

    def __post_init__(self) -> None:
        if not self.members or len(set(self.members)) < len(self.members):
            raise ValueError("`members` must name each member once")
        if not 0 < self.beat < self.patience:
            raise ValueError("`beat` must be positive and `patience` longer")
        if self.retained < 0:
            raise ValueError("`retained` must not be negative")


class Status(Enum):
    """Whether this member takes part."""

    NORMAL = "normal"
    CHANGING = "changing"
    RECOVERING = "recovering"


def _nothing(*_: Any) -> None:
    """What an owner leaves alone."""


class LogMember(Machine):
    """One member's state. The owner sets the callables below when it has made the part."""

    PACKETS = LOG_PACKETS

    apply: Callable[[int, bytes], None]
    """Called with each committed entry and its number: once, in order, on every member. May propose."""
    snapshot: Callable[[], tuple[bytes, ...]]
    """The owner's state after all that was applied, in chunks of at most PIECE_BYTES_MAX bytes."""
    restore: Callable[[tuple[bytes, ...]], None]
    """Make that state the owner's."""
    changed: Callable[[], None]
    """The leader or the status is another one now. May propose."""

    def __init__(self, context: Context, options: LogOptions) -> None:
        super().__init__(context, options)
        if self.me not in options.members:
            raise ContractError(f"node {self.me} is no member of the log of {options.members}")
        self.apply = self.restore = self.changed = _nothing
        self.snapshot = tuple
        self.view = 0
        self.status = Status.RECOVERING if context.incarnation else Status.NORMAL
        self._members: tuple[NodeNumber, ...] = options.members
        self._others = tuple(member for member in options.members if member != self.me)
        self._majority = len(options.members) // 2 + 1
        self._two_are_enough = self._majority == 2
        self._journal = Journal(options.retained)
        self._applying = False
        self._normal_view = 0
        self._lives: dict[NodeNumber, int] = {self.me: context.incarnation}
        self._incoming = {member: Incoming() for member in self._others}
        self._transfers = context.incarnation << LIFE_SHIFT  # no number of an earlier life is used again
        self._acknowledged = dict.fromkeys(self._others, 0)
        self._told_committed = 0
        self._spoke = self._heard = 0
        self._asked: int | None = None
        self._attempts = 0
        self._limit = 0
        self._suspicious: dict[NodeNumber, int] = {}
        self._voted = False
        self._told: dict[NodeNumber, Told] = {}

    @property
    def leader(self) -> NodeNumber:
        """Of the current view, as far as known here."""
        return self._members[self.view % len(self._members)]

    @property
    def is_leader(self) -> bool:
        return self.status is Status.NORMAL and self._members[self.view % len(self._members)] == self.me

    @property
    def committed(self) -> int:
        """The number of the latest entry known here to be committed."""
        return self._journal.committed

    # --- entries -----------------------------------------------------------------------------------------------------

    def _commit(self, op: int) -> None:
        """Apply what is committed by this; an owner that proposes meanwhile is not applied twice."""
        journal = self._journal
        journal.commit(op)
        if self._applying:
            return
        self._applying = True
        while journal.applied < journal.committed:
            entry = journal.to_apply()
            self.apply(journal.applied, entry)
        self._applying = False

    def _adopt(self, log: Log) -> None:
        """Take another member's log, and its owner's state where the entries alone are not enough."""
        if log.snapshot is not None and log.start > self._journal.committed:
            self.restore(log.snapshot)
            self._journal.restored(log.start)
        self._journal.replace(log)

    # --- whole logs on the wire --------------------------------------------------------------------------------------

    def _send_log(self, to: NodeNumber, committed: int) -> Suffix:
        """Send the pieces of what `to` lacks, who committed that much; what they are is for the packet that follows."""
        journal = self._journal
        start, chunks = min(committed, journal.last), None
        pieces: list[tuple[bytes, ...]] = []
        if start < journal.forgotten:
            pieces = list(self._snapshot())
            start, chunks = journal.applied, len(pieces)
        pieces += pieces_of(journal.after(start))
        if len(pieces) > PIECES_MAX:
            raise ContractError(f"a log in {len(pieces)} pieces, {PIECES_MAX} are the limit")
        self._transfers += 1
        for index, entries in enumerate(pieces):
            self.send(to, Piece(self._transfers, index, entries))
        return Suffix(start, journal.last, journal.committed, self._transfers, len(pieces), chunks)

    def _snapshot(self) -> Iterator[tuple[bytes]]:
        for chunk in self.snapshot():
            if len(chunk) > PIECE_BYTES_MAX:
                raise ContractError(f"a chunk of {len(chunk)} bytes in a snapshot, {PIECE_BYTES_MAX} are the limit")
            yield (chunk,)

    @on(Piece)
    def piece(self, packet: Piece, sender: NodeNumber) -> None:
        self._check_member(sender)
        check_order(packet.transfer)
        self._incoming[sender].add(packet)
        if sender == self.leader:
            self._heard = self.now
        if self._asked is not None:  # the answer, probably, and a long one
            self._asked = self.now

    def _received(self, sender: NodeNumber, log: Suffix) -> Log | None:
        check_suffix(log)
        return self._incoming[sender].complete(log)

    # --- patience ----------------------------------------------------------------------------------------------------

    def _be_patient(self) -> None:
        """Wait, and after each attempt without success twice as long."""
        doubled = min(max(self._attempts - 1, 0), PATIENCE_DOUBLED_MAX)
        self._limit = (self.options.patience << doubled) + self.context.random.randint(0, self.options.patience // 2)
        self._heard = self.now
        self.set_timer("patience", self._limit)

    def _ask_again(self, ask: Callable[[], None]) -> None:
        """Unless the answer to the last question may still be on its way."""
        if self._asked is None or self.now - self._asked >= self.options.patience:
            self._asked = self.now
            ask()

    # --- who may say what --------------------------------------------------------------------------------------------

    def _leader_of(self, view: int) -> NodeNumber:
        return self._members[view % len(self._members)]

    def _check_member(self, sender: NodeNumber) -> None:
        if sender not in self._incoming:
            raise PeerError(f"node {sender} is no other member of the log")

    def _check_leads(self, sender: NodeNumber, view: int) -> None:
        self._check_member(sender)
        check_order(view)
        if sender != self._leader_of(view):
            raise PeerError(f"node {sender} speaks as leader of view {view}, which it is not")

    def _check_mine(self, sender: NodeNumber, view: int) -> None:
        self._check_member(sender)
        check_order(view)
        if self._leader_of(view) != self.me:
            raise PeerError(f"node {sender} takes node {self.me} for the leader of view {view}")

    def _checked_lives(self, lives: Lives, sender: NodeNumber) -> dict[NodeNumber, int]:
        known = check_lives(lives, self._members)
        if sender not in known:
            raise PeerError(f"node {sender} does not say which of its lives speaks")
        return known
