"""The same experiment in another process, where hashes and addresses differ: what depends on them shows.

`python -m castbed_testbed.elsewhere < experiment.toml` prints the fingerprint of the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from castbed.errors import ConfigurationError
from castbed.history import LocalEvent
from castbed.registry import load_registry
from castbed_testbed.experiment import Loaded, load
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import MemoryRecorder
from castbed_testbed.sim.runner import simulate

SECONDS_MAX = 120  # many times what a trial of the conformance kit takes
HASH_SEEDS = ("1", "2")


def fingerprint(events: Sequence[LocalEvent]) -> str:
    """Equal for equal events."""
    return sha256(msgspec.json.encode(events)).hexdigest()


def fingerprint_elsewhere(loaded: Loaded) -> str | None:
    """The fingerprint of the run in a new process; None if that has no such protocol, because it is not installed."""
    mine = os.environ.get("PYTHONHASHSEED")
    other = next(seed for seed in HASH_SEEDS if seed != mine)
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=loaded.toml(),
        env={**os.environ, "PYTHONHASHSEED": other},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return None if done.returncode == ConfigurationError.exit_code else done.stdout.strip()


def _main() -> int:
    experiment = load(tomllib.loads(sys.stdin.read())).experiment
    try:
        plan = make_plan(experiment, load_registry())
    except ConfigurationError:
        return ConfigurationError.exit_code
    recorder = MemoryRecorder(plan.identity())
    simulate(plan, recorder)
    print(fingerprint(recorder.events))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
