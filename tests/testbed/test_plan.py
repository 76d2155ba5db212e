"""What the plugins, the network and the script of an experiment have to fit: refused before the run, with the key."""

from __future__ import annotations

from typing import Any

import pytest
from testbed_support import cells, changed, do, planned, post, probe, refusal, say, script

CRASH = {"node": "A", "at": "1ms"}
SPAN = {"start": "1ms", "end": "2ms"}

# --- plugins and needs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("protocol.name", "probe"),
        ("membership.name", "static"),
        ("transport.name", "sim"),
        ("workload.kind", "steady"),
        ("application.name", "chatterbox"),
    ],
)
def test_a_missing_plugin_is_answered_with_the_installed_ones(path: str, known: str) -> None:
    said = refusal(changed(path, "no-such-thing"))
    assert said.startswith(f"{path}: there is no ")
    assert known in said.partition("installed: ")[2]


def test_an_unknown_variant_is_answered_with_the_known_ones() -> None:
    said = refusal(changed("protocol.variant", "improved"))
    assert said.startswith("protocol.variant: probe has no variant 'improved'")
    assert "greeter" in said


def test_a_protocol_for_another_model_is_refused() -> None:
    said = refusal(probe(topology={"kind": "sites", "sites": 3}))
    assert said == "topology.kind: probe runs on 'broadcast', not on 'sites'"


def test_a_protocol_that_brings_its_membership_takes_no_other() -> None:
    data = probe(protocol={"name": "m2mc"}, membership={"name": "gjlp-published"})
    assert refusal(data).startswith("membership.name: the protocol brings its own membership, 'gjlp'")


UNIFORM = {"kind": "uniform", "low": "0ms", "high": "1ms"}
BROADCAST_NEEDS = (
    ("wire", "topology.kind", {}),
    ("fifo_air", "topology.air.delay", {"topology": {"members": 2, "air": {"delay": UNIFORM}}}),
    ("fifo_air", "faults.reordering", {"faults": {"reordering": {"probability": 0.1, "delay": "1ms"}}}),
    ("reliable_air", "faults.loss", {"faults": {"loss": 0.1}}),
    ("reliable_air", "faults.duplication", {"faults": {"duplication": 0.1}}),
    ("reliable_air", "faults.cuts", {"faults": {"cuts": [{"source": "A", "target": "B", **SPAN}]}}),
    ("reliable_air", "faults.partitions", {"faults": {"partitions": [{"sides": [["A"], ["B"]], **SPAN}]}}),
    ("reliable_air", "faults.random_partitions", {"faults": {"random_partitions": {"count": 1, "length": "1ms"}}}),
    ("no_crash", "faults.crashes", {"faults": {"crashes": [CRASH]}}),
    ("no_crash", "faults.random_crashes", {"faults": {"random_crashes": {"count": 1, "down": "1ms"}}}),
    ("no_absence", "faults.absences", {"faults": {"absences": [{"node": "A", **SPAN}]}}),
    ("no_absence", "faults.random_absences", {"faults": {"random_absences": {"count": 1, "length": "1ms"}}}),
)
CELLULAR_NEEDS = (
    ("fifo_wire", "topology.wire.fifo", changed("topology.wire.fifo", False, cells())),
    ("no_absence", "faults.handoffs", cells(faults={"handoffs": [{"host": "a", "at": "1ms"}]})),
    ("no_absence", "mobility.gap", cells(mobility={"dwell": "1s", "gap": "1ms"})),
)


@pytest.mark.parametrize(("need", "key", "changes"), BROADCAST_NEEDS)
def test_a_need_that_the_experiment_takes_away_is_refused_with_the_key(
    need: str, key: str, changes: dict[str, Any]
) -> None:
    data = probe(protocol={"name": "probe", "variant": f"needs-{need}"}, **changes)
    assert refusal(data).startswith(f"{key}: probe (needs-{need}) needs ")
    assert planned(probe(**changes))


@pytest.mark.parametrize(("need", "key", "data"), CELLULAR_NEEDS)
def test_a_need_in_cells_that_is_taken_away_is_refused_with_the_key(need: str, key: str, data: dict[str, Any]) -> None:
    said = refusal({**data, "protocol": {"name": "cells", "variant": f"needs-{need}"}})
    assert said.startswith(f"{key}: cells (needs-{need}) needs ")
    assert planned(data)


@pytest.mark.parametrize("need", ["air", "own_copy"])
def test_wires_have_no_air(need: str) -> None:
    said = refusal({**post(), "protocol": {"name": "post", "variant": f"needs-{need}"}})
    assert said.startswith(f"topology.kind: post (needs-{need}) needs ")


THREE = {"kind": "three_tier", "coordinators": 2, "stations": 2, "hosts": 2}
FIVE = {"kind": "three_tier", "coordinators": 4, "stations": 4, "hosts": 2}


def crash_of(node: str, at_ms: int, down_ms: int | None = None) -> tuple[dict[str, Any], ...]:
    crash = {"node": node, "at": f"{at_ms}ms"}
    return (crash,) if down_ms is None else (crash, {"node": node, "at": f"{at_ms + down_ms}ms"})


def core_crashes(topology: dict[str, Any], *crashes: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    faults = {"crashes": [crash for crash, *_ in crashes], "restarts": [back[0] for _, *back in crashes if back]}
    return probe(protocol={"name": "eomp", "variant": "repaired"}, topology=topology, duration="10s", faults=faults)


@pytest.mark.parametrize(
    "data",
    [
        core_crashes(THREE, crash_of("Q", 1000), crash_of("C1", 2000)),
        core_crashes(THREE, crash_of("Q", 1000, 500), crash_of("C1", 2000)),
        core_crashes(THREE, crash_of("Q", 1000, 500), crash_of("Q", 2000)) | {"topology": {**THREE, "coordinators": 1}},
        core_crashes(FIVE, *(crash_of(node, 1000) for node in ("C1", "C2", "C3"))),
    ],
    ids=["two of three", "too soon after a restart", "one of two", "three of five"],
)
def test_crashes_that_leave_no_majority_of_the_core_are_refused(data: dict[str, Any]) -> None:
    said = refusal(data)
    assert said.startswith(
        "faults.crashes: eomp (repaired) needs that most of the sequencer and the coordinators are up"
    )
    said = refusal({**data, "protocol": {"name": "eomp", "variant": "published"}})
    assert said.startswith("faults.crashes: eomp (published) needs that the sequencer and the coordinators never crash")


def test_stations_may_crash_where_hosts_may_not() -> None:
    published = {"protocol": {"name": "eomp", "variant": "published"}}
    said = refusal(core_crashes(THREE, crash_of("S1", 1000), crash_of("h1", 1000)) | published)
    assert said.startswith("faults.crashes: eomp (published) needs that no host crashes")
    assert planned(core_crashes(THREE, crash_of("S1", 1000)) | published)


@pytest.mark.parametrize(
    "data",
    [
        core_crashes(THREE, crash_of("Q", 1000), crash_of("S1", 1000), crash_of("h1", 1000)),
        core_crashes(THREE, crash_of("Q", 1000, 500), crash_of("C1", 3500)),
        core_crashes(FIVE, crash_of("C1", 1000), crash_of("C2", 1000)),
    ],
    ids=["one of three", "after its recovery", "two of five"],
)
def test_crashes_that_leave_a_majority_of_the_core_are_planned(data: dict[str, Any]) -> None:
    assert planned(data)


def test_random_crashes_hit_the_roles_that_are_named() -> None:
    crashes = {"count": 50, "down": "1ms", "roles": ["station"]}
    plan = planned({**core_crashes(THREE), "faults": {"random_crashes": crashes}})
    assert {plan.topology.role(happening.node) for happening in plan.schedule.happenings} == {"station"}
    said = refusal(probe(faults={"random_crashes": crashes}))
    assert said.startswith("faults.random_crashes.roles: ")


# --- faults and scripts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "path"),
    [
        ({"crashes": [{"node": "Z", "at": "1ms"}]}, "faults.crashes[0].node"),
        ({"restarts": [{"node": "Z", "at": "1ms"}]}, "faults.restarts[0].node"),
        ({"absences": [{"node": "Z", **SPAN}]}, "faults.absences[0].node"),
        ({"absences": [{"node": "S1", **SPAN}]}, "faults.absences[0].node"),
        ({"absences": [{"node": "a", "start": "2ms", "end": "2ms"}]}, "faults.absences[0].end"),
        ({"cuts": [{"source": "a", "target": "Z", **SPAN}]}, "faults.cuts[0].target"),
        ({"cuts": [{"source": "a", "target": "b", "start": "2ms", "end": "1ms"}]}, "faults.cuts[0].end"),
        ({"partitions": [{"sides": [["a"], ["Z"]], **SPAN}]}, "faults.partitions[0].sides"),
        ({"partitions": [{"sides": [["a", "b"]], **SPAN}]}, "faults.partitions[0].sides"),
        ({"partitions": [{"sides": [["a"], []], **SPAN}]}, "faults.partitions[0].sides"),
        ({"partitions": [{"sides": [["a"], ["a", "b"]], **SPAN}]}, "faults.partitions[0].sides"),
        ({"handoffs": [{"host": "S1", "at": "1ms", "to": "S2"}]}, "faults.handoffs[0].host"),
        ({"handoffs": [{"host": "a", "at": "1ms", "to": "b"}]}, "faults.handoffs[0].to"),
        ({"handoffs": [{"host": "a", "at": "1ms", "to": "S9"}]}, "faults.handoffs[0].to"),
        ({"joins": [{"node": "Z", "at": "1ms"}]}, "faults.joins[0].node"),
    ],
)
def test_an_impossible_fault_is_refused_with_its_key(faults: dict[str, Any], path: str) -> None:
    assert refusal(cells(faults=faults)).startswith(f"{path}: ")


def test_a_protocol_without_the_command_cannot_be_asked_to_leave() -> None:
    data = probe(protocol={"name": "sb"}, faults={"leaves": [CRASH]})
    assert refusal(data) == "faults.leaves[0]: the protocol has no command to leave a group"


@pytest.mark.parametrize(
    ("mobility", "path"),
    [
        ({"dwell": "1s", "hosts": ["Z"]}, "mobility.hosts"),
        ({"dwell": "1s", "hosts": ["S1"]}, "mobility.hosts"),
        ({"dwell": "0s"}, "mobility.dwell"),
        ({"gap": "1s"}, "mobility.dwell"),
    ],
)
def test_impossible_mobility_is_refused_with_its_key(mobility: dict[str, Any], path: str) -> None:
    assert refusal(cells(mobility=mobility)).startswith(f"{path}: ")


def test_nobody_moves_where_there_are_no_cells() -> None:
    assert refusal(probe(mobility={"dwell": "1s"})).startswith("mobility: ")
    absent = {"random_absences": {"count": 1, "length": "1ms"}}
    assert refusal(post(faults=absent)).startswith("faults.random_absences: ")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (say("Z", "1ms"), ".node"),
        (say("A", "1ms", to=["Z"]), ".to"),
        (say("A", "1ms", reply_to="nothing"), ".reply_to"),
        (say("A", "1ms", after="nothing"), ".after"),
        (say("A", "1ms", group="friends"), ".group"),
        (say("A", "1ms", group="1.Z"), ".group"),
        (say("A", "1ms", group="9" * 30), ".group"),
        (say("A", "1h"), ".at"),
        (say("A", "1ms", do="keep"), ""),
        ({"node": "A"}, ""),
        (do("A", "1ms", "dance"), ".do"),
        (do("A", "1ms", "keep"), ".with.value"),
        (do("A", "1ms", "keep", value=7), ".with.value"),
        (do("A", "1ms", "keep", value="x", colour=1), ".with.colour"),
        ({**do("A", "1ms", "keep", value="x"), "label": "kept"}, ".label"),
        (say("A", "1ms", "hello", label="greeting"), ".label"),
        (say("A", "1ms", "hi", label="first"), ".label"),
    ],
)
def test_a_mistake_in_a_script_is_refused_with_its_line(line: dict[str, Any], key: str) -> None:
    lines = [say("A", "1ms", "hi", label="greeting"), line]
    said = refusal(probe(workload=script(*lines)))
    place = 0 if line.get("say") == "hi" else 1
    assert said.startswith(f"workload.lines[{place}]{key}: ")


def test_an_unknown_command_is_answered_with_the_known_ones() -> None:
    assert "it has: cancel-alarm, join-group, keep" in refusal(probe(workload=script(do("A", "1ms", "dance"))))
