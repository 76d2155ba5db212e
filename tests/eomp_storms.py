"""Random experiments for repaired EOMP: several groups, hosts that move and lose coverage, and crashes of every role.

A run is a function of its seed. Crashes of the core leave most of it up, because that is what the variant needs; where
wires stall instead, nobody of the core crashes, because who cannot be heard is as good as down.
"""

from __future__ import annotations

from random import Random
from typing import Any

from castbed import Registry
from castbed_testbed.conformance import run_trial
from castbed_testbed.experiment import load

Table = dict[str, Any]
RECOVERY_MS = 2_000  # after which a restarted node of the core counts as up
DURATION_MS = 4_000


def random_run(seed: int) -> Table:
    """One of many small storms."""
    random = Random(f"eomp-repaired/{seed}")
    window = random.choice([1, 16])
    coordinators, stations, hosts = random.randint(2, 4), random.randint(2, 4), random.randint(2, 6)
    topology: Table = {
        "kind": "three_tier",
        "coordinators": coordinators,
        "stations": max(coordinators, stations),
        "hosts": hosts,
        "air": {"delay": _air_delay(random)},
        "wire": {"delay": _wire_delay(random)},
        "groups": _groups(random, hosts),
    }
    return {
        "name": "storm",
        "protocol": {"name": "eomp", "variant": "repaired", "options": {"window": window}},
        "seed": seed,
        "duration": f"{DURATION_MS}ms",
        "drain": "12s",
        "topology": topology,
        "workload": {
            "kind": "steady",
            "rate": random.choice([2, 10]) if window > 1 else 2,
            "replies": random.choice([0.0, 0.3]),
        },
        "mobility": _mobility(random),
        "faults": _faults(random, coordinators, max(coordinators, stations), hosts),
    }


def violations(registry: Registry, experiment: Table) -> dict[str, list[str]]:
    """The words of every violation of a declared property, by property; `raised` if the run came to no end."""
    trial = run_trial(registry, load(experiment))
    if trial.stumbled:
        return {"raised": [trial.stumbled]}
    return {name: [violation.words for violation in found] for name, found in trial.violations.items() if found}


def _air_delay(random: Random) -> Any:
    return random.choice(["10us", "1ms", {"kind": "uniform", "low": "0ms", "high": random.choice(["5ms", "60ms"])}])


def _wire_delay(random: Random) -> Any:
    return random.choice(["500us", "5ms", {"kind": "uniform", "low": "100us", "high": random.choice(["3ms", "30ms"])}])


def _groups(random: Random, hosts: int) -> Table:
    names = [f"h{number}" for number in range(1, hosts + 1)]
    return {str(group): random.sample(names, random.randint(1, hosts)) for group in range(1, random.randint(2, 4))}


def _mobility(random: Random) -> Table:
    moves: Table = {"dwell": {"kind": "exponential", "mean": random.choice(["150ms", "600ms", "2s"])}}
    if random.random() < 0.4:
        moves["gap"] = {"kind": "uniform", "low": "1ms", "high": "700ms"}
    return moves


def _faults(random: Random, coordinators: int, stations: int, hosts: int) -> Table:
    faults: Table = {"loss": random.choice([0.01, 0.1, 0.25])}
    if random.random() < 0.3:
        faults["duplication"] = 0.1
    if random.random() < 0.3:
        faults["reordering"] = {"probability": 0.1, "delay": {"kind": "uniform", "low": "1ms", "high": "50ms"}}
    core, cells = ["Q", *(f"C{n}" for n in range(1, coordinators + 1))], [f"S{n}" for n in range(1, stations + 1)]
    names = [f"h{n}" for n in range(1, hosts + 1)] + cells
    crashes: list[Table] = []
    restarts: list[Table] = []
    if random.random() < 0.7:
        crashes, restarts = _core_crashes(random, core)
    else:
        faults["partitions"] = [_stalled_wires(random, core + cells) for _ in range(random.randint(1, 3))]
    for node in random.sample(names, random.randint(0, 3)):
        _crash(random, node, random.randint(0, DURATION_MS), random.randint(1, 1500), crashes, restarts)
    faults["crashes"], faults["restarts"] = crashes, restarts
    for verb in ("joins", "leaves"):
        faults[verb] = [_membership(random, hosts) for _ in range(random.randint(0, 3))]
    return {name: value for name, value in faults.items() if value}


def _stalled_wires(random: Random, fixed: list[str]) -> Table:
    """Wires lose nothing, but nothing passes between two halves of the fixed network for a while."""
    random.shuffle(fixed)
    cut, start = random.randint(1, len(fixed) - 1), random.randint(0, DURATION_MS)
    end = start + random.randint(50, 1500)
    return {"sides": [fixed[:cut], fixed[cut:]], "start": f"{start}ms", "end": f"{end}ms"}


def _core_crashes(random: Random, core: list[str]) -> tuple[list[Table], list[Table]]:
    """Never so many at a time that most of the core would not be up."""
    crashes: list[Table] = []
    restarts: list[Table] = []
    at, tolerated = random.randint(0, 1500), (len(core) - 1) // 2
    while at < DURATION_MS and random.random() < 0.9:
        down = random.randint(1, 1500)
        for node in random.sample(core, random.randint(1, tolerated)):
            _crash(random, node, at + random.randint(0, 20), down, crashes, restarts)
        at += 20 + down + RECOVERY_MS + random.randint(0, 1000)
    return crashes, restarts


def _crash(random: Random, node: str, at: int, down: int, crashes: list[Table], restarts: list[Table]) -> None:
    crashes.append({"node": node, "at": f"{at}ms"})
    restarts.append({"node": node, "at": f"{at + down}ms", "storage": random.random() < 0.5})


def _membership(random: Random, hosts: int) -> Table:
    node, group = f"h{random.randint(1, hosts)}", str(random.randint(1, 3))
    return {"node": node, "at": f"{random.randint(0, DURATION_MS)}ms", "group": group}
