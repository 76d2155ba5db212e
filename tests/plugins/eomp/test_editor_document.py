"""The document: what transactions do to it, in any order that a stream may have (spec T1, T4 to T6)."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from castbed_plugins.eomp.document import TOP, Change, Document, Op, Outcome, Snapshot, Transaction, TxnId

A, B = 1, 2


def txn(author: int, counter: int) -> TxnId:
    return TxnId(author, 0, counter)


def insert(author: int, counter: int, after: TxnId, text: str) -> Transaction:
    return Transaction(txn(author, counter), Op.INSERT_AFTER, after, after, text)


def replace(author: int, counter: int, line: TxnId, base: TxnId, text: str) -> Transaction:
    return Transaction(txn(author, counter), Op.REPLACE, line, base, text)


def delete(author: int, counter: int, line: TxnId, base: TxnId) -> Transaction:
    return Transaction(txn(author, counter), Op.DELETE, line, base)


def applied(document: Document, *transactions: Transaction) -> list[Change]:
    changes = [document.apply(transaction) for transaction in transactions]
    assert None not in changes
    return changes  # type: ignore[return-value]


def test_the_later_insertion_after_a_line_stands_nearer_to_it() -> None:
    document = Document()
    applied(document, insert(A, 1, TOP, "title"), insert(A, 2, txn(A, 1), "one"), insert(B, 1, txn(A, 1), "two"))
    assert document.text() == "title\ntwo\none\n"


def test_concurrent_insertions_shift_no_target() -> None:
    """T4: lines have identities, not positions."""
    document = Document()
    applied(document, insert(A, 1, TOP, "first"), insert(A, 2, txn(A, 1), "second"))
    applied(document, insert(B, 1, TOP, "above"), replace(A, 3, txn(A, 2), txn(A, 2), "SECOND"))
    assert document.text() == "above\nfirst\nSECOND\n"


def test_the_later_of_two_concurrent_changes_wins_and_is_flagged() -> None:
    """T6, TT2: the text that lost is in the history."""
    document = Document()
    line = txn(A, 1)
    changes = applied(
        document, insert(A, 1, TOP, "old"), replace(A, 2, line, line, "mine"), replace(B, 1, line, line, "yours")
    )
    assert document.text() == "yours\n"
    assert [change.outcome for change in changes] == [Outcome.APPLIED, Outcome.APPLIED, Outcome.OVERWROTE]
    assert document.history[-1].before == "mine"


def test_a_change_of_what_its_author_saw_is_not_flagged() -> None:
    document = Document()
    line = txn(A, 1)
    changes = applied(
        document, insert(A, 1, TOP, "1"), replace(B, 1, line, line, "2"), replace(A, 2, line, txn(B, 1), "3")
    )
    assert {change.outcome for change in changes} == {Outcome.APPLIED}


def test_changes_of_a_deleted_line_become_insertions_at_its_tombstone() -> None:
    """T6."""
    document = Document()
    line = txn(A, 1)
    applied(document, insert(A, 1, TOP, "gone"), insert(A, 2, line, "below"), delete(B, 1, line, line))
    changes = applied(document, replace(A, 3, line, line, "again"), insert(B, 2, line, "under it"))
    assert document.text() == "under it\nagain\nbelow\n"
    assert {change.outcome for change in changes} == {Outcome.REINSERTED}


def test_a_second_deletion_does_nothing() -> None:
    """T6."""
    document = Document()
    line = txn(A, 1)
    first, second = applied(document, insert(A, 1, TOP, "x"), delete(A, 2, line, line), delete(B, 1, line, line))[1:]
    assert (first.outcome, second.outcome) == (Outcome.APPLIED, Outcome.NOTHING)
    assert first.before == "x"


def test_a_line_that_nobody_knows_stands_for_the_end() -> None:
    document = Document()
    applied(document, insert(A, 1, TOP, "one"), insert(A, 2, txn(A, 1), "two"), insert(B, 1, txn(9, 9), "lost"))
    assert document.text() == "one\ntwo\nlost\n"


def test_a_transaction_is_applied_once() -> None:
    document = Document()
    assert document.apply(insert(A, 1, TOP, "once")) is not None
    assert document.apply(insert(A, 1, TOP, "once")) is None
    assert document.text() == "once\n"


def test_no_line_can_stand_in_for_the_top() -> None:
    document = Document()
    assert document.apply(Transaction(TOP, Op.INSERT_AFTER, TOP, TOP, "above all")) is None
    assert document.lines() == []


def test_ten_thousand_long_lines_stay_quick_to_change() -> None:
    """Spec 1.3; an insertion does not walk over the document, so this ends at once or not at all."""
    document = Document()
    for counter in range(1, 10_001):
        document.apply(insert(A, counter, txn(A, counter // 2), "é" * 40))
    document.apply(insert(B, 1, txn(A, 10_000), "x" * 65_536))
    assert len(document.lines()) == 10_001
    assert max(len(line.text) for line in document.lines()) == 65_536


@st.composite
def streams(draw: st.DrawFn) -> list[Transaction]:
    """Any transactions of three authors on any lines, known or not."""
    stream = []
    for counter in range(1, draw(st.integers(1, 30)) + 1):
        author = draw(st.integers(1, 3))
        target = draw(st.sampled_from([TOP, *(done.txn for done in stream), txn(9, 9)]))
        base = draw(st.sampled_from([target, *(done.txn for done in stream)]))
        op = Op.INSERT_AFTER if target == TOP else draw(st.sampled_from(list(Op)))
        stream.append(Transaction(txn(author, counter), op, target, base, f"{author}.{counter}"))
    return stream


@settings(max_examples=200, deadline=None)
@given(streams(), st.data())
def test_a_snapshot_at_any_point_continues_as_the_original(stream: list[Transaction], data: st.DataObject) -> None:
    """T5, T7: also when transactions from before the snapshot come again."""
    cut = data.draw(st.integers(0, len(stream)))
    again = data.draw(st.integers(0, cut))
    original = Document()
    for transaction in stream[:cut]:
        original.apply(transaction)
    encoded = msgspec.msgpack.encode(original.snapshot())
    restored = Document.restored(msgspec.msgpack.decode(encoded, type=Snapshot))
    for transaction in stream[cut:]:
        original.apply(transaction)
    for transaction in stream[again:]:
        restored.apply(transaction)
    assert restored.snapshot() == original.snapshot()
    assert restored.text() == original.text()
