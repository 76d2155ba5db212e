"""The same experiment in the simulator, on sockets and in namespaces: the same verdicts, and the same delivered sets.

Every example is in exactly one of the tables below. Senders send a given number of messages, so that it does not matter
how much a busy machine delays them; for the same reason they have several times as long as they need.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from castbed_testbed.runner import Outcome
from namespaces import REQUIRED, why_no_namespaces
from real_runs import EXAMPLES, delivered_sets, example_on, run_on, verdicts

FEW = ("workload.rate=10", "workload.count=5", "duration=4s")
SHORT, LONG = "drain=5s", "drain=8s"
PATIENT = tuple(
    f"protocol.options.{timer}"
    for timer in ("request_timeout=500ms", "greet_timeout=500ms", "join_timeout=500ms", "beat=300ms", "patience=2s")
)
"""EOMP with timeouts for machines that let a process wait for longer than the paper's networks take."""

TWENTY_HOSTS = (
    "topology.coordinators=2",
    "topology.stations=4",
    "topology.hosts=20",
    'topology.groups={1 = ["h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9", "h10"]}',
    'faults.leaves=[{node = "h9", at = "1s"}, {node = "h10", at = "1500ms"}]',
    'faults.joins=[{node = "h11", at = "1200ms"}, {node = "h12", at = "2s"}]',
    "workload.rate=2",
    "workload.count=4",
    "duration=6s",
    LONG,
)
"""Hundreds of nodes and of changes of the group in seconds are too much for two cores."""

SAME_SETS: dict[str, tuple[str, ...]] = {
    "eomp-coverage-gaps": ("workload.rate=4", "workload.count=3", "duration=5s", LONG, *PATIENT),
    "eomp-lossy": ("workload.rate=5", "workload.count=3", "duration=4s", LONG, *PATIENT),
    "eomp-oscillating-host": (*FEW, LONG, "mobility.dwell=1s", *PATIENT),
    "eomp-plain": (*FEW, SHORT, *PATIENT),
    "large-group": ("workload.count=1", "topology.members=40", "duration=8s", SHORT),
    "lossy": (*FEW, LONG),
    "overlapping-groups": (*FEW, SHORT, "workload.replies=0.0"),  # what is drawn for replies would change the groups
    "partition-and-heal": (
        *FEW,
        LONG,
        'faults.partitions=[{sides = [["A", "B"], ["C", "D", "E"]], start = "100ms", end = "2s"}]',
    ),
    "plain": (*FEW, SHORT),
    "published-lossy": (*FEW, LONG),
    "relm-plain": (*FEW, LONG, "mobility.dwell=1s"),
    "two-questions": (SHORT,),
}
"""Everybody delivers what everybody says, sooner or later."""

SAME_VERDICTS: dict[str, tuple[str, ...]] = {
    "absence-and-return": (),
    "eomp-coordinator-crash": ("workload.rate=1", "drain=20s", *PATIENT),
    "eomp-joining-and-leaving": (*TWENTY_HOSTS, *PATIENT),
    "eomp-sequencer-crash": ("workload.rate=1", "drain=20s", *PATIENT),
    "eomp-station-crash": ("workload.rate=1", "drain=20s", *PATIENT),
    "m2mc-churn": ("duration=6s", "drain=12s"),
}
"""Who crashes, joins or leaves does so at another point of what it does: what it delivers is not what it delivered."""

LEFT_OUT = {
    "eomp-gsm": "its cells are GSM channels, which only the simulator has, and it takes seven minutes",
    "evaluations": "tables of the EOMP paper, of hundreds of simulated runs each; `castbed evaluate` makes them",
    "sweeps": "grids of settings and seeds for `castbed sweep`, which runs many times what stands above once",
}


NO_NAMESPACES = "" if os.environ.get(REQUIRED) == "required" else why_no_namespaces()
REAL = [
    pytest.param("udp", marks=pytest.mark.udp),
    pytest.param("netns", marks=[pytest.mark.netns, pytest.mark.skipif(bool(NO_NAMESPACES), reason=NO_NAMESPACES)]),
]


def judged_alike(name: str, transport: str, settings: tuple[str, ...], folder: Path) -> tuple[Outcome, Outcome]:
    """Run the example in the simulator and on the transport: all holds in both, and no frame lacked room."""
    simulated, real = (example_on(on, name, folder, *settings) for on in ("sim", transport))
    assert (simulated.failures, real.failures) == ([], [])
    assert verdicts(real) == verdicts(simulated)
    assert verdicts(real), "nothing was judged"
    lost = {reason: real.summary["links"].get(reason, 0) for reason in ("overrun", "queue_full", "medium_dropped")}
    assert not any(lost.values()), lost
    return simulated, real


@pytest.mark.parametrize("transport", REAL)
@pytest.mark.parametrize("name", SAME_SETS)
def test_the_same_is_delivered_everywhere(name: str, transport: str, tmp_path: Path) -> None:
    simulated, real = judged_alike(name, transport, SAME_SETS[name], tmp_path)
    assert simulated.summary["submitted"] == real.summary["submitted"] > 0
    assert delivered_sets(real) == delivered_sets(simulated)


@pytest.mark.parametrize("transport", REAL)
@pytest.mark.parametrize("name", SAME_VERDICTS)
def test_the_same_holds_everywhere(name: str, transport: str, tmp_path: Path) -> None:
    _, real = judged_alike(name, transport, SAME_VERDICTS[name], tmp_path)
    assert real.summary["delivered"] > 0


def test_every_example_has_its_place() -> None:
    tables = [*SAME_SETS, *SAME_VERDICTS, *LEFT_OUT]
    folders = [path.name for path in EXAMPLES.iterdir() if path.is_dir()]
    assert sorted(tables) == sorted([*folders, *(path.stem for path in EXAMPLES.glob("*.toml"))])


STREET: dict[str, Any] = {
    "name": "street",
    "protocol": {"name": "sb"},
    "duration": "6500ms",
    "drain": "2500ms",
    "topology": {
        "kind": "broadcast",
        "members": ["A", "B", "C", "D"],
        "positions": {"A": [0, 0], "B": [80, 0], "C": [160, 0], "D": [0, 10]},
        "air": {"range_m": 100},
    },
    "mobility": {
        "kind": "trace",
        "points": [{"node": "D", "at": "4s", "x": 0, "y": 10}, {"node": "D", "at": "5s", "x": 0, "y": 900}],
    },
    "workload": {
        "kind": "script",
        "lines": [
            {"node": "A", "at": "100ms", "say": "for C by way of B"},
            {"node": "C", "at": "300ms", "say": "for A by way of B"},
            {"node": "B", "at": "6s", "say": "too late for D"},
        ],
    },
}


@pytest.mark.parametrize("transport", REAL)
def test_who_is_out_of_range_misses_the_same_everywhere(transport: str, tmp_path: Path) -> None:
    simulated, real = (run_on(on, STREET, tmp_path) for on in ("sim", transport))
    assert delivered_sets(simulated) == {**{name: {"A1", "B1", "C1"} for name in "ABC"}, "D": {"A1", "C1"}}
    assert delivered_sets(real) == delivered_sets(simulated)
    assert verdicts(real) == verdicts(simulated)
    assert not verdicts(real)["agreement"]
    assert set(real.summary["faults"]) == {"range", "mobility"}
