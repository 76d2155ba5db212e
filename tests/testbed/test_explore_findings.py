"""Findings pages are what the corpus shows now, every flaw is repaired, and the record takes up where it ended."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from explore_support import REGISTRY, script
from testbed_command import castbed

from castbed import ConfigurationError, load_registry
from castbed_testbed.explore.campaign import Budget, explore
from castbed_testbed.explore.corpus import scripts_in
from castbed_testbed.explore.engine import Request
from castbed_testbed.explore.explored import code_of, extended, nothing_yet, read_explored, record
from castbed_testbed.explore.findings import OLD, Flaw, Page, findings, flaws_in
from castbed_testbed.explore.hunting import hunts_in, not_reported, parse_command
from castbed_testbed.explore.reported import (
    AT_LEAST,
    FILE,
    Reported,
    explored_with,
    is_recorded,
    owed,
    read_reported,
    record_reported,
    reported,
)
from castbed_testbed.explore.script import parse, read, write

ROOT = Path(__file__).parents[2]
CORPUS, PAGES, FIGURES = ROOT / "tests" / "corpus", ROOT / "docs" / "findings", ROOT / "docs" / "figures" / "findings"
AGAIN = "castbed findings tests/corpus --out docs/findings --figures docs/figures/findings"
FLAWS = flaws_in(CORPUS, REGISTRY)
ACCOUNT = """
[finding]
title = "A later message first"
claims = ["X1"]
story = "B hears b before a."
cause = "no numbers"
responsible = "step 2"
repair = "numbers"
cost = "bytes"
"""
COMMAND = "castbed explore hasty --variant published --budget 600 --seed 3 --without crash"
OVERTAKEN = """
A submits a to 1
A submits b to 1
B receives Said b from A
then everything settles"""


def test_the_pages_in_the_documentation_are_what_the_corpus_shows() -> None:
    explored, found = read_explored(PAGES / "explored.json"), read_reported(PAGES / FILE)
    pages, pictures = findings(CORPUS, explored, REGISTRY, "../figures/findings", found)
    wanted = {PAGES / name: text for name, text in pages.items()}
    wanted |= {FIGURES / name: text for name, text in pictures.items()}
    there = {*PAGES.glob("*.md"), *FIGURES.glob("*.svg")}
    old = [path.name for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    assert (old, there - wanted.keys()) == ([], set()), AGAIN


@pytest.mark.parametrize("path", scripts_in(CORPUS), ids=lambda path: path.stem)
def test_an_account_reads_back_as_itself(path: Path) -> None:
    assert parse(write(read(path))) == read(path)


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_the_repaired_variant_stands_what_refutes_the_published_one(flaw: Flaw) -> None:
    assert flaw.played.violations
    assert flaw.repaired is None or flaw.repaired.violations == []


@pytest.mark.parametrize("protocol", ["m2mc", "eomp"])
def test_at_least_eight_causes_are_known_within_the_assumptions_of_the_paper(protocol: str) -> None:
    assert len(Page(protocol, FLAWS, [], REGISTRY).causes()) >= 8


def test_every_command_that_is_said_to_have_found_something_could_be_given() -> None:
    hunts = hunts_in(CORPUS)
    assert {parse_command(hunt.command)[0].protocol for hunt in hunts} == {"eomp", "m2mc", "relm"}
    for hunt in hunts:
        request, budget = parse_command(hunt.command)
        assert budget.schedules  # a budget in seconds finds another amount on every machine
        assert {script.setup.variant for _, script in hunt.scripts} == {request.variant}


@pytest.mark.parametrize("protocol", ["m2mc", "eomp", "relm"])
def test_causes_that_the_search_finds_outnumber_the_others(protocol: str) -> None:
    ours = [flaw.account for flaw in FLAWS if flaw.protocol == protocol and flaw.within_the_model]
    found = {account.cause for account in ours if account.found_by}
    assert len(found) > len({account.cause for account in ours} - found)


def test_a_script_counts_as_found_where_its_kind_is_reported(tmp_path: Path) -> None:
    """Hasty breaks fifo by overtaking, with whatever names and messages; nothing is ever lost."""
    (hunt,) = hunts_in(corpus_of(tmp_path, ACCOUNT + f'found_by = "{COMMAND}"\n'))
    request, budget = parse_command(hunt.command)
    assert (request, budget) == (Request("hasty", "published", seed=3, without=("crash",)), Budget(600))
    report = explore(request, budget, REGISTRY)
    assert not_reported(hunt, report, REGISTRY) == []
    assert not_reported(hunt, msgspec.structs.replace(report, findings=()), REGISTRY) == ["overtaken"]
    assert hunts_in(tmp_path, ["sb"]) == []


def test_it_is_recorded_after_how_many_schedules_a_script_was_found(tmp_path: Path) -> None:
    corpus, file = corpus_of(tmp_path, ACCOUNT + f'found_by = "{COMMAND}"\n'), tmp_path / FILE
    (hunt,) = hunts_in(corpus)
    assert not is_recorded(hunt, read_reported(file), REGISTRY)
    report = explore(*parse_command(hunt.command), REGISTRY)
    record_reported(file, hunt, reported(hunt, report, REGISTRY))
    (entry,) = read_reported(file)
    assert (entry.script, entry.protocol, entry.strategy) == ("overtaken", "hasty", "mix")
    assert is_recorded(hunt, [entry], REGISTRY)
    assert not is_recorded(hunt, [msgspec.structs.replace(entry, code="old")], REGISTRY)
    request, _ = parse_command(hunt.command)
    assert not_reported(hunt, explore(request, Budget(entry.after), REGISTRY), REGISTRY) == []
    assert f", after {entry.after} schedules" in findings(corpus, [], REGISTRY, "pictures", [entry])[0]["hasty.md"]
    record_reported(file, hunt, [])
    assert read_reported(file) == []


def entry_of(strategy: str, after: int, cause: str = "") -> Reported:
    return Reported("a script", "eomp", strategy, "castbed explore eomp", after, "c0de", cause or f"{strategy} {after}")


def test_a_repair_owes_ten_times_what_its_last_flaw_took() -> None:
    found = [entry_of("mix", 30), entry_of("membership", 7_000), entry_of("membership", 48_000)]
    assert owed(found, "eomp") == {"mix": AT_LEAST, "membership": 480_000}
    assert owed([entry_of("mix", 30_000)], "eomp") == {"mix": 300_000}
    again = entry_of("late-copy", 55_000, found[1].cause)  # that flaw was found before
    assert owed([again, *found], "eomp") == owed(found, "eomp")
    assert owed(found, "sb") == {"mix": AT_LEAST}


def test_every_repair_was_explored_ten_times_as_long_as_its_flaws_took_to_find() -> None:
    """After another corpus or search: benchmarks/explore_published.py, then benchmarks/explore_repaired.py."""
    found, explored = read_reported(PAGES / FILE), read_explored(PAGES / "explored.json")
    for protocol in {one.protocol for one in found if "repaired" in REGISTRY.protocols.get(one.protocol, "").variants}:
        done = explored_with(explored, protocol, "repaired")
        lacking = {one: wanted for one, wanted in owed(found, protocol).items() if done.get(one, 0) < wanted}
        assert lacking == {}, f"{protocol}: {done}"


def test_the_page_says_how_long_the_repair_was_explored(tmp_path: Path) -> None:
    """Both numbers, and nothing of explorations that found something, of other seeds or with less freedom."""
    request = Request("eomp", "repaired", strategy="membership")
    explored = [msgspec.structs.replace(nothing_yet(request, "c0de"), schedules=470_000)]
    explored.append(msgspec.structs.replace(explored[0], seed=2, schedules=99))
    explored.append(msgspec.structs.replace(explored[0], strategy="mix", schedules=77, kinds=1))
    found = [entry_of("membership", 48_000), entry_of("mix", 12)]
    page = findings(tmp_path, explored, REGISTRY, "pictures", found)[0]["eomp.md"]
    assert "| `membership` | 48 000 schedules | 470 000 schedules |" in page
    assert "| `mix` | 12 schedules | 0 schedules |" in page


def test_what_was_explored_with_older_code_says_so(tmp_path: Path) -> None:
    assert "survived 1 200 schedules (explored with older code)" in page_on(tmp_path)
    fresh = nothing_yet(Request("hasty", "published"), code_of(REGISTRY, "hasty", "published"))
    assert OLD not in findings(corpus_of(tmp_path), [fresh], REGISTRY, "pictures")[0]["hasty.md"]


def test_a_plugin_that_is_one_module_has_code_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parent / "explore_support.py").read_text(encoding="utf-8").partition("REGISTRY:")[0]
    (tmp_path / "lonely.py").write_text(text, encoding="utf-8")
    (tmp_path / "other.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = load_registry(extra={"hasty": import_module("lonely").Plugin()})
    code = code_of(registry, "hasty", "published")
    (tmp_path / "other.py").write_text("1", encoding="utf-8")
    assert code_of(registry, "hasty", "published") == code
    (tmp_path / "lonely.py").write_text(text + "\n", encoding="utf-8")
    assert code_of(registry, "hasty", "published") != code


@pytest.mark.parametrize(
    "wrong", ["castbed run x", "castbed explore sb", "castbed explore sb --variant published --budget 1 --luck"]
)
def test_a_command_that_finds_nothing_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="found_by"):
        parse_command(wrong)


def corpus_of(folder: Path, header: str = ACCOUNT) -> Path:
    text = script(OVERTAKEN, header='expects = ["fifo/wrong-order"]\n' + header)
    (folder / "overtaken.steps").write_text(text, encoding="utf-8")
    return folder


def page_on(folder: Path, header: str = ACCOUNT, *broken: str) -> str:
    entry = msgspec.structs.replace(nothing_yet(Request("hasty", "published"), "c0de"), schedules=1200, broken=broken)
    return findings(corpus_of(folder, header), [entry], REGISTRY, "pictures")[0]["hasty.md"]


def test_a_page_tells_what_is_refuted_and_what_survived(tmp_path: Path) -> None:
    page = page_on(tmp_path)
    assert "1 flaw, of 1 different cause." in page
    assert "| `fifo` | not promised |" not in page
    assert "**refuted** ([1](#1-a-later-message-first))" in page
    assert "survived 1 200 schedules" in page
    assert "B receives Said b from A" in page
    assert "(pictures/overtaken.svg)" in page


def test_what_leaves_the_assumptions_is_counted_apart(tmp_path: Path) -> None:
    page = page_on(tmp_path, ACCOUNT + 'beyond = "A2"\n')
    assert "0 flaws, of 0 different causes. 1 more leaves what the paper assumes or claims." in page
    assert "refuted only beyond what is claimed" in page


def test_what_an_exploration_broke_did_not_survive(tmp_path: Path) -> None:
    assert "broken in exploration; no script of it is kept" in page_on(tmp_path, ACCOUNT, "integrity")


def test_a_script_without_an_account_is_no_finding(tmp_path: Path) -> None:
    assert flaws_in(corpus_of(tmp_path, header=""), REGISTRY) == []


def test_an_exploration_in_two_parts_finds_what_one_does() -> None:
    """A batch is a function of its number, so that the record may be taken up where it ended."""
    request = Request("hasty", "published")
    whole = explore(request, Budget(400), REGISTRY)
    parts = [explore(request, Budget(200, first=first), REGISTRY) for first in (0, 2)]
    assert {one.kind for one in whole.findings} == {one.kind for part in parts for one in part.findings}
    entry = extended(extended(nothing_yet(request, "c0de"), parts[0]), parts[1])
    assert (entry.schedules, entry.broken) == (400, tuple(sorted({one.property for one in whole.findings})))


def test_a_freedom_that_is_taken_away_is_not_used() -> None:
    """The order of sending is all that Hasty needs."""
    request = Request("hasty", "published", without=("air_overtaking",))
    assert explore(request, Budget(400), REGISTRY).findings == ()


def test_an_entry_takes_the_place_of_that_of_older_code(tmp_path: Path) -> None:
    file = tmp_path / "explored.json"
    request = Request("sb", "published")
    for code in ("old", "new"):
        record(file, msgspec.structs.replace(nothing_yet(request, code), schedules=100))
    record(file, nothing_yet(msgspec.structs.replace(request, seed=2), "new"))
    assert [(entry.seed, entry.code) for entry in read_explored(file)] == [(1, "new"), (2, "new")]


def test_the_code_of_a_variant_has_one_name_until_it_changes() -> None:
    assert code_of(REGISTRY, "sb", "published") == code_of(REGISTRY, "sb", "published")
    assert code_of(REGISTRY, "sb", "published") != code_of(REGISTRY, "m2mc", "published")


def test_a_record_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "explored.json").write_text('[{"protocol": 1}]', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="is no record of explorations"):
        read_explored(tmp_path / "explored.json")


def test_the_command_enters_its_result_and_writes_the_pages(tmp_path: Path) -> None:
    done = castbed("explore", "sb", "--budget", "100", "--jobs", "1", "--record", "pages/explored.json", cwd=tmp_path)
    assert (done.returncode, read_explored(tmp_path / "pages" / "explored.json")[0].schedules) == (0, 100)
    done = castbed("findings", CORPUS, "--out", "pages", cwd=tmp_path)
    assert done.returncode == 0
    assert "survived 100 schedules" in (tmp_path / "pages" / "sb.md").read_text(encoding="utf-8")
    assert (tmp_path / "pages" / "figures" / "m2mc-identity-used-again.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("findings", "nowhere"), "there is no folder nowhere"),
        (("explore", "sb", "--without", "x"), "there is no freedom 'x'"),
        (("explore", "sb", "--budget", "1s", "--record", "x"), "--record"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    done = castbed(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr
