"""Random experiments on an air that loses, duplicates and reorders, for protocols that need one that does not."""

from __future__ import annotations

from random import Random
from typing import Any

from castbed import Registry
from castbed_testbed.conformance import Trial, run_trial
from castbed_testbed.experiment import Loaded, load

CUT_LENGTH = {"kind": "uniform", "low": "100ms", "high": "3s"}


def random_experiment(seed: int, **more: Any) -> Loaded:
    """A published variant over the repair layer, with as much trouble on the air as a radio makes."""
    random = Random(f"repair/{seed}")
    high = random.choice(["1ms", "5ms", "100ms"])
    data: dict[str, Any] = {
        "name": f"repair-{seed}",
        "protocol": {"name": "sb", "variant": "published"},
        "repair": {"fifo": random.random() < 0.5},
        "transport": {"name": "sim", "options": {"decode": True}},
        "seed": seed,
        "duration": "5s",
        "drain": "20s",
        "topology": {
            "kind": "broadcast",
            "members": random.randint(2, 7),
            "air": {"delay": {"kind": "uniform", "low": "0ms", "high": high}},
        },
        "workload": {"kind": "steady", "rate": random.choice([1, 5, 20]), "replies": random.choice([0.0, 0.5])},
        "faults": {"loss": random.choice([0.01, 0.1, 0.2, 0.4]), **_more_trouble(random)},
    }
    return load(data | more)


def _more_trouble(random: Random) -> dict[str, Any]:
    faults: dict[str, Any] = {}
    if random.random() < 0.5:
        faults["duplication"] = 0.1
    if random.random() < 0.5:
        faults["reordering"] = {"probability": 0.2, "delay": {"kind": "uniform", "low": "5ms", "high": "80ms"}}
    if random.random() < 0.3:
        faults["random_partitions"] = {"count": random.randint(1, 2), "length": CUT_LENGTH}
    return faults


def tried(registry: Registry, seed: int) -> Trial:
    """One random run, judged by what the variant guarantees."""
    return run_trial(registry, random_experiment(seed))
