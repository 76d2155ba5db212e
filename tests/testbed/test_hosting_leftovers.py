"""What dead runs leave is found and removed; what living ones use is not touched."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import pytest
from testbed_command import castbed, document

from castbed_testbed.hosting import leftovers
from castbed_testbed.hosting.leftovers import PREFIX, RunDirectory, remove_leftovers


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def dead_run() -> Path:
    """The directory of a run that was killed with everything that it had started."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, str(RunDirectory().path).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading, encoding="utf-8") as told:
        return Path(told.read())


def test_a_directory_is_in_use_until_its_run_is_over() -> None:
    run = RunDirectory()
    assert remove_leftovers() == []
    assert run.path.is_dir()
    run.close()
    assert not run.path.exists()


def test_a_directory_is_in_use_while_any_process_of_its_run_lives() -> None:
    reading, writing = os.pipe()
    run = RunDirectory()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(run._lock)
    assert remove_leftovers() == []
    os.close(writing)
    os.waitpid(child, 0)
    assert remove_leftovers() == [run.path]
    os.close(reading)


def test_the_directory_of_a_killed_run_is_removed() -> None:
    left = dead_run()
    assert left.is_dir()
    assert leftovers.leftovers() == [left] == remove_leftovers()
    assert not left.exists()


def test_a_directory_that_was_never_locked_is_removed_when_it_is_old(temporary: Path) -> None:
    fresh, old = temporary / f"{PREFIX}fresh", temporary / f"{PREFIX}old"
    fresh.mkdir()
    old.mkdir()
    os.utime(old, (0, time.time() - leftovers.UNLOCKED_S_MAX - 1))
    assert remove_leftovers() == [old]


def test_directories_of_others_are_left_alone(temporary: Path) -> None:
    other, link = temporary / "castbed-something", temporary / f"{PREFIX}link"
    other.mkdir()
    link.symlink_to(other)
    os.utime(other, (0, 0))
    assert remove_leftovers() == []


def test_the_doctor_names_leftovers_and_removes_them_when_asked_to(tmp_path: Path) -> None:
    left = dead_run()
    for arguments, found, words in (
        ((), False, f"{left}; `castbed doctor --clean`"),
        (("--clean",), True, f"removed {left}"),
        ((), True, "nothing is left of dead runs"),
    ):
        findings = document(castbed("doctor", "--json", *arguments, cwd=tmp_path))["findings"]
        finding = next(finding for finding in findings if finding["what"] == "leftovers")
        assert finding["found"] is found
        assert finding["detail"].startswith(words)
