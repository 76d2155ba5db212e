"""The shared document: its state is a fold of `apply` over the delivered transactions, and of nothing else.

Lines have identities, not positions, so concurrent insertions move nobody's target. A line's identity is that of the
transaction that inserted it, its revision that of the transaction that changed it last. Who edited a revision that is
no longer the line's newest overwrites: the later transaction wins and what it replaced stays in the history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import copy
from enum import StrEnum

import msgspec

from castbed import IntervalSet, NodeNumber

HISTORY_MAX = 10_000  # changes that a replica remembers, for undo and for texts that were overwritten


class TxnId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The identity of a transaction; `session` tells the lives of an editor apart, so that counters never repeat."""

    author: NodeNumber
    session: int
    counter: int


LineId = TxnId
TOP = TxnId(0, 0, 0)
"""Stands before the first line: insert after it to insert at the top."""


class Op(StrEnum):
    """What a transaction does to its line."""

    REPLACE = "replace"
    INSERT_AFTER = "insert_after"
    DELETE = "delete"


class Outcome(StrEnum):
    """What became of a transaction; the same at every replica."""

    APPLIED = "applied"
    OVERWROTE = "overwrote"
    REINSERTED = "reinserted"
    NOTHING = "nothing"


class Transaction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One edit of one line; `base` is the revision of the line that its author saw."""

    txn: TxnId
    op: Op
    line: LineId
    base: TxnId
    text: str = ""


class Change(msgspec.Struct, frozen=True, gc=False):
    """A transaction as it was applied, the line that it made or changed, and the text that it replaced."""

    transaction: Transaction
    outcome: Outcome
    line: LineId
    before: str


class Line(msgspec.Struct, array_like=True, gc=False):
    """One line; a deleted one stays as a tombstone, because others may still aim at it."""

    line: LineId
    text: str
    revision: TxnId
    deleted: bool = False


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """A document as a value: its lines in order, and the counters of what was applied, by author and session."""

    lines: tuple[Line, ...]
    applied: tuple[tuple[NodeNumber, int, tuple[tuple[int, int], ...]], ...]


class Document:
    """One replica of the document."""

    def __init__(self) -> None:
        self.history: deque[Change] = deque(maxlen=HISTORY_MAX)
        self._lines: dict[LineId, Line] = {}
        self._next: dict[LineId, LineId] = {}
        self._last = TOP
        self._applied: dict[tuple[NodeNumber, int], IntervalSet] = {}

    # --- reading -----------------------------------------------------------------------------------------------------

    def lines(self) -> list[Line]:
        """The lines that people see, from top to bottom."""
        return [line for line in self._all_lines() if not line.deleted]

    def text(self) -> str:
        return "".join(f"{line.text}\n" for line in self.lines())

    def line(self, line: LineId) -> Line | None:
        """The line of this identity, deleted or not."""
        return self._lines.get(line)

    def has_applied(self, txn: TxnId) -> bool:
        applied = self._applied.get((txn.author, txn.session))
        return applied is not None and txn.counter in applied

    def applied_count(self) -> int:
        return sum(map(len, self._applied.values()))

    def _all_lines(self) -> Iterator[Line]:
        at = self._next.get(TOP)
        while at is not None:
            yield self._lines[at]
            at = self._next.get(at)

    # --- changing ----------------------------------------------------------------------------------------------------

    def apply(self, transaction: Transaction) -> Change | None:
        """Apply the next transaction of the stream; None when it was applied before, or is nobody's."""
        txn = transaction.txn
        if txn == TOP or not self._applied.setdefault((txn.author, txn.session), IntervalSet()).add(txn.counter):
            return None
        change = self._change(transaction, self._lines.get(transaction.line))
        self.history.append(change)
        return change

    def _change(self, transaction: Transaction, line: Line | None) -> Change:
        if transaction.op is Op.INSERT_AFTER or line is None or line.deleted:
            return self._insert(transaction, line)
        outcome = Outcome.APPLIED if line.revision == transaction.base else Outcome.OVERWROTE
        change = Change(transaction, outcome, line.line, line.text)
        line.revision = transaction.txn
        line.deleted = transaction.op is Op.DELETE
        line.text = "" if line.deleted else transaction.text
        return change

    def _insert(self, transaction: Transaction, target: Line | None) -> Change:
        """A new line after the target or its tombstone; after everything where nobody knows the target."""
        if transaction.op is Op.DELETE:
            return Change(transaction, Outcome.NOTHING, transaction.line, "")
        gone = transaction.op is Op.REPLACE or (target is not None and target.deleted)
        outcome = Outcome.REINSERTED if gone else Outcome.APPLIED
        known = target is not None or transaction.line == TOP
        self._put(Line(transaction.txn, transaction.text, transaction.txn), transaction.line if known else self._last)
        return Change(transaction, outcome, transaction.txn, "")

    def _put(self, line: Line, after: LineId) -> None:
        self._lines[line.line] = line
        following = self._next.get(after)
        self._next[after] = line.line
        if following is None:
            self._last = line.line
        else:
            self._next[line.line] = following

    # --- as a value --------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        applied = sorted((*key, counters.intervals()) for key, counters in self._applied.items())
        return Snapshot(tuple(map(copy, self._all_lines())), tuple(applied))

    @classmethod
    def restored(cls, snapshot: Snapshot) -> Document:
        """The document of a snapshot; its history begins anew."""
        document = cls()
        for line in snapshot.lines:
            document._put(line, document._last)
        for author, session, intervals in snapshot.applied:
            document._applied[author, session] = IntervalSet(intervals)
        return document
