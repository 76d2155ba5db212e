#!/usr/bin/env python3
"""The default point of the EOMP evaluation: 512 hosts in 32 cells, 250 messages a second to everybody, on one core.

    python benchmarks/cellular.py [--memory]

128 000 deliveries per virtual second. The figure is virtual time over time on this machine: above 1 is faster than real
time. `--memory` simulates 2 and then 10 virtual minutes, each in a process of its own, and says how much memory each
took at most. What a run keeps must not grow with its length; only the schedule of the moves does.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MINUTES = (2, 10)
GROWTH_MAX = 1.5  # all moves of hosts are drawn before a run begins: 140 bytes each, 245 000 more in the longer run


def experiment(seconds: float) -> dict[str, Any]:
    """EOMP as published; the drain is nothing, so that all the time has traffic in it."""
    return {
        "name": "cellular",
        "protocol": {"name": "eomp", "variant": "published", "options": {"listen_before_greetack": True}},
        "duration": f"{seconds:g}s",
        "drain": "0s",
        "topology": {
            "kind": "three_tier",
            "coordinators": 4,
            "stations": 32,
            "hosts": 512,
            "groups": 4,
            "air": {"rate": "10Mbit/s", "delay": "0ms", "shared": "uplink"},
            "wire": {"rate": "100Mbit/s", "delay": "500us", "transmitter": "node", "fanout": "multicast"},
        },
        "workload": {"kind": "steady", "rate": 62.5, "size": "256B", "senders": ["h1", "h2", "h3", "h4"]},
        "mobility": {"dwell": {"kind": "exponential", "mean": "1s"}},
        "faults": {"loss": 0.001, "loss_spares": ["Nack"]},
    }


def planned(seconds: float) -> Any:
    from castbed.registry import load_registry
    from castbed_testbed.experiment import load
    from castbed_testbed.plan import make_plan

    return make_plan(load(experiment(seconds)).experiment, load_registry())


def times_real_time(plan: Any, captures: bool) -> float:
    """Virtual seconds per second of this process."""
    from castbed_testbed.sim.runner import run

    with tempfile.TemporaryDirectory() as directory:
        start = time.process_time()
        report = run(plan, Path(directory) if captures else None)
        return report.virtual_ns / 1e9 / (time.process_time() - start)


def memory_mib(minutes: float) -> float:
    """The most that a process took which simulated so many minutes without captures."""
    command = [sys.executable, __file__, "--simulate", f"{60 * minutes:g}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(said) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", action="store_true", help="compare the memory of 2 and of 10 virtual minutes")
    parser.add_argument("--simulate", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.simulate is not None:
        times_real_time(planned(chosen.simulate), captures=False)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return 0
    if chosen.memory:
        short, long = (memory_mib(minutes) for minutes in MINUTES)
        print(f"{MINUTES[0]} virtual minutes: {short:.0f} MiB, {MINUTES[1]}: {long:.0f} MiB")
        return 0 if long <= GROWTH_MAX * short else 1
    for captures in (False, True):
        ratio = times_real_time(planned(2), captures)
        print(f"{ratio:.2f} times real time {'with' if captures else 'without'} captures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
