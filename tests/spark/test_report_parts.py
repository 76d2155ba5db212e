"""The small parts of a report that need no session: labels, hops, clocks, scales, faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

from castbed.history import Kind
from castbed.registry import load_registry
from castbed.wire import family_number
from castbed_spark.report.counts import faults
from castbed_spark.report.document import Fault, Node
from castbed_spark.report.hops import hops
from castbed_spark.report.kinds import kind_name, kind_names
from castbed_spark.report.labels import Labels
from castbed_spark.report.timeline import Cast, Head, Timeline

CAST = Cast(Head("sb", "repaired", "sim", "broadcast", 1), [Node(name, "host") for name in ("A", "h", "h1")])
LINE = Timeline(0, 10**9, {Kind.CRASH: 2, Kind.DETACH: 1}, {Kind.CRASH: 5, Kind.DETACH: 7})


def frame(at: int, node: int, outgoing: bool = False, to: int | None = None) -> dict[str, Any]:
    """A frame of node 1, sent or come, at so many microseconds."""
    return {
        "at": at * 1000, "node": node, "outgoing": outgoing, "to": to, "medium": "air", "sender": 1, "family": 7,
        "kind": 1, "control_bytes": 3, "payload_bytes": 0,
    }  # fmt: skip


def ways(*frames: dict[str, Any]) -> list[tuple[int, int, int]]:
    """When each copy was sent, when it came, and where."""
    return [(round(sent * 1e6), round(got * 1e6), to + 1) for sent, _, got, to, _ in hops(list(frames), LINE, {})]  # type: ignore[arg-type]


def test_a_copy_is_drawn_from_the_last_frame_that_was_sent_before_it() -> None:
    sent = frame(100, 1, True), frame(500, 1, True)
    assert ways(*sent, frame(700, 2), frame(300, 3)) == [(100, 300, 3), (500, 700, 2)]


def test_a_frame_for_another_node_is_not_where_a_copy_comes_from() -> None:
    sent = frame(100, 1, True, to=2), frame(500, 1, True, to=3)
    assert ways(*sent, frame(700, 2, to=2)) == [(100, 700, 2)]
    assert ways(*sent, frame(700, 4, to=4)) == []


def test_a_copy_that_came_before_it_was_sent_is_drawn_from_the_first_frame() -> None:
    assert ways(frame(100, 1, True), frame(90, 2)) == [(100, 90, 2)]


def test_the_senders_own_copy_is_no_hop() -> None:
    assert ways(frame(100, 1, True), frame(110, 1)) == []


def test_a_label_may_stand_for_messages_of_several_writers() -> None:
    labels = Labels(CAST)
    assert labels.message((1, 3, 2, 0)) == "h1.2"
    assert labels.message((1, 2, 1, 3)) == "h1~3"
    assert labels.identities("h1.2") == [(3, 2, 0)]
    assert labels.identities("h1~3") == [(2, 1, 3)]
    assert labels.identities("h12") == [(2, 12, 0), (3, 2, 0)]
    assert labels.identities("nobody") == []


def test_messages_name_their_group_where_there_are_several() -> None:
    assert Labels(CAST, several_groups=True).message((4, 1, 2, 0)) == "A2/4"
    assert Labels(CAST).identities("A2/4") == [(1, 2, 0)]


def test_a_node_without_a_role_is_not_taken_for_one_without_a_capture() -> None:
    nodes = [Node("A", ""), Node("B", ""), Node("C", "")]
    assert Cast(CAST.head, nodes, frozenset({1, 3})).silent == ["B"]


def test_packet_types_without_a_plugin_keep_their_numbers() -> None:
    names = kind_names(load_registry())
    sb = family_number("sb")
    assert any(family == sb for family, _ in names)
    assert kind_name(names, 0xFFFF, 3) == "kind 3 of 0xffff"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"faults": 3}'])
def test_without_a_summary_the_faults_are_those_that_captures_show(tmp_path: Path, text: str) -> None:
    if text:
        (tmp_path / "summary.json").write_text(text, encoding="utf-8")
    assert faults(tmp_path, LINE) == [Fault("crashes", 2), Fault("detachments", 1)]


def test_the_faults_are_those_of_the_summary(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"faults": {"loss": 41}}', encoding="utf-8")
    assert faults(tmp_path, LINE) == [Fault("loss", 41)]
