"""Runs looked at again: repeated, checked, interrupted, killed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from testbed_command import ENDLESS, captures, castbed, document, experiment, interrupt, stopped_in_mid_run

from castbed_testbed.cli import running
from castbed_testbed.runner import Outcome, run_experiment


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory that tests only read."""
    folder = tmp_path_factory.mktemp("finished")
    done = castbed("run", experiment(folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "castbed-runs" / "lossy-3"


def copied(finished: Path, folder: Path) -> Path:
    """The captures of the finished run, to damage."""
    target = folder / "copy" / "captures"
    target.mkdir(parents=True)
    for name, content in captures(finished).items():
        (target / name).write_bytes(content)
    return target.parent


# --- rerun and check -------------------------------------------------------------------------------------------------


def test_a_rerun_is_the_same_byte_for_byte(tmp_path: Path, finished: Path) -> None:
    done = castbed("rerun", finished, "--out", "again", cwd=tmp_path)
    assert done.returncode == 0
    assert "every capture is the same, byte for byte" in done.stdout
    assert captures(tmp_path / "again") == captures(finished)
    assert document(castbed("rerun", finished, "--out", "again", "--json", cwd=tmp_path))["identical"] is True


def test_a_rerun_goes_beside_the_run_also_from_within(tmp_path: Path) -> None:
    assert castbed("run", experiment(tmp_path), "--out", "there", cwd=tmp_path).returncode == 0
    assert castbed("rerun", ".", cwd=tmp_path / "there").returncode == 0
    assert captures(tmp_path / "there-rerun") == captures(tmp_path / "there")


def test_a_rerun_says_which_captures_differ(tmp_path: Path, finished: Path) -> None:
    copy = copied(finished, tmp_path)
    for name in ("experiment.toml", "manifest.json"):
        (copy / name).write_bytes((finished / name).read_bytes())
    damaged = copy / "captures" / "B.pcapng"
    damaged.write_bytes(damaged.read_bytes()[:-4])
    done = castbed("rerun", copy, cwd=tmp_path)
    assert done.returncode == 1
    assert "different: B.pcapng" in done.stdout


def test_a_rerun_over_the_run_itself_is_refused(tmp_path: Path) -> None:
    assert castbed("run", experiment(tmp_path), "--out", "there", cwd=tmp_path).returncode == 0
    before = captures(tmp_path / "there")
    assert castbed("rerun", "there", "--out", "./there", cwd=tmp_path).returncode == 2
    assert captures(tmp_path / "there") == before


def test_a_check_of_a_run_or_of_its_captures_says_the_same(tmp_path: Path, finished: Path) -> None:
    of_run = castbed("check", finished, cwd=tmp_path)
    of_captures = castbed("check", finished / "captures", cwd=tmp_path)
    assert (of_run.returncode, of_captures.returncode) == (0, 0)
    assert of_run.stdout == of_captures.stdout
    assert "✓ semantic" in of_run.stdout
    assert "Left in" not in of_run.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_check_has_the_figures_of_the_run(tmp_path: Path, finished: Path) -> None:
    checked = document(castbed("check", finished, "--json", cwd=tmp_path))
    kept = json.loads((finished / "summary.json").read_text())
    assert checked["problems"] == []
    for key in ("run", "seed", "submitted", "delivered", "expected", "frames", "properties", "latency_ms"):
        assert checked[key] == kept[key]


def test_a_check_takes_the_properties_that_one_names(tmp_path: Path, finished: Path) -> None:
    done = castbed("check", finished, "--property", "total", "--property", "fifo", "--json", cwd=tmp_path)
    assert set(document(done)["properties"]) == {"total", "fifo"}
    holds = all(found["holds"] for found in document(done)["properties"].values())
    assert done.returncode == (0 if holds else 1)


def test_a_check_of_damaged_captures_says_what_is_missing(tmp_path: Path, finished: Path) -> None:
    copy = copied(finished, tmp_path)
    cut = copy / "captures" / "B.pcapng"
    cut.write_bytes(cut.read_bytes()[:-100])
    (copy / "captures" / "C.pcapng").unlink()
    done = castbed("check", copy, cwd=tmp_path)
    assert done.returncode in (0, 1)
    assert "note: B: cut off at byte " in done.stdout
    assert "note: B: the capture ends before the run did" in done.stdout
    assert "note: C: no capture" in done.stdout
    assert "note: A" not in done.stdout


# --- interruptions ---------------------------------------------------------------------------------------------------


def test_an_interrupted_run_exits_with_130_and_its_captures_can_be_checked(tmp_path: Path) -> None:
    code, said = stopped_in_mid_run(tmp_path, interrupt)
    assert (code, said) == (130, "castbed: interrupted\n")
    checked = document(castbed("check", "run", "--json", cwd=tmp_path))
    assert checked["submitted"] > 0
    assert checked["problems"] == [f"{name}: the capture ends before the run did" for name in "ABC"]


def test_a_killed_run_leaves_captures_that_can_be_checked(tmp_path: Path) -> None:
    code, _ = stopped_in_mid_run(tmp_path, subprocess.Popen.kill)
    assert code == -9
    done = castbed("check", "run", "--json", "--property", "no_duplication", cwd=tmp_path)
    assert done.returncode == 0
    assert document(done)["submitted"] > 0
    assert len(document(done)["problems"]) >= 3


def test_an_interrupted_run_may_be_run_again(tmp_path: Path) -> None:
    stopped_in_mid_run(tmp_path, interrupt)
    path = experiment(tmp_path, ENDLESS, duration="1s")
    assert castbed("run", path, "--out", "run", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("links", "said"),
    [
        (
            {"unsendable": 37, "overrun": 0, "unreceivable": 1, "waited": 9, "small_buffer": 3, "foreign": 2},
            ["  dropped on the links: unsendable 37, unreceivable 1"],
        ),
        ({"out_of_range": 4, "peer_down": 2, "medium_late_us_max": 120, "queue_full": 0}, []),
        ({}, []),
    ],
)
def test_a_run_says_what_its_links_lost(
    links: dict[str, int], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_links(*arguments: Any) -> Outcome:
        outcome = run_experiment(*arguments)
        outcome.summary["links"] = links
        return outcome

    monkeypatch.setattr(running, "run_experiment", on_links)
    done = castbed("run", experiment(tmp_path), "--out", "run", cwd=tmp_path)
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if "links" in line] == said
