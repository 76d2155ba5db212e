"""Which nodes share a process: as the options say, and every mistake in them is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from testbed_support import cells, planned, probe, say, script

from castbed.errors import ConfigurationError
from castbed_testbed.hosting.residents import AWAKE, TOGETHER, households, never_sleep
from real_runs import CELLS, CHAT, run_on, running

CRASH = {"crashes": [{"node": "B", "at": "100ms"}]}


def shared_out(data: dict[str, Any], **options: Any) -> list[list[str]]:
    """The names of the nodes of each process."""
    plan = planned({**data, "transport": {"name": "udp", "options": options}})
    return [[plan.topology.name(number) for number in numbers] for numbers in households(plan)]


def test_left_to_itself_every_node_has_a_process() -> None:
    assert shared_out(probe()) == [["A"], ["B"], ["C"]]


def test_nodes_that_are_named_together_share_a_process_and_the_others_have_their_own() -> None:
    assert shared_out(cells(), together=[["a", "S1"]]) == [["a", "S1"], ["S2"], ["b"], ["c"]]


def test_the_others_are_shared_out_among_so_many_processes_as_said() -> None:
    data = probe(topology={"kind": "broadcast", "members": list("ABCDEF")})
    assert shared_out(data, together=[["F", "A"]], processes=2) == [["F", "A"], ["B", "D"], ["C", "E"]]


def test_all_may_live_together() -> None:
    assert shared_out(probe(), together=[["A", "B", "C"]]) == [["A", "B", "C"]]


def test_who_crashes_is_alone_and_nobody_waits_for_processes_without_nodes() -> None:
    assert shared_out(probe(faults=CRASH), together=[["A", "C"]], processes=5) == [["B"], ["A", "C"]]


@pytest.mark.parametrize(
    ("together", "words"),
    [
        ([["A", "X"]], "there is no node 'X'"),
        ([["A", "C"], ["C"]], "C is named twice"),
        ([["A", "A"]], "A is named twice"),
        ([["A", "B"]], "B crashes, and would take the others with it"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_its_key(together: list[list[str]], words: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        shared_out(probe(faults=CRASH), together=together)
    assert str(refusal.value) == f"{TOGETHER}: {words}"


def test_those_who_stay_awake_are_named_and_a_name_that_nobody_has_is_a_mistake() -> None:
    plan = planned({**probe(), "transport": {"name": "udp", "options": {"awake": ["C"]}}})
    assert never_sleep(plan) == {plan.topology.number("C")}
    assert never_sleep(planned(probe())) == frozenset()
    with pytest.raises(ConfigurationError, match=f"{AWAKE}: there is no node 'X'"):
        never_sleep(planned({**probe(), "transport": {"name": "udp", "options": {"awake": ["A", "X"]}}}))


def test_nobody_together_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match=r"^transport\.options\.together"):
        shared_out(probe(), together=[[]])


def test_a_mistake_is_found_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no node 'D'"):
        run_on("udp", CHAT, tmp_path, {"together": [["A", "D"]]})


@pytest.mark.udp
def test_nodes_that_live_together_do_what_they_do_apart(tmp_path: Path) -> None:
    outcome = run_on("udp", CELLS, tmp_path, {"together": [["anna", "S1", "C1", "Q"]]})
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0


@pytest.mark.udp
def test_they_are_in_one_process_indeed(tmp_path: Path) -> None:
    transport = {"name": "udp", "options": {"together": [["A", "C"]]}}
    data = {**CHAT, "transport": transport, "duration": "60s", "workload": {"kind": "steady", "rate": 40}}
    with running(data, tmp_path) as run:
        run.wait_for_deliveries()
        assert run.process_of("A") == run.process_of("C") != run.process_of("B")


@pytest.mark.udp
def test_a_restart_leaves_those_that_live_together_alone(tmp_path: Path) -> None:
    faults = {**CRASH, "restarts": [{"node": "B", "at": "300ms"}]}
    data = probe(protocol={"name": "sb"}, workload=script(say("A", "700ms", "hello")), faults=faults, drain="2s")
    outcome = run_on("udp", data, tmp_path, {"together": [["A", "C"]]})
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] == 3
