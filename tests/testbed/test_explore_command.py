"""`castbed explore` and `castbed run SCRIPT` on the command line: exit codes, JSON, scripts, run directories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from testbed_command import castbed

from castbed import ConfigurationError
from castbed_testbed.explore.script import read

CORPUS = Path(__file__).parents[1] / "corpus"
KEYS = {"protocol", "variant", "schedules", "wall_s", "networks", "exhausted", "violations"}
VIOLATION_KEYS = {"property", "kind", "steps", "needs", "after", "finished", "script", "witness"}


def test_what_is_found_is_told_as_json_and_left_as_scripts(tmp_path: Path) -> None:
    wanted = ("--variant", "published", "--property", "no_duplication", "--budget", "400", "--jobs", "1")
    done = castbed("explore", "eomp", *wanted, "--json", "--out", "found", cwd=tmp_path)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert set(document) == KEYS
    assert (document["protocol"], document["variant"], document["schedules"]) == ("eomp", "published", 400)
    assert document["violations"]
    for violation in document["violations"]:
        assert set(violation) == VIOLATION_KEYS
        assert violation["property"] == "no_duplication"
        assert violation["finished"]
        assert 0 < violation["after"] <= 400
        assert len(read(tmp_path / violation["script"]).steps) == violation["steps"]


def test_nothing_found_is_success(tmp_path: Path) -> None:
    done = castbed("explore", "sb", "--budget", "200", "--jobs", "1", cwd=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (0, [])
    assert "200 schedules" in done.stdout
    assert "nothing that it guarantees was violated" in done.stdout


def test_words_show_the_steps_and_how_to_play_them(tmp_path: Path) -> None:
    wanted = ("--variant", "published", "--property", "no_duplication", "--budget", "400", "--jobs", "1")
    done = castbed("explore", "eomp", *wanted, cwd=tmp_path)
    assert " submits " in done.stdout
    assert "castbed run castbed-runs/explore-eomp-published/01-no_duplication.steps" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nobody",), "there is no protocol 'nobody'"),
        (("sb", "--variant", "x"), "--variant"),
        (("sb", "--property", "x"), "--property"),
        (("sb", "--budget", "x"), "--budget"),
        (("sb", "--model", "hosts=3"), "--model"),
        (("sb", "--strategy", "x"), "--strategy"),
        (("sb", "--model", "steps=1"), "--model: steps has to be at least 5"),
        (("sb", "--allow", "x"), "--allow: there is no freedom 'x'"),
    ],
)
def test_what_cannot_be_explored_is_refused(arguments: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    done = castbed("explore", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr


def test_what_the_model_rules_out_is_tried_only_on_demand(tmp_path: Path) -> None:
    """S_B as published needs a reliable air; with losses it breaks, and the script says that it goes beyond."""
    wanted = ("--variant", "published", "--budget", "200", "--jobs", "1", "--allow", "air_loss", "--json")
    done = castbed("explore", "sb", *wanted, "--out", "found", cwd=tmp_path)
    assert done.returncode == 1
    found = json.loads(done.stdout)["violations"]
    assert any("needs loss on the air" in violation["needs"] for violation in found)
    assert read(tmp_path / found[0]["script"]).setup.allows == ("air_loss",)
    assert castbed("run", found[0]["script"], cwd=tmp_path).returncode == 1


def test_an_experiment_file_says_where_to_explore(tmp_path: Path) -> None:
    text = 'name = "x"\nduration = "1s"\nprotocol = { name = "sb" }\ntopology = { members = ["P", "Q"] }\n'
    (tmp_path / "two.toml").write_text(text, encoding="utf-8")
    done = castbed("explore", "sb", "--model", "two.toml", "--budget", "50", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0
    done = castbed("explore", "m2mc", "--model", "two.toml", "--budget", "50", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert "is about sb, not m2mc" in done.stderr


def test_the_variant_of_an_experiment_file_counts(tmp_path: Path) -> None:
    text = 'name = "x"\nduration = "1s"\ntopology = { members = 2 }\nprotocol = { name = "sb", variant = "published" }'
    (tmp_path / "two.toml").write_text(text, encoding="utf-8")
    wanted = ("explore", "sb", "--model", "two.toml", "--budget", "50", "--jobs", "1", "--json")
    assert json.loads(castbed(*wanted, cwd=tmp_path).stdout)["variant"] == "published"
    assert json.loads(castbed(*wanted, "--variant", "published", cwd=tmp_path).stdout)["variant"] == "published"
    done = castbed(*wanted, "--variant", "repaired", cwd=tmp_path)
    assert done.returncode == 2
    assert "--variant: is 'repaired', but protocol.variant in two.toml is 'published'" in done.stderr


def test_only_scripts_of_an_earlier_exploration_make_room(tmp_path: Path) -> None:
    wanted = ("--budget", "100", "--jobs", "1", "--out", "found")
    (tmp_path / "found").mkdir()
    for name in ("01-fifo.steps", "mine.steps", "01-fifo.txt", "1-fifo.steps"):
        (tmp_path / "found" / name).write_text("steps:\n", encoding="utf-8")
    assert castbed("explore", "sb", *wanted, cwd=tmp_path).returncode == 0
    assert {path.name for path in (tmp_path / "found").iterdir()} == {"mine.steps", "01-fifo.txt", "1-fifo.steps"}


def test_an_exhaustive_search_says_how_much_is_left(tmp_path: Path) -> None:
    wanted = ("explore", "sb", "--variant", "published", "--strategy", "exhaustive", "--budget", "600", "--jobs", "1")
    found = json.loads(castbed(*wanted, "--json", cwd=tmp_path).stdout)
    assert 0 < found["exhausted"] <= found["networks"]
    told = castbed(*wanted, cwd=tmp_path).stdout
    assert f"{found['exhausted']} of {found['networks']} networks exhausted" in told


def test_of_a_script_that_does_not_settle_all_commands_believe_the_same(tmp_path: Path) -> None:
    """What is missing may still come: nothing is violated, and no witness is kept."""
    text = (CORPUS / "sb-answer-before-its-question.steps").read_text(encoding="utf-8")
    (tmp_path / "begun.steps").write_text(text.partition("steps:")[0] + "steps:\nA submits a to 1\n", encoding="utf-8")
    done = castbed("run", "begun.steps", "--out", "run", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert all(verdict["holds"] for verdict in json.loads(done.stdout)["properties"].values())
    assert not (tmp_path / "run" / "witnesses").exists()
    assert castbed("rerun", "run", cwd=tmp_path).returncode == 0
    assert castbed("check", "run", cwd=tmp_path).returncode == 0


def test_a_script_that_breaks_more_than_it_expects_is_not_as_expected(tmp_path: Path) -> None:
    path = CORPUS / "eomp-request-repeated-in-another-region.steps"
    text = path.read_text(encoding="utf-8").replace('"no_duplication/repeated", ', "")
    (tmp_path / "more.steps").write_text(text, encoding="utf-8")
    done = castbed("run", "more.steps", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert not json.loads(done.stdout)["as_expected"]


def test_the_fixture_takes_the_options_of_the_command(castbed_explore: Callable[..., None]) -> None:
    castbed_explore("sb", "published", schedules=100, strategy="delays", model="members=2,messages=2")
    with pytest.raises(pytest.fail.Exception, match="needs loss on the air"):
        castbed_explore("sb", "published", schedules=200, properties=["liveness"], allow=["air_loss"])
    with pytest.raises(ConfigurationError, match="--strategy"):
        castbed_explore("sb", strategy="luck")


def test_a_script_leaves_a_run_like_any_other(tmp_path: Path) -> None:
    path = CORPUS / "eomp-request-repeated-in-another-region.steps"
    done = castbed("run", path, "--json", "--out", "run", cwd=tmp_path)
    assert done.returncode == 1
    summary = json.loads(done.stdout)
    assert summary["as_expected"]
    assert not summary["properties"]["no_duplication"]["holds"]
    assert summary["properties"]["validity"]["holds"]
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left == {"captures", "manifest.json", "script.steps", "summary.json", "witnesses"}
    checked = castbed("check", "run", "--json", cwd=tmp_path)
    assert json.loads(checked.stdout)["problems"] == []
    assert json.loads(checked.stdout)["properties"] == summary["properties"]


def test_a_script_is_repeated_byte_for_byte(tmp_path: Path) -> None:
    castbed("run", CORPUS / "m2mc-copy-after-recovery.steps", "--out", "run", cwd=tmp_path)
    done = castbed("rerun", "run", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["identical"]


def test_a_script_in_which_all_holds_is_success(tmp_path: Path) -> None:
    done = castbed("run", CORPUS / "sb-answer-before-its-question.steps", cwd=tmp_path)
    assert done.returncode == 0
    assert "Violated: nothing; as the script expects" in done.stdout


def test_a_script_that_expects_in_vain_fails(tmp_path: Path) -> None:
    text = (CORPUS / "sb-answer-before-its-question.steps").read_text(encoding="utf-8")
    changed = tmp_path / "vain.steps"
    changed.write_text(text.replace("\nsteps:", 'expects = ["semantic/parent-later"]\nsteps:'), encoding="utf-8")
    done = castbed("run", changed, cwd=tmp_path)
    assert done.returncode == 1
    assert "not what the script expects" in done.stdout


def test_a_script_takes_no_settings(tmp_path: Path) -> None:
    done = castbed("run", CORPUS / "sb-answer-before-its-question.steps", "--seed", "3", cwd=tmp_path)
    assert done.returncode == 2
    assert "says everything itself" in done.stderr
