"""Runs on real sockets, in this process and in one of their own, and what they leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w

from castbed import History, Kind, load_registry
from castbed_testbed.experiment import load, load_file
from castbed_testbed.runner import Outcome, run_experiment
from interruptions import heed_interruptions

EXAMPLES = Path(__file__).parent.parent / "examples"
SECONDS_MAX = 60
MARK = "CASTBED_TEST_MARK"

CHAT: dict[str, Any] = {
    "name": "chat",
    "protocol": {"name": "sb"},
    "duration": "1s",
    "drain": "2s",
    "topology": {"kind": "broadcast", "members": ["A", "B", "C"]},
    "workload": {"kind": "steady", "rate": 10, "count": 6},
}
CELLS: dict[str, Any] = {
    "name": "cells",
    "protocol": {"name": "eomp", "variant": "published"},
    "duration": "1s",
    "drain": "2s",
    "topology": {
        "kind": "three_tier",
        "coordinators": {"C1": ["S1", "S2"], "C2": ["S3"]},
        "hosts": {"anna": "S1", "bert": "S2", "cora": "S3"},
    },
    "workload": {"kind": "steady", "rate": 10, "count": 5},
    "faults": {"handoffs": [{"host": "anna", "at": "500ms", "to": "S3"}]},
}


def run_on(
    transport: str,
    data: dict[str, Any],
    out: Path,
    options: dict[str, Any] | None = None,
    extra: Mapping[str, object] | None = None,
) -> Outcome:
    """The experiment on this transport, judged."""
    named = {"name": transport, "options": options or {}}
    return run_experiment(load({**data, "transport": named}), load_registry(extra), out / transport)


def example_on(transport: str, name: str, out: Path, *settings: str) -> Outcome:
    """An example with some keys set otherwise."""
    chosen = (f"transport.name={transport}", *settings)
    return run_experiment(load_file(EXAMPLES / f"{name}.toml", chosen), load_registry(), out / transport)


def delivered_sets(outcome: Outcome) -> dict[str, set[str]]:
    """What each node delivered."""
    history = outcome.history
    assert history is not None
    return {
        history.name(node): {history.mid_text(event.mid) for event in events}
        for node, events in history.deliveries.items()
    }


def verdicts(outcome: Outcome) -> dict[str, bool]:
    return {name: not found for name, found in outcome.violations.items()}


def kinds_of(history: History, node: str) -> list[Kind]:
    """What happened at one node, without the deliveries."""
    number = history.identity.names.index(node) + 1
    return [event.kind for event in history.by_node[number]]


class Running:
    """A `castbed run` in a process of its own; all processes that it starts carry a mark."""

    def __init__(self, process: subprocess.Popen[str], mark: str, captures: Path) -> None:
        self.process = process
        self.captures = captures
        self._mark = f"{MARK}={mark}".encode()

    def processes(self) -> set[int]:
        """All processes of the run that are alive."""
        return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and self._is_marked(path)}

    def _is_marked(self, path: Path) -> bool:
        try:
            is_zombie = (path / "stat").read_text(encoding="latin-1").rpartition(")")[2].split()[0] == "Z"
            return not is_zombie and self._mark in (path / "environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def process_of(self, node: str) -> int:
        """The process that has the node's capture open."""
        target = str(self.captures / f"{node}.pcapng")
        return next(process for process in self.processes() if target in _open_files(process))

    def wait_for_deliveries(self) -> None:
        """Until every node has written some hundred bytes, or the time is up."""
        wait_until(lambda: self._have_grown() or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate()

    def _have_grown(self) -> bool:
        files = list(self.captures.glob("*.pcapng"))
        return bool(files) and all(path.stat().st_size > 4_000 for path in files)

    def is_gone(self) -> bool:
        """Whether no process is left; waits for it a little."""
        return wait_until(lambda: not self.processes())

    def finish(self) -> tuple[int, str, str]:
        out, error = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, out, error


def wait_until(true: Any) -> bool:
    until = time.monotonic() + SECONDS_MAX
    while time.monotonic() < until:
        if true():
            return True
        time.sleep(0.02)
    return False


def _open_files(process: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        try:
            found.add(os.readlink(link))
        except OSError:
            continue
    return found


@contextmanager
def running(data: dict[str, Any], folder: Path, *arguments: str) -> Iterator[Running]:
    """Start the experiment in `folder`/run; whatever the test does, nothing of it is left afterwards."""
    path, mark = folder / "experiment.toml", uuid.uuid4().hex
    path.write_text(tomli_w.dumps(data), encoding="utf-8")
    command = [sys.executable, "-m", "castbed", "run", str(path), "--out", "run", "--json", *arguments]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", MARK: mark}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed_interruptions
    )
    started = Running(process, mark, folder / "run" / "captures")
    try:
        yield started
    finally:
        for left in started.processes():
            try:
                os.kill(left, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.communicate()


def summary_of(text: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(text)
    return read
