"""Space-time diagrams: as text, as SVG, and the explanation of a violation."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import msgspec
import pytest

from castbed.diagram import explain, space_time_svg, space_time_text
from castbed.diagram.scene import EVENTS_MAX, LANES_MAX, scene
from castbed.history import History, Kind
from castbed.properties import CHECKS
from castbed.properties.ordering import causal
from castbed.properties.reliable import agreement
from castbed.properties.total import total
from framework.histories import node, told

STORY = "A submits A1; A delivers A1\nB delivers A1; B submits B1\nC holds B1 for A1\nC delivers B1\nC delivers A1"
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_violation_explained() -> None:
    history = told(STORY)
    (violation,) = causal(history)
    assert explain(history, violation) == (
        "causal (wrong-order)\n"
        "C delivered B1 before A1, although B delivered A1 before it submitted B1.\n"
        "\n"
        "          A             B              C\n"
        "1.000 ms  ● submits A1  │              │\n"
        "2.000 ms  │             ▼ delivers A1  │\n"
        "          │             ● submits B1   │\n"
        "3.000 ms  │             │              ◌ holds B1\n"
        "4.000 ms  │             │              ▼ delivers B1 !\n"
        "5.000 ms  │             │              ▼ delivers A1 !\n"
    )


def test_a_message_that_is_missing_is_shown_at_the_end() -> None:
    history = told("A submits A1; A delivers A1\nB delivers A1")
    (violation,) = agreement(history)
    assert space_time_text(history, violation.events).splitlines()[-1] == "     end  │              ✗ no A1 !"
    assert "no A1" in texts(space_time_svg(history, violation.events))


def test_the_submission_of_each_message_is_shown() -> None:
    history = told("A submits A1\nB submits B1\nA delivers A1; A delivers B1\nB delivers B1; B delivers A1")
    (violation,) = total(history)
    assert all(event.kind == Kind.DELIVER for event in violation.events)
    shown = space_time_text(history, violation.events)
    assert "● submits A1" in shown
    assert "● submits B1" in shown


def test_in_one_moment_a_delivery_stands_below_its_submission() -> None:
    history = told("A submits A1; B delivers A1")
    lines = space_time_text(history, history.events[-2:]).splitlines()
    assert "● submits A1" in lines[1]
    assert "▼ delivers A1" in lines[2]


@pytest.mark.parametrize(("width", "left_out"), [(60, True), (120, False)])
def test_text_keeps_to_its_width(width: int, left_out: bool) -> None:
    names = "ABCDEFGHIJ"
    story = "A submits A1\n" + "\n".join(f"{name} delivers A1" for name in names)
    history = told(story, everybody=names)
    shown = space_time_text(history, history.of(Kind.DELIVER), width=width)
    assert max(map(len, shown.splitlines())) <= width
    assert ("left out" in shown) == left_out
    assert "▼ A1 !" in shown
    assert "● submits   ▼ delivers" in shown


def test_messages_of_several_groups_are_told_apart() -> None:
    history = told("A submits A1\nA submits A1 in 2\nB delivers A1 in 2; B delivers A1")
    shown = space_time_text(history, history.of(Kind.DELIVER))
    assert "delivers A1/2" in shown
    assert "delivers A1/1" in shown


def test_crashes_and_views_are_shown() -> None:
    history = told("A views 1 A B C\nA crashes\nA restarts")
    shown = space_time_text(history, history.of(Kind.VIEW, Kind.CRASH, Kind.RESTART))
    assert re.findall(r"□ view 1: A B C|✗ crash|↻ restart", shown) == ["□ view 1: A B C", "✗ crash", "↻ restart"]


def test_the_picture_has_lanes_arrows_holds_and_marks() -> None:
    history = told(STORY)
    (violation,) = causal(history)
    svg = space_time_svg(history, violation.events, "causal", violation.words)
    classes = [element.get("class") for element in ElementTree.fromstring(svg).iter()]
    assert classes.count("lane") == 3
    assert classes.count("arrow") == 3
    assert classes.count("hold") == 1
    assert classes.count("ring") == 2
    assert {"causal", "A", "B", "C", violation.words} <= set(texts(svg))


def test_the_wrong_events_may_be_named() -> None:
    history = told(STORY)
    last = history.events[-1]
    assert scene(history, history.events, marked=[last]).marked == {last}
    assert scene(history, history.events, marked=()).marked == set()


def test_names_and_words_are_escaped() -> None:
    history = told(STORY)
    strange = ('<b>&"', "B\x00", "C")
    history = History(msgspec.structs.replace(history.identity, names=strange), history.events)
    svg = space_time_svg(history, history.of(Kind.DELIVER), "<script>", "a < b & c")
    assert '<b>&"' in texts(svg)
    assert "a < b & c" in texts(svg)
    assert "<script>" not in svg


def test_the_picture_is_self_contained() -> None:
    history = told(STORY)
    svg = space_time_svg(history, history.events)
    assert "prefers-color-scheme:dark" in svg
    assert re.findall(r"(?:href|src|url)\b", svg) == []


def test_pictures_are_bounded_and_say_what_was_left_out() -> None:
    names = "ABCDEFGHIJKLMNOPQRST"
    lines = [f"A submits A{n}\n" + "; ".join(f"{name} delivers A{n}" for name in names) for n in range(1, 9)]
    history = told("\n".join(lines), everybody=names)
    asked = history.of(Kind.DELIVER)
    shown = scene(history, asked)
    assert len(shown.lanes) == LANES_MAX
    assert len(shown.events) == EVENTS_MAX
    assert shown.left_out() == f"8 nodes and {8 * 21 - EVENTS_MAX} events are left out"
    assert f"({shown.left_out()})" in texts(space_time_svg(history, asked))
    assert "12 nodes and 120 events are left out" in space_time_text(history, asked)


def test_where_lanes_are_too_many_those_with_something_wrong_are_kept() -> None:
    names = "ABCDEFGHIJKLMNOPQRST"
    story = "A submits A1\n" + "\n".join(f"{name} delivers A1" for name in names)
    history = told(story, everybody=names)
    shown = scene(history, history.of(Kind.DELIVER), marked=[history.events[-1]])
    assert node("T") in shown.lanes


def test_no_events_make_an_empty_diagram() -> None:
    history = told("")
    assert space_time_text(history, []).strip() == ""
    assert texts(space_time_svg(history, [])) == []


BROKEN = """
    A views 1 A B; B views 1 B A; C views 1 B
    A submits A1 after B9; A submits A2; B delivers A2; B delivers A1 as x; B delivers A1
    C holds A2 for A1; C views 0 C
    B submits B1; C delivers B1; C delivers D4 after D3
    B views 2 A B; A views 2 A B; A delivers A1 after B9
    C delivers A2; A delivers A2
"""


def test_every_violation_of_every_property_can_be_explained_and_drawn() -> None:
    history = told(BROKEN)
    broken = {check.name: check.violations(history) for check in CHECKS}
    assert sum(map(bool, broken.values())) >= 15
    for violations in broken.values():
        for violation in violations:
            assert violation.words in " ".join(explain(history, violation).split("\n"))
            ElementTree.fromstring(space_time_svg(history, violation.events, violation.property, violation.words))
            assert violation.words.endswith(".")
            assert set(violation.events) <= set(history.events)
            assert violation.kind


def test_an_arrow_comes_from_the_submission_that_was_copied_and_never_points_back_in_time() -> None:
    """An identity that was used three times: a delivery belongs to the latest submission of its content."""
    story = "A submits A1 as x\nB delivers A1 as x\nA submits A1 as y\nB delivers A1 as y\nA submits A1 as z"
    history = told(story, everybody="AB")
    svg = space_time_svg(history, [event for event in history.events if event.mid is not None])
    shafts = [e.get("d", "") for e in ElementTree.fromstring(svg).iter() if e.get("class") == "arrow"]
    assert len(shafts) == 2
    for shaft in shafts:
        start, end = (float(x) for x in re.findall(r"[ML]\s*([0-9.]+)", shaft)[:2])
        assert start < end
