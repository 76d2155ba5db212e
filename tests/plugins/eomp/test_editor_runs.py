"""The editor on a total order: what users write, miss and catch up with (spec T1 to T8, TT1 to TT6)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from case_study_runs import SECOND, Ran, lamport

from castbed import ConfigurationError, ContractError, Message, Setting, topology
from castbed.application import Submit, Wake
from castbed.units import convert
from castbed_plugins.eomp.document import TOP, Op, Outcome, TxnId
from castbed_plugins.eomp.editor import EDITOR, Editor, EditorOptions


def ran(steps: list[dict[str, Any]] | None = None, data: dict[str, Any] | None = None, **options: Any) -> Ran:
    return Ran(EDITOR, {"steps": steps or [], **options}, data or lamport())


def step(node: str, at: str, do: str, line: int = 0, text: str = "", **more: Any) -> dict[str, Any]:
    return {"node": node, "at": at, "do": do, "line": line, "text": text, **more}


class Table:
    """Editors around a total order in the test's hand: everything said is delivered, to everybody, when told."""

    def __init__(self, names: str = "AB", **options: Any) -> None:
        self.net = topology.broadcast(tuple(names))
        self.options = EditorOptions(**options)
        self.stream: list[bytes] = []
        self.heard: dict[str, int] = {}
        self.editors: dict[str, Editor] = {}
        for name in names:
            self.start(name)

    def start(self, name: str, now: int = 0) -> Editor:
        number = self.net.number(name)
        editor = Editor(Setting(number, self.net, Random(f"{name}/{now}"), SECOND), self.options)
        editor.now = now
        self.editors[name], self.heard[name] = editor, len(self.stream)
        editor.joined(1)
        editor.started()
        return editor

    def settle(self, *names: str) -> None:
        """Deliver all there is to these editors (none given: to all), and what they say because of it."""
        for _ in range(100):
            said = [self._say(name) for name in self.editors]
            heard = [self._hear(name) for name in names or self.editors]
            if not any(said) and not any(heard):
                return
        raise AssertionError("the editors never stop talking")

    def _say(self, name: str) -> bool:
        wishes = self.editors[name].take_wishes()
        self.stream += [wish.message.payload for wish in wishes if isinstance(wish, Submit)]
        for wish in wishes:
            if isinstance(wish, Wake) and wish.name[0] == "answer":
                self.editors[name].woken(wish.name)
        return bool(wishes)

    def _hear(self, name: str) -> bool:
        new = self.stream[self.heard[name] :]
        self.heard[name] = len(self.stream)
        for payload in new:
            self.editors[name].delivered(Message(payload=payload))
        return bool(new)


def test_an_edit_is_pending_until_its_own_delivery() -> None:
    """T2: the author's copy changes on delivery like everybody else's."""
    table = Table()
    a = table.editors["A"]
    txn = a.go(Op.INSERT_AFTER, TOP, "hello")
    assert (a.text(), a.state_of(txn), a.status().pending) == ("", "pending", 1)
    table.settle()
    assert (a.text(), a.state_of(txn), a.status().pending) == ("hello\n", "confirmed", 0)
    assert table.editors["B"].text() == "hello\n"


def test_a_user_may_build_on_what_is_still_pending() -> None:
    table = Table()
    a = table.editors["A"]
    line = a.go(Op.INSERT_AFTER, TOP, "draft")
    again = a.go(Op.REPLACE, line, "better")
    best = a.go(Op.REPLACE, line, "best")
    a.write("below\nand below")
    table.settle()
    assert table.editors["B"].text().splitlines()[-1] == "best"
    assert {a.state_of(txn) for txn in (line, again, best)} == {"confirmed"}


def test_the_disconnected_loser_is_flagged_and_its_text_kept() -> None:
    """T3, TT2: A is away while B changes the line; what A wrote meanwhile is ordered last and wins."""
    table = Table()
    a, b = table.editors["A"], table.editors["B"]
    line = a.go(Op.INSERT_AFTER, TOP, "old")
    table.settle()
    a.disconnect()
    mine = a.go(Op.REPLACE, line, "mine")
    yours = b.go(Op.REPLACE, line, "yours")
    table.settle()
    assert (a.text(), b.text()) == ("old\n", "yours\n")
    assert (a.status().up_to_date, a.status().missed, a.status().pending) == (False, 1, 1)
    a.connect()
    table.settle()
    assert a.text() == b.text() == "mine\n"
    assert (a.state_of(mine), b.state_of(yours)) == ("overwrote", "confirmed")
    assert [(c.outcome, c.before) for c in b.replicas[1].document.history][-1] == (Outcome.OVERWROTE, "yours")
    assert a.status().up_to_date


def test_an_undo_is_a_new_transaction() -> None:
    table = Table()
    a, b = table.editors["A"], table.editors["B"]
    line = a.go(Op.INSERT_AFTER, TOP, "one")
    other = a.go(Op.INSERT_AFTER, line, "two")
    changed = a.go(Op.REPLACE, line, "ONE")
    table.settle()
    deleted = b.go(Op.DELETE, other)
    table.settle()
    assert b.text() == "ONE\n"
    assert a.undo(changed) is not None
    assert a.undo(deleted) is not None
    table.settle()
    assert b.text() == "one\ntwo\n"
    assert b.undo(line) is not None
    table.settle()
    assert a.text() == "two\n"


def test_a_restarted_editor_resubmits_its_journal_and_nothing_is_applied_twice() -> None:
    """TT6: one transaction was on its way when the editor died, one was not; both come once."""
    table = Table("ABC")
    a = table.editors["A"]
    a.go(Op.INSERT_AFTER, TOP, "sent")
    table.settle("B", "C")
    a.disconnect()
    a.go(Op.INSERT_AFTER, TOP, "unsent")
    journal = a.journal()
    reborn = table.start("A", now=SECOND)
    reborn.restore(journal)
    assert reborn.status().pending == 2
    table.settle()
    assert [editor.text() for editor in table.editors.values()] == ["unsent\nsent\n"] * 3
    assert reborn.status().pending == 0
    assert {editor.replicas[1].document.applied_count() for editor in table.editors.values()} == {2}


def test_a_latecomer_loses_nothing_at_the_seam_and_applies_nothing_twice() -> None:
    """T7: transactions from before the question, between question and answer, and after the answer."""
    table = Table("ABC", piece=16)
    a, b = table.editors["A"], table.editors["B"]
    a.write("one\ntwo\nthree")
    table.settle()
    late = table.start("C", now=SECOND)
    table._say("C")
    a.write("four")
    b.go(Op.DELETE, b.replicas[1].document.lines()[0].line)
    table._say("A"), table._say("B")
    table._hear("C")
    assert (late.text(), late.status().missed, late.status().up_to_date) == ("", 2, False)
    table.settle()
    assert late.text() == a.text() == b.text() == "two\nthree\nfour\n"
    assert late.status().up_to_date


def test_one_answer_is_enough() -> None:
    """B hears the question and A's answer before its own turn to answer."""
    table = Table("ABC")
    table.start("C", now=SECOND)
    table._say("C")
    table._hear("A")
    table._say("A"), table._say("A")
    assert len(table.stream) == 2
    table._hear("B")
    table._say("B"), table._say("B")
    assert len(table.stream) == 2


def test_a_latecomer_may_write_before_its_document_is_there() -> None:
    table = Table("AB")
    table.editors["A"].write("old")
    table.settle("A")
    late = table.start("B", now=SECOND)
    late.go(Op.INSERT_AFTER, TOP, "new")
    assert late.status().pending == 1
    table.settle()
    assert late.text() == table.editors["A"].text() == "new\nold\n"


@pytest.mark.parametrize("payload", [b"", b"\xff", b"\x92\x01\x90", b"\x92\x63\xc0"])
def test_what_is_no_editors_is_counted_and_ignored(payload: bytes) -> None:
    table = Table()
    table.editors["A"].delivered(Message(payload=payload))
    assert (table.editors["A"].foreign, table.editors["A"].text()) == (1, "")


def test_what_is_impossible_is_refused_in_words() -> None:
    a = Table().editors["A"]
    with pytest.raises(ContractError, match="one line"):
        a.go(Op.INSERT_AFTER, TOP, "two\nlines")
    with pytest.raises(ContractError, match="no line"):
        a.go(Op.DELETE, TxnId(9, 9, 9))
    with pytest.raises(ContractError, match="only insert"):
        a.go(Op.REPLACE, TOP, "title")
    with pytest.raises(ConfigurationError, match=r"steps\[0\].node: there is no node 'Z'"):
        ran([step("Z", "1s", "delete")])
    with pytest.raises(ConfigurationError, match="rate"):
        convert({"rate": "often"}, EditorOptions)


def test_a_script_drives_the_editors() -> None:
    result = ran(
        [
            step("A", "100ms", "insert", 0, "title"),
            step("B", "500ms", "insert", 1, "body"),
            step("C", "600ms", "disconnect"),
            step("C", "700ms", "replace", 1, "TITLE"),
            step("A", "1s", "replace", 1, "headline"),
            step("C", "1500ms", "connect"),
        ]
    )
    assert {editor.text() for editor in result.all()} == {"TITLE\nbody\n"}


def test_documents_of_two_groups_are_independent() -> None:
    """T8."""
    data = lamport()
    data["topology"]["groups"] = {"1": ["A", "B"], "2": ["B", "C"]}
    steps = [step("B", "1s", "insert", 0, "one"), step("B", "1s", "insert", 0, "two", group=2)]
    result = ran(steps, data)
    assert (result["A"].text(1), result["B"].text(1), result["B"].text(2)) == ("one\n", "one\n", "two\n")
    assert result["C"].text(2) == "two\n"
    assert list(result["C"].replicas) == [2]


def outages(names: str, random: Random, seconds: float) -> list[dict[str, Any]]:
    """Each user disconnects and connects a few times, and is connected in the end."""
    steps = []
    for name in names:
        times = sorted(int(random.random() * seconds * 1000) for _ in range(6))
        steps += [step(name, f"{ms}ms", ("disconnect", "connect")[at % 2]) for at, ms in enumerate(times)]
    return steps


@pytest.mark.parametrize("seed", range(6))
def test_all_replicas_are_equal_after_any_schedule(seed: int) -> None:
    """TT1: five editors that come and go, about two hundred transactions, each applied once everywhere."""
    steps = outages("ABCDE", Random(seed), 4)
    result = ran(steps, lamport("ABCDE", seconds=4, seed=seed), rate=12.0)
    documents = [editor.replicas[1].document for editor in result.all()]
    written = sum(editor._counter for editor in result.all())
    assert written > 150
    assert {document.applied_count() for document in documents} == {written}
    assert all(document.snapshot() == documents[0].snapshot() for document in documents)
    assert all(list(document.history) == list(documents[0].history) for document in documents)
    assert all(editor.status().pending == 0 for editor in result.all())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_a_thousand_transactions_leave_equal_documents(seed: int) -> None:
    """TT1 at its full size."""
    data = lamport("ABCDE", seconds=20, seed=seed)
    result = ran(outages("ABCDE", Random(seed), 20), data, rate=12.0, opens={"E": "9s"})
    documents = [editor.replicas[1].document for editor in result.all()]
    assert documents[0].applied_count() > 900
    assert all(document.snapshot() == documents[0].snapshot() for document in documents)


@pytest.mark.parametrize("seed", range(6))
def test_who_opens_the_document_in_mid_traffic_has_what_the_others_have(seed: int) -> None:
    """TT4: two latecomers, one of them while the other still waits."""
    opens = {"D": "1s", "E": f"{1000 + 40 * seed}ms"}
    result = ran(None, lamport("ABCDE", seconds=3, seed=seed), rate=20.0, opens=opens, piece="512B")
    documents = [editor.replicas[1].document for editor in result.all()]
    assert documents[0].applied_count() > 100
    assert all(document.snapshot() == documents[0].snapshot() for document in documents)


def test_only_the_founder_begins_with_the_empty_document() -> None:
    """The others ask in the stream, and the founder answers."""
    result = ran([step("B", "1s", "insert", 0, "hello")], founders=["A"])
    assert {editor.text() for editor in result.all()} == {"hello\n"}
