"""`castbed explore` and `castbed run SCRIPT` on the command line: exit codes, JSON, scripts, run directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from testbed_command import castbed

from castbed_testbed.explore.script import read

CORPUS = Path(__file__).parents[1] / "corpus"
KEYS = {"protocol", "variant", "schedules", "wall_s", "violations"}
VIOLATION_KEYS = {"property", "kind", "steps", "needs", "script", "witness"}


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
