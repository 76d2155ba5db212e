"""Whole experiments in namespaces: the same plugins, captures and verdicts as in the simulator."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyroute2")

from castbed import Kind
from castbed.capture import read_captures
from namespaces import need_namespaces
from real_runs import CELLS, CHAT, delivered_sets, example_on, run_on, running, verdicts

need_namespaces(whole_module=True)

pytestmark = pytest.mark.netns

LONG = {**CHAT, "transport": {"name": "netns"}, "duration": "60s", "workload": {"kind": "steady", "rate": 40}}


@pytest.mark.parametrize("name", ["plain", "lossy", "partition-and-heal", "eomp-lossy", "relm-plain"])
def test_the_examples_keep_every_promise_in_namespaces(name: str, tmp_path: Path) -> None:
    whole = name == "partition-and-heal"  # its partition has its own times
    outcome = example_on("netns", name, tmp_path, *(() if whole else ("duration=2s", "drain=4s")))
    assert outcome.failures == []
    assert outcome.violations, "nothing was judged"
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0
    assert outcome.summary["links"].get("medium_dropped", 0) == 0


@pytest.mark.parametrize("data", [CHAT, CELLS], ids=["broadcast", "three tiers"])
def test_simulator_sockets_and_namespaces_deliver_the_same(data: dict[str, Any], tmp_path: Path) -> None:
    outcomes = [run_on(transport, data, tmp_path) for transport in ("sim", "udp", "netns")]
    simulated, *real = outcomes
    assert simulated.summary["submitted"] > 0
    for outcome in real:
        assert verdicts(outcome) == verdicts(simulated)
        assert delivered_sets(outcome) == delivered_sets(simulated)


def test_a_long_frame_travels_in_pieces(tmp_path: Path) -> None:
    data = {**CHAT, "workload": {"kind": "steady", "rate": 5, "count": 3, "size": "20KiB"}}
    outcome = run_on("netns", data, tmp_path)
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0


def test_several_nodes_may_share_a_process(tmp_path: Path) -> None:
    outcome = run_on("netns", CELLS, tmp_path, {"processes": 2})
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0


def test_wires_take_as_long_as_the_experiment_says(tmp_path: Path) -> None:
    patient = {"name": "eomp", "options": {"request_timeout": "2s", "greet_timeout": "2s", "patience": "4s"}}
    topology = {**CELLS["topology"], "wire": {"delay": "150ms"}}
    data = {**CELLS, "protocol": patient, "topology": topology, "drain": "6s", "faults": {}}
    simulated, real = (run_on(on, data, tmp_path) for on in ("sim", "netns"))
    assert real.failures == []
    assert real.summary["latency_ms"]["p50"] > 0.9 * simulated.summary["latency_ms"]["p50"] > 150


def test_a_crashed_node_comes_back_in_its_namespace(tmp_path: Path) -> None:
    faults = {"crashes": [{"node": "B", "at": "300ms"}], "restarts": [{"node": "B", "at": "900ms"}]}
    data = {**CHAT, "duration": "3s", "faults": faults, "workload": {"kind": "steady", "rate": 10}}
    outcome = run_on("netns", {**data, "protocol": {"name": "sb", "variant": "repaired"}}, tmp_path)
    assert outcome.failures == []
    assert outcome.summary["faults"] == {"crashes": 1, "restarts": 1}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_run_that_ends_early(number: int, tmp_path: Path) -> None:
    with running(LONG, tmp_path) as run:
        run.wait_for_deliveries()
        assert len(run.processes()) == 6, "the controller, the nursery, the medium and three nodes"
        os.kill(run.process.pid, number)
        run.process.wait(30)
        assert run.is_gone()
    for capture in read_captures(tmp_path / "run"):
        assert any(event.kind == Kind.DELIVER for event in capture.events)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing")
def test_tshark_opens_the_captures_and_receptions_come_after_sendings(tmp_path: Path) -> None:
    run_on("netns", {**CHAT, "protocol": {"name": "sb", "variant": "published"}}, tmp_path)  # no frame twice
    sent: dict[str, float] = {}
    received: list[tuple[str, float]] = []
    for capture in sorted((tmp_path / "netns" / "captures").glob("*.pcapng")):
        fields = ["-e", "frame.time_epoch", "-e", "frame.packet_flags_direction", "-e", "data.data"]
        command = ["tshark", "-r", str(capture), "-Y", "eth.type == 0x88b5", "-T", "fields", *fields]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for at, direction, data in (line.split("\t") for line in shown.splitlines()):
            if int(direction, 0) == 2:
                sent[data] = float(at)
            else:
                received.append((data, float(at)))
    assert len(received) == 3 * len(sent) > 0  # senders hear themselves, as the protocol needs
    assert [data for data, at in received if at < sent[data]] == []
