"""The `castbed` command, in this process where that is enough and in one of its own where not, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from castbed_testbed.cli import main
from interruptions import heed_interruptions

SECONDS_MAX = 60
EXAMPLES = Path(__file__).parents[2] / "examples"
LOSSY = {
    "name": "lossy",
    "protocol": {"name": "sb"},
    "seed": 3,
    "duration": "2s",
    "topology": {"kind": "broadcast", "members": ["A", "B", "C"]},
    "workload": {"kind": "steady", "rate": 5, "replies": 0.5},
    "faults": {"loss": 0.2},
}
ENDLESS = {**LOSSY, "name": "endless", "duration": "1000h", "workload": {"kind": "steady", "rate": 50, "size": "2KiB"}}


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **more}


def python(*arguments: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python with `arguments`; `more` is added to its environment."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def castbed(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, which is quicker."""
    out, error, code = StringIO(), StringIO(), 0
    with redirect_stdout(out), redirect_stderr(error), chdir(cwd), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["castbed", *map(str, arguments)])
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 0
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), error.getvalue())


def castbed_process(*arguments: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, with `more` in its environment."""
    return python("-m", "castbed", *map(str, arguments), cwd=cwd, **more)


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON document that a command printed, and nothing besides it."""
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def experiment(folder: Path, data: dict[str, Any] = LOSSY, **changes: Any) -> Path:
    """An experiment file in `folder`."""
    path = folder / "experiment.toml"
    path.write_text(tomli_w.dumps({**data, **changes}), encoding="utf-8")
    return path


def captures(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((run / "captures").glob("*.pcapng"))}


def stopped_in_mid_run(cwd: Path, stop: Callable[[subprocess.Popen[str]], None]) -> tuple[int, str]:
    """Start an endless run in `cwd`/run, `stop` it when its captures grow; returns its exit code and its stderr."""
    command = [sys.executable, "-m", "castbed", "run", str(experiment(cwd, ENDLESS)), "--out", "run"]
    pipe = subprocess.PIPE
    heed = heed_interruptions
    with subprocess.Popen(
        command, cwd=cwd, env=environment(), stdout=pipe, stderr=pipe, text=True, preexec_fn=heed
    ) as process:
        try:
            _wait_for_captures(cwd / "run" / "captures", process)
            stop(process)
            _, said = process.communicate(timeout=SECONDS_MAX)
        finally:
            process.kill()
    return process.returncode, said


def _wait_for_captures(folder: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + SECONDS_MAX
    while time.monotonic() < until and process.poll() is None:
        files = list(folder.glob("*.pcapng"))
        if files and all(path.stat().st_size > 10_000 for path in files):
            return
        time.sleep(0.02)
    raise AssertionError("the run wrote no captures")


def interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
