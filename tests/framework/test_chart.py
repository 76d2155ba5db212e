"""Charts: self-contained pictures of numbers, on linear and logarithmic axes."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from castbed.diagram import Chart, Curve, Spot, chart_svg

SVG = "{http://www.w3.org/2000/svg}"
OURS = Curve("ours", (Spot(1, 2.0, 1.5, 2.5), Spot(2, 20.0, hollow=True), Spot(4, 200.0)))
PRINTED = Curve("printed & bound", (Spot(1, 3.0), Spot(4, 30.0)), colour=1, dashed=True)


def drawn(**changes: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart_svg(Chart("Title", (OURS, PRINTED), "across", "up", **changes)))  # type: ignore[arg-type]


def heights(picture: ElementTree.Element) -> list[float]:
    """Of the marks of our curve, from the bottom up; the first circle is the legend's."""
    return [-float(mark.attrib["cy"]) for mark in picture.iter(f"{SVG}circle")][1:]


def test_a_chart_shows_its_words_and_every_point() -> None:
    picture = drawn(note="A note.")
    words = {text.text for text in picture.iter(f"{SVG}text")}
    assert {"Title", "A note.", "across", "up", "ours", "printed & bound"} <= words
    assert len(heights(picture)) == len(OURS.spots)
    assert len([mark for mark in picture.iter(f"{SVG}circle") if mark.attrib.get("class") == "hollow"]) == 1


def test_equal_factors_are_equal_distances_on_a_logarithmic_axis() -> None:
    first, second, third = heights(drawn(up_scale="log"))
    assert second - first == pytest.approx(third - second, abs=0.2)
    first, second, third = heights(drawn())
    assert third - second > 5 * (second - first)


def test_a_chart_of_nothing_or_of_one_value_can_be_drawn() -> None:
    for curves in ((), (Curve("empty", ()),), (Curve("one", (Spot(0, 0.0),)),)):
        ElementTree.fromstring(chart_svg(Chart("Title", curves, "across", "up", up_scale="log", across_scale="log")))
