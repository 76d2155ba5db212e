"""Keepers of cores: one per core, of the lowest priority, gone with who wanted them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from castbed_testbed.hosting.wakefulness import cores_awake
from interruptions import heed_interruptions

GONE_S_MAX = 10.0
HOLDER = """
import time
from castbed_testbed.hosting.wakefulness import cores_awake
with cores_awake():
    print("awake", flush=True)
    time.sleep(60)
"""


def children(of: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{of}/task/{of}/children").read_text(encoding="ascii").split()]


def state(process: int) -> str:
    """R for one that runs or would; empty for one that is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="latin-1").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def until(what: object) -> None:
    ends = time.monotonic() + GONE_S_MAX
    while not what():  # type: ignore[operator]
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_each_core_has_a_keeper_that_gives_way_to_everybody() -> None:
    before = set(children(os.getpid()))
    with cores_awake():
        keepers = set(children(os.getpid())) - before
        until(lambda: all(os.sched_getscheduler(keeper) == os.SCHED_IDLE for keeper in keepers))
        until(lambda: {*map(frozenset, map(os.sched_getaffinity, keepers))} == {
            frozenset({core}) for core in os.sched_getaffinity(0)
        })  # fmt: skip
        assert len(keepers) == len(os.sched_getaffinity(0))
        assert {state(keeper) for keeper in keepers} == {"R"}
    assert not set(children(os.getpid())) & keepers


def test_nobody_is_kept_awake_who_does_not_want_it() -> None:
    before = children(os.getpid())
    with cores_awake(wanted=False):
        assert children(os.getpid()) == before


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_keepers_do_not_outlive_a_controller_that_is_killed(by: signal.Signals) -> None:
    command, pipe, heed = [sys.executable, "-c", HOLDER], subprocess.PIPE, heed_interruptions
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, preexec_fn=heed) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"awake\n"
        keepers = children(holder.pid)
        assert keepers
        holder.send_signal(by)
    until(lambda: not any(state(keeper) in {"R", "S"} for keeper in keepers))
