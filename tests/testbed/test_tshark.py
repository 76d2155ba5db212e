"""tshark opens every capture of every example, finds nothing malformed, and with our dissector tells what is in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from testbed_command import EXAMPLES, SECONDS_MAX, castbed

from castbed.capture import read_captures
from castbed.registry import load_registry
from castbed_testbed.experiment import load_file
from castbed_testbed.runner import run_experiment

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
NODES_READ_MAX = 20  # of a run with hundreds of nodes, the first ones
WRONG = ("_ws.malformed", "_ws.lua.error", "_ws.expert.message")


def tshark(*arguments: str) -> str:
    done = subprocess.run(
        ["tshark", *arguments], capture_output=True, text=True, timeout=SECONDS_MAX, check=False, errors="replace"
    )
    complaints = [line for line in done.stderr.splitlines() if "superuser" not in line and "root" not in line]
    assert (done.returncode, [line for line in complaints if line.strip()]) == (0, []), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dissector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dissector")
    assert castbed("dissector", "--out", "castbed.lua", cwd=folder).returncode == 0
    return folder / "castbed.lua"


@pytest.fixture(scope="module")
def two_questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two-questions")
    run_experiment(load_file(EXAMPLES / "two-questions.toml"), load_registry(), folder / "run")
    return folder / "run" / "captures"


@pytest.mark.parametrize("example", sorted(path.stem for path in EXAMPLES.glob("*.toml")))
def test_tshark_reads_the_captures_of_an_example(tmp_path: Path, dissector: Path, example: str) -> None:
    """All at once, because a start of tshark takes a while: pcapng files may be joined end to end."""
    run_experiment(load_file(EXAMPLES / f"{example}.toml"), load_registry(), tmp_path / "run")
    read = read_captures(tmp_path / "run")[:NODES_READ_MAX]
    joined = tmp_path / "joined.pcapng"
    joined.write_bytes(b"".join(capture.path.read_bytes() for capture in read))
    fields = [option for name in ("frame.protocols", *WRONG) for option in ("-e", name)]
    rows = tshark("-r", str(joined), "-X", f"lua_script:{dissector}", "-T", "fields", *fields).splitlines()
    assert len(rows) == sum(len(capture.events) + len(list(capture.frames)) for capture in read) > 0
    assert [row for row in rows if "castbed" not in row.split("\t")[0] or any(row.split("\t")[1:])] == []


def test_tshark_reads_a_capture_without_our_dissector(two_questions: Path) -> None:
    capture = read_captures(two_questions)[0]
    listed = tshark("-r", str(capture.path), "-T", "fields", "-e", "frame.protocols").splitlines()
    assert len(listed) == len(capture.events) + len(list(capture.frames))
    assert sum(line.startswith("eth:") for line in listed) == len(list(capture.frames))


def test_the_dissector_prints_identities_and_local_events(two_questions: Path, dissector: Path) -> None:
    printed = tshark("-X", f"lua_script:{dissector}", "-r", str(two_questions / "C.pcapng")).splitlines()
    told = [line.partition("CASTBED")[2].split(maxsplit=1)[1] for line in printed]
    assert (told[0], told[-1]) == ("START", "STOP")
    for line in ("SUBMIT 3.1", "SUBMIT 3.2", "DELIVER 3.1", "DELIVER 1.1", "DELIVER 2.1"):
        assert told.count(line) == 1
    assert "sb Data 3.2 group 1 control 2 payload 20" in told
