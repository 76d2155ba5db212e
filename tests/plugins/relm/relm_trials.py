"""Random runs of RelM in the simulator: a lossy, duplicating, reordering air, hosts that move fast, uneven wires."""

from __future__ import annotations

from random import Random
from typing import Any

from castbed import load_registry
from castbed_testbed.conformance import Trial, run_trial
from castbed_testbed.experiment import load

MOVES_EVERY = "150ms"


def trial(
    seed: int, supervisors: int, wire_ms: int = 0, members_change: bool = False, variant: str = "published"
) -> Trial:
    """One run; wires take 1 ms, or anything from 0 to `wire_ms`."""
    random = Random(seed)
    hosts = random.randint(2, 5)
    wire: Any = {"kind": "uniform", "low": "0ms", "high": f"{wire_ms}ms"} if wire_ms else "1ms"
    air = {"kind": "uniform", "low": "0ms", "high": random.choice(["5ms", "100ms"])}
    faults: dict[str, Any] = {"loss": random.choice([0.01, 0.1, 0.3]), "duplication": 0.1}
    if members_change:
        faults |= _changes(random, hosts)
    return run_trial(
        load_registry(),
        load(
            {
                "name": "relm-trial",
                "protocol": {"name": "relm", "variant": variant},
                "transport": {"name": "sim", "options": {"decode": True}},
                "seed": seed,
                "duration": "3s",
                "drain": "20s",
                "topology": {
                    "kind": "three_tier",
                    "coordinators": supervisors,
                    "stations": max(2, supervisors + random.randint(0, 2)),
                    "hosts": hosts,
                    "air": {"delay": air},
                    "wire": {"delay": wire},
                },
                "workload": {
                    "kind": "steady",
                    "rate": random.choice([5, 20]),
                    "senders": [f"C{at + 1}" for at in range(supervisors)],
                },
                "mobility": {"dwell": {"kind": "exponential", "mean": MOVES_EVERY}},
                "faults": faults,
            }
        ),
    )


def _changes(random: Random, hosts: int) -> dict[str, Any]:
    """Every host leaves the group, joins it again, and so on."""
    leaves, joins = [], []
    for host in range(1, hosts + 1):
        at = 0
        for turn in range(random.randint(1, 5)):
            at += random.randint(1, 600)
            (joins if turn % 2 else leaves).append({"node": f"h{host}", "at": f"{at}ms"})
    return {"leaves": leaves} | ({"joins": joins} if joins else {})
