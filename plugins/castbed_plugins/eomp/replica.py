"""One open document of one editor: the replica, what its user has written, and how a latecomer catches up.

A latecomer asks in the stream. From the delivery of its own question on it keeps every transaction; any answer is a
snapshot that was made after that point, so the kept transactions that the snapshot lacks are exactly the later ones.
"""

from __future__ import annotations

import msgspec

from castbed import NodeNumber
from castbed_plugins.eomp.document import Document, Op, Outcome, Snapshot, Transaction, TxnId

PIECES_MAX = 65_536  # of one snapshot: 2 GiB in pieces of 32 KiB
ANSWERS_MAX = 64  # snapshots that may arrive at the same time, one per member that answers


class Edit(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A transaction on its way to everybody."""

    transaction: Transaction


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """A latecomer wants the document; `request` is its name, its session and which attempt this is."""

    request: TxnId


class Piece(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """One of `count` pieces of a snapshot that answers a request."""

    request: TxnId
    answerer: NodeNumber
    index: int
    count: int
    data: bytes


Said = Edit | Ask | Piece
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Said)
_snapshots = msgspec.msgpack.Decoder(Snapshot)


def encoded(said: Said) -> bytes:
    return _encoder.encode(said)


def decoded(payload: bytes) -> Said | None:
    """What an editor said; None for what is no editor's."""
    try:
        said: Said = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return said


def snapshot_pieces(document: Document, request: TxnId, me: NodeNumber, size: int) -> list[Piece]:
    """The document as it is now, cut into pieces of at most `size` bytes."""
    whole = _encoder.encode(document.snapshot())
    cuts = range(0, len(whole), size)
    return [Piece(request, me, index, len(cuts), whole[at : at + size]) for index, at in enumerate(cuts)]


class Replica:
    """The document (None while its user waits for it) and the user's transactions that are not delivered yet."""

    def __init__(self, document: Document | None) -> None:
        self.document = document
        self.pending: dict[TxnId, Transaction] = {}
        self.overwrote: set[TxnId] = set()
        self.answered: set[TxnId] = set()
        self._asked = False
        self._kept: list[Transaction] = []
        self._pieces: dict[tuple[NodeNumber, TxnId], dict[int, bytes]] = {}

    @property
    def kept(self) -> int:
        """How many transactions wait for the document."""
        return len(self._kept)

    # --- what the user sees ------------------------------------------------------------------------------------------

    def revision(self, line: TxnId) -> TxnId:
        """The revision of the line that its user has in mind: that of an own pending edit, or the newest one shown."""
        for transaction in reversed(self.pending.values()):
            if transaction.line == line and transaction.op is not Op.INSERT_AFTER:
                return transaction.txn
        shown = self.document.line(line) if self.document is not None else None
        return shown.revision if shown is not None else line

    def knows(self, line: TxnId) -> bool:
        return line in self.pending or (self.document is not None and self.document.line(line) is not None)

    # --- what the stream says ----------------------------------------------------------------------------------------

    def edit(self, transaction: Transaction) -> None:
        """The next transaction: applied, or kept until the document is here."""
        if self.document is not None:
            self._apply(self.document, transaction)
        elif self._asked:
            self._kept.append(transaction)

    def own_question(self) -> None:
        """The own question was delivered: every snapshot that answers it is made later."""
        self._asked = True

    def piece(self, piece: Piece) -> bool:
        """Take a piece of a snapshot; True when it completes the document."""
        if self.document is not None or not 0 <= piece.index < piece.count <= PIECES_MAX:
            return False
        key = piece.answerer, piece.request
        if key not in self._pieces and len(self._pieces) >= ANSWERS_MAX:
            return False
        pieces = self._pieces.setdefault(key, {})
        pieces[piece.index] = piece.data
        if len(pieces) < piece.count:
            return False
        self._install(_snapshots.decode(b"".join(pieces[index] for index in range(piece.count))))
        return True

    def _install(self, snapshot: Snapshot) -> None:
        document = self.document = Document.restored(snapshot)
        self.pending = {txn: waits for txn, waits in self.pending.items() if not document.has_applied(txn)}
        for transaction in self._kept:
            self._apply(document, transaction)
        self._kept, self._pieces = [], {}

    def _apply(self, document: Document, transaction: Transaction) -> None:
        change = document.apply(transaction)
        if change is None or self.pending.pop(transaction.txn, None) is None:
            return
        if change.outcome is Outcome.OVERWROTE:
            self.overwrote.add(transaction.txn)
