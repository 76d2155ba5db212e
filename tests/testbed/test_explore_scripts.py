"""Scripts are text that people read and edit: written and read back alike, and every mistake names its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from explore_support import REGISTRY, parse, script
from hypothesis import given
from hypothesis import strategies as st

from castbed import ConfigurationError
from castbed_testbed.explore import steps as said
from castbed_testbed.explore.arena import Setup
from castbed_testbed.explore.corpus import scripts_in, violated_by, what_changed
from castbed_testbed.explore.freedoms import needs_in_words
from castbed_testbed.explore.judging import arena_of, label
from castbed_testbed.explore.naming import timer_text
from castbed_testbed.explore.playback import play
from castbed_testbed.explore.replaying import replay
from castbed_testbed.explore.script import Script, read, write
from castbed_testbed.explore.steps import parse_step, words

CORPUS = Path(__file__).parents[1] / "corpus"

names = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,3}", fullmatch=True)
copies = (names, names, names, st.one_of(st.just(""), names), st.integers(1, 120))
any_step = st.one_of(
    st.builds(said.Submits, names, names, st.sampled_from(["1", "2", "1.C"]), st.one_of(st.just(""), names)),
    st.builds(said.Asks, names, st.just("create-group"), st.just((("desc", "talk"),))),
    st.builds(said.Asks, names, st.sampled_from(["join", "leave"]), st.just((("group", "1"),))),
    st.builds(said.Asks, names, st.just("advertise")),
    *(st.builds(kind, *copies) for kind in (said.Receives, said.Lost, said.Duplicated)),
    st.builds(said.Fires, names, st.sampled_from(["T_REQ", "group-1/digest", "msp1/sync/SyncId(pid=3,number=1)"])),
    st.builds(said.Moves, names, names),
    *(st.builds(kind, names) for kind in (said.GoesAway, said.ComesBack, said.Crashes)),
    st.builds(said.Restarts, names, st.booleans()),
    st.builds(said.Arrives, st.lists(st.tuples(names, names), max_size=3).map(tuple)),
    st.just(said.TimePasses()),
)


@given(any_step)
def test_every_step_reads_back_as_itself(step: said.Step) -> None:
    assert parse_step(words(step)) == step


@given(st.lists(any_step, max_size=6), st.booleans(), st.lists(st.sampled_from(["fifo/wrong-order", "total"])))
def test_every_script_reads_back_as_itself(steps: list[said.Step], settles: bool, expects: list[str]) -> None:
    topology = {"kind": "three_tier", "hosts": {"h1": "S1"}, "coordinators": {"C1": ["S1"]}, "groups": {"1": ["h1"]}}
    setup = Setup("eomp", "published", topology, {"nack_period": "1s", "cache_size": 3}, seed=7)
    written = Script(setup, tuple(steps), settles, tuple(expects), ("needs a crash",))
    assert parse(write(written)) == written


def test_ordinals_are_english() -> None:
    shown = [said.ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 102, 112)]
    assert shown == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "112th"]


def test_comments_and_empty_lines_say_nothing() -> None:
    assert parse(script("# first\n\nA submits a to 1  # and why\nthen everything settles")).steps == (
        said.Submits("A", "a", "1"),
    )


def test_within_a_word_nothing_begins_a_comment() -> None:
    steps = parse(script("A's again#1 fires # and why\n\t# nothing\nA submits a#b to 1\t# a tab, too")).steps
    assert steps == (said.Fires("A", "again#1"), said.Submits("A", "a#b", "1"))


def test_a_timer_has_a_name_that_is_one_word() -> None:
    """Whatever protocols call their timers, the step reads back as itself."""
    for name in ("again#1", "# 1", "a\tb\nc", ("a b", "#2")):
        step = said.Fires("A", timer_text(name))
        assert parse(script(words(step))).steps == (step,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (script("A submits a to 1\nA flies away"), "line 6: 'A flies away' is no step"),
        (script("then everything settles\nA crashes"), "line 6: nothing comes after 'then everything settles'"),
        ("protocol = {}\n", "has no line 'steps:'"),
        ("protocol = \nsteps:\n", "is not TOML above its steps"),
        (script("A crashes", header="colour = 3"), "colour"),
        (script("A crashes", header='allows = ["luck"]'), "allows: there is no freedom 'luck'"),
        ('protocol = { name = "sb" }\ntopology = {}\nsteps:\n', "protocol.variant: a script says which"),
    ],
)
def test_a_mistake_is_named_where_it_is(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem.replace("(", r"\(")):
        parse(text)


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ("D submits a to 1", r"step 1 \(D submits a to 1\): there is no node 'D'"),
        ("A submits a to x", r"step 1 .*'x' is no group"),
        ("A receives Shout from B", r"there is no packet 'Shout' \(there are: Said\)"),
        ("A joins 1", r"there is no command 'join' \(there are: none\)"),
        ("A submits a to 1\nB receives Said b from A", r"step 2 .*: cannot happen here"),
        (
            "A submits a to 1\nSaid a from A to B is lost",
            r"uses loss on the air, which the model of hasty \(published\)",
        ),
        ("A crashes", r"uses a crash, which the model"),
        ("A goes out of range", r"uses a node out of range, which the model"),
    ],
)
def test_a_step_that_cannot_happen_is_refused(steps: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        violated_by(parse(script(steps)), REGISTRY)


def test_a_script_may_allow_what_the_model_rules_out() -> None:
    beyond = parse(script("A submits a to 1\nA crashes", header='allows = ["crash"]'))
    assert parse(write(beyond)) == beyond
    assert violated_by(beyond, REGISTRY) == ()


def test_of_several_copies_the_first_is_meant_unless_the_step_says_which() -> None:
    """Two copies of `a` for B: the second one may arrive first where the air keeps no order."""
    careless = "A submits a to 1\nSaid a from A to B is duplicated\n"
    first = parse(script(careless + 2 * "B receives Said a from A\n", variant="careless"))
    second = parse(script(careless + "B receives 2nd Said a from A", variant="careless"))
    assert violated_by(first, REGISTRY) == ("no_duplication/repeated",)
    with pytest.raises(ConfigurationError, match="overtaking on the air"):
        violated_by(second, REGISTRY)


@pytest.mark.parametrize(("end", "violated"), [("", ()), ("then everything settles", ("agreement/missing",))])
def test_what_is_missing_is_missing_at_the_end_only(end: str, violated: tuple[str, ...], tmp_path: Path) -> None:
    """Both ways to play a script: for its outcome, and as a run."""
    lost = parse(script(f"A submits a to 1\nSaid a from A to B is lost\n{end}", variant="careless"))
    assert violated_by(lost, REGISTRY) == play(lost, REGISTRY, "lost", tmp_path / "run").violated == violated


def test_a_script_is_judged_by_what_it_expects_besides_the_guarantees(tmp_path: Path) -> None:
    """Hasty promises nothing about answers; a script that expects one too early is about that all the same."""
    steps = "A submits a to 1\nB receives Said a from A\nB submits b to 1 answering a\nC receives Said b from B"
    expecting = parse(script(steps, header='expects = ["semantic/parent-later"]'))
    assert violated_by(parse(script(steps)), REGISTRY) == ()
    assert violated_by(expecting, REGISTRY) == ()
    late = parse(script(steps + "\nC receives Said a from A", header='expects = ["semantic/parent-later"]'))
    played = play(late, REGISTRY, "late", tmp_path / "run")
    assert violated_by(late, REGISTRY) == played.violated == late.expects
    assert played.outcome.summary["properties"]["semantic"]["holds"] is False


@pytest.mark.parametrize("path", scripts_in(CORPUS), ids=lambda path: path.stem)
def test_the_scripts_of_the_corpus_do_what_they_expect(path: Path) -> None:
    assert what_changed(path, REGISTRY) == ""


@pytest.mark.parametrize("path", scripts_in(CORPUS), ids=lambda path: path.stem)
def test_the_scripts_of_the_corpus_say_what_they_need(path: Path) -> None:
    read_ = read(path)
    where = arena_of(read_, REGISTRY)
    used = replay(where, read_.steps, read_.settles).used
    assert list(read_.needs) == (needs_in_words(used, where.possible) if read_.expects else [])


@pytest.mark.parametrize("path", scripts_in(CORPUS), ids=lambda path: path.stem)
def test_no_step_of_the_corpus_is_one_too_many(path: Path) -> None:
    """Without any one of them, or without the end, the script does not break all that it breaks."""
    whole = read(path)
    where, broken = arena_of(whole, REGISTRY), set(whole.expects)
    if not broken:
        return
    for at in range(len(whole.steps)):
        rest = whole.steps[:at] + whole.steps[at + 1 :]
        left = {label(one) for one in replay(where, rest, whole.settles).violations}
        assert not broken <= left, f"does without step {at + 1} ({words(whole.steps[at])})"
    if whole.settles:
        assert not broken <= {label(one) for one in replay(where, whole.steps, False).violations}


def test_the_corpus_is_there() -> None:
    assert len(scripts_in(CORPUS)) >= 6


def test_a_changed_outcome_is_told(tmp_path: Path) -> None:
    path = tmp_path / "changed.steps"
    text = (CORPUS / "sb-answer-before-its-question.steps").read_text(encoding="utf-8")
    path.write_text(text.replace("\nsteps:", 'expects = ["semantic/parent-later"]\nsteps:'), encoding="utf-8")
    assert what_changed(path, REGISTRY) == "expects semantic/parent-later to be violated; now it is nothing"


def test_a_script_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read(tmp_path / "missing.steps")
