"""The page of a report in a real browser: it draws everything, asks nobody for anything, and obeys the keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Page, browser, program
from report_documents import document, empty_run, run

from castbed_spark.report.document import Document
from castbed_spark.report.page import page
from castbed_spark.report.sources import RUNS_MAX

SECTIONS = ["verdicts", "witnesses", "time", "cost", "faults", "diagram", "clocks"]
SHOWN = "[...document.querySelectorAll('[data-diagram]:not([hidden])')].map((one) => one.dataset.diagram)"
BRIGHTNESS = "getComputedStyle(document.body).{}.match(/[0-9]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0)"
DIAGRAM = "[data-diagram]:not([hidden]) .diagram-frame"


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    if program() is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with browser() as opened:
        yield opened


@pytest.fixture
def opened(tab: Page) -> Iterator[Page]:
    """The tab, with nothing remembered; whatever a test opens must cause neither errors nor requests."""
    tab.errors.clear()
    tab.requests.clear()
    yield tab
    assert tab.errors == []
    assert [address for address in tab.requests if not address.startswith(("file:///", "data:"))] == []
    assert len({address for address in tab.requests if address.startswith("file:")}) == 1


def show(tab: Page, folder: Path, what: Document) -> None:
    file = folder / "report.html"
    file.write_text(page(what), encoding="utf-8")
    tab.open(file)


def texts(tab: Page, selector: str) -> list[str]:
    found: list[str] = tab.value(f"[...document.querySelectorAll({selector!r})].map((one) => one.textContent)")
    return found


def count(tab: Page, selector: str) -> int:
    found: int = tab.value(f"document.querySelectorAll({selector!r}).length")
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_of_the_most_runs_has_a_colour_of_its_own(opened: Page, tmp_path: Path, scheme: str) -> None:
    opened.prefer(scheme)
    show(opened, tmp_path, document(*(run(f"run-{number}") for number in range(RUNS_MAX))))
    swatches = "[...document.querySelector('.legend').querySelectorAll('i')]"
    found = opened.value(f"{swatches}.map((one) => getComputedStyle(one).backgroundColor)")
    opened.prefer("light")
    assert len(found) == len(set(found)) == RUNS_MAX


def test_every_part_is_drawn(opened: Page, tmp_path: Path) -> None:
    show(opened, tmp_path, document(run(violated=True)))
    assert opened.value("[...document.querySelectorAll('main section')].map((one) => one.id)") == SECTIONS
    assert texts(opened, "figcaption") == [
        "Delivery latency", "Time held back", "Needless waiting (inhibition)", "After a handoff",
        "Deliveries over time", "Submissions over time", "Bytes sent by packet type", "Frames per role", "Buffers",
    ]  # fmt: skip
    empty = "[...document.querySelectorAll('figure svg')].filter((one) => !one.querySelector('path, rect')).length"
    assert opened.value(empty) == 0
    assert count(opened, f"{DIAGRAM} .hop") == 16
    assert count(opened, f"{DIAGRAM} .mark") == 8 * 3 + 1


def test_what_a_run_calls_its_things_is_shown_as_text(opened: Page, tmp_path: Path) -> None:
    show(opened, tmp_path, document(run()))
    assert opened.value("document.title") == "A <title> & more"
    assert texts(opened, "h1") == ["A <title> & more"]
    assert "</script><b>" in texts(opened, "#cost svg text")


def test_the_verdict_comes_first(opened: Page, tmp_path: Path) -> None:
    show(opened, tmp_path, document(run()))
    assert texts(opened, "#verdicts .verdict.good") == ["All 2 guaranteed properties hold."]
    assert count(opened, "#witnesses") == 0
    show(opened, tmp_path, document(run(violated=True)))
    assert texts(opened, ".verdict.bad") == ["1 of 2 guaranteed properties are violated: no_duplication."]


def test_a_witness_is_told_and_shown_in_the_diagram(opened: Page, tmp_path: Path) -> None:
    show(opened, tmp_path, document(run(violated=True)))
    assert texts(opened, "#witnesses .witness p") == ["h2 delivered h1.2 again."] * 2
    assert texts(opened, "#witnesses summary") == ["1 more of 2"]
    opened.value("document.querySelector('#witnesses .witness button').click()")
    assert count(opened, f"{DIAGRAM} .ring") == 2
    assert texts(opened, ".about") == ["h2 delivered h1.2 again."]
    opened.value("document.querySelector('[aria-label=\"Show everything\"]').click()")
    assert count(opened, f"{DIAGRAM} .ring") == 0


def test_runs_stand_side_by_side(opened: Page, tmp_path: Path) -> None:
    show(opened, tmp_path, document(run("good-1"), run("bad-1", violated=True)))
    assert texts(opened, "#verdicts .verdict") == [
        "good-1: All 2 guaranteed properties hold.",
        "bad-1: 1 of 2 guaranteed properties are violated: no_duplication.",
    ]
    assert texts(opened, "#time figure:first-child .legend li") == ["good-1", "bad-1"]
    assert texts(opened, "#verdicts table:last-of-type th")[-3:] == ["property", "good-1", "bad-1"]
    assert opened.value(SHOWN) == ["good-1"]
    opened.value("document.querySelector('[data-show=\"bad-1\"]').click()")
    assert opened.value(SHOWN) == ["bad-1"]


def times(tab: Page) -> list[float]:
    """What is written below the diagram."""
    written = texts(tab, f"{DIAGRAM} svg text")
    return [float(text.removesuffix(" s")) for text in written if text.endswith(" s")]


def test_the_keyboard_moves_and_zooms_the_diagram(opened: Page, tmp_path: Path) -> None:
    show(opened, tmp_path, document(run()))
    opened.value("document.querySelector('.diagram-frame svg').focus()")
    opened.press("0")
    everything = times(opened)
    assert everything[0] == 0
    assert everything[-1] == pytest.approx(2.0, abs=0.3)
    opened.press("+")
    opened.press("+")
    near = times(opened)
    assert near[0] > 0.5
    assert near[-1] < 1.5
    opened.press("ArrowRight")
    assert times(opened)[-1] >= near[-1]
    opened.press("0")
    assert times(opened) == everything


def test_messages_and_nodes_can_be_chosen(opened: Page, tmp_path: Path) -> None:
    show(opened, tmp_path, document(run()))
    chosen = "const one = document.querySelector('{}'); one.value = '{}'; one.dispatchEvent(new Event('{}'))"
    opened.value(f"{{ {chosen.format('.diagram-tools select', 'h1.3', 'change')} }}")
    assert (count(opened, f"{DIAGRAM} .hop.lit"), count(opened, f"{DIAGRAM} .hop")) == (2, 2)
    opened.value(f"{{ {chosen.format('.diagram-tools input[type=search]', 'H1.', 'input')} }}")
    assert count(opened, f"{DIAGRAM} .hop.lit") == 16
    opened.value("document.querySelector('[data-node=\"0\"]').click()")
    assert count(opened, f"{DIAGRAM} .hop") == 0
    assert texts(opened, f"{DIAGRAM} .lane-name") == ["h1", "h2"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_light_or_dark_as_the_reader_prefers(opened: Page, tmp_path: Path, scheme: str) -> None:
    opened.prefer(scheme)
    show(opened, tmp_path, document(run()))
    assert _brightness(opened, "backgroundColor") > _brightness(opened, "color") or scheme == "dark"
    assert _brightness(opened, "backgroundColor") < _brightness(opened, "color") or scheme == "light"
    before = _brightness(opened, "backgroundColor")
    opened.value("document.getElementById('theme').click()")
    assert abs(_brightness(opened, "backgroundColor") - before) > 300


def _brightness(tab: Page, what: str) -> int:
    found: int = tab.value(BRIGHTNESS.format(what))
    return found


def test_a_run_in_which_nothing_happened_has_a_page(opened: Page, tmp_path: Path) -> None:
    show(opened, tmp_path, document(empty_run()))
    assert texts(opened, ".verdict") == ["No property was judged."]
    assert count(opened, "figure") == 0


def test_the_clocks_are_told(opened: Page, tmp_path: Path) -> None:
    show(opened, tmp_path, document(run()))
    assert texts(opened, "#clocks tbody tr:nth-child(2) td") == ["h1", "12.5", "3", "40"]
