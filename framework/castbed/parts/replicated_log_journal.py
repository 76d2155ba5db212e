"""What one member of a replicated log holds: its entries, logs on their way in, and what others told it.

Operations are numbered 1, 2, 3, ...; committed entries are applied in order and the newest of them are kept for members
that lag behind. Nothing here decides anything about views.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from castbed.errors import PeerError
from castbed.parts.replicated_log_packets import (
    PIECE_BYTES_MAX,
    PIECE_ENTRIES_MAX,
    PIECES_MAX,
    Piece,
    Suffix,
    newest,
)
from castbed.values import NodeNumber

Entries = tuple[bytes, ...]


class Journal:
    """The entries after `forgotten` up to `last`; those up to `committed` never change again."""

    def __init__(self, retained: int) -> None:
        self.forgotten = self.applied = self.committed = self.last = 0
        self._retained = retained
        self._entries: dict[int, bytes] = {}

    def append(self, entry: bytes) -> int:
        """Add an entry at the end; returns its number."""
        self.last += 1
        self._entries[self.last] = entry
        return self.last

    def after(self, start: int) -> list[bytes]:
        """All entries after that operation, none of which is forgotten."""
        return [self._entries[op] for op in range(start + 1, self.last + 1)]

    def commit(self, op: int) -> None:
        """Everything up to `op`, as far as it is here, is committed."""
        if op > self.committed:
            self.committed = min(op, self.last)

    def to_apply(self) -> bytes:
        """The next committed entry, which counts as applied from now on; there has to be one."""
        self.applied = op = self.applied + 1
        entry = self._entries[op]
        oldest = op - self._retained
        if oldest > self.forgotten:
            del self._entries[oldest]
            self.forgotten = oldest
        return entry

    def replace(self, log: Log) -> None:
        """Take that log for all that is not committed here; it must begin no later."""
        for op in range(self.committed + 1, self.last + 1):
            del self._entries[op]
        self.last = self.committed
        for entry in log.entries[self.committed - log.start :]:
            self.append(entry)

    def restored(self, op: int) -> None:
        """The owner's state is the one after `op`; nothing before it is here any more."""
        self._entries.clear()
        self.forgotten = self.applied = self.committed = self.last = op


class Log(msgspec.Struct, frozen=True):
    """A log as it came from another member: what `Suffix` says, with its pieces."""

    start: int
    last: int
    committed: int
    snapshot: Entries | None
    entries: Entries

    def continues(self, journal: Journal) -> bool:
        """Whether nothing is missing between that journal's committed entries and this log."""
        return self.snapshot is not None or self.start <= journal.committed


class Incoming:
    """The pieces of the latest transfer of one other member, as far as they came without a gap."""

    def __init__(self) -> None:
        self._transfer = -1
        self._pieces: list[Entries] = []

    def add(self, piece: Piece) -> None:
        """Take the next piece; what began and cannot be continued is gone."""
        if not 0 <= piece.index < PIECES_MAX:
            raise PeerError(f"piece {piece.index} of a log")
        if piece.index == 0:
            self._transfer, self._pieces = piece.transfer, [piece.entries]
        elif piece.transfer == self._transfer and piece.index == len(self._pieces):
            self._pieces.append(piece.entries)

    def complete(self, suffix: Suffix) -> Log | None:
        """The log that these pieces make, or None if some are missing; PeerError if they make another one."""
        if suffix.pieces and (suffix.transfer, suffix.pieces) != (self._transfer, len(self._pieces)):
            return None
        pieces = self._pieces if suffix.pieces else []
        chunks = suffix.chunks or 0
        snapshot = None if suffix.chunks is None else _joined(pieces[:chunks])
        entries = _joined(pieces[chunks:])
        if len(entries) != suffix.last - suffix.start:
            raise PeerError(f"{len(entries)} entries from {suffix.start} to {suffix.last}")
        self._pieces = []
        return Log(suffix.start, suffix.last, suffix.committed, snapshot, entries)


def _joined(pieces: Iterable[Entries]) -> Entries:
    return tuple(entry for piece in pieces for entry in piece)


def pieces_of(entries: Iterable[bytes]) -> Iterator[Entries]:
    """The entries in groups that fit a packet."""
    group: list[bytes] = []
    room = PIECE_BYTES_MAX
    for entry in entries:
        room -= len(entry)
        if group and (room < 0 or len(group) == PIECE_ENTRIES_MAX):
            yield tuple(group)
            group, room = [], PIECE_BYTES_MAX - len(entry)
        group.append(entry)
    if group:
        yield tuple(group)


class Told(msgspec.Struct, frozen=True):
    """What a member said in a view change or to one that recovers: a view, its log, and the lives that it knows."""

    view: int
    log: Log | None
    life: int
    lives: Mapping[NodeNumber, int]

    @property
    def rank(self) -> tuple[int, int]:
        """The log to choose is the one that was valid in the latest view and, of those, the longest."""
        return self.view, self.log.last if self.log is not None else 0


def consistent(
    told: Mapping[NodeNumber, Told], lives: Mapping[NodeNumber, int]
) -> tuple[dict[NodeNumber, Told], dict[NodeNumber, int]]:
    """What no later life of its sender took back, and the lives that are known then.

    A member that recovers has forgotten what it said before, and may since have promised something else. Whoever
    answered its recovery knows so, and two majorities always share one who did (Michael, Ports, Sharma and Szekeres,
    Recovering Shared Objects Without Stable Storage, 2017; without this, section 4.3 loses committed operations).
    """
    known = dict(lives)
    for one in told.values():
        known = newest(known, one.lives)
    return {member: one for member, one in told.items() if one.life >= known[member]}, known
