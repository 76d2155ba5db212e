"""Whole experiments in namespaces: the same plugins, captures and verdicts as in the simulator."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tomli_w

pytest.importorskip("pyroute2")

from castbed import Kind, UnavailableError, load_registry
from castbed.capture import read_captures
from castbed.dissector import lua_dissector, packet_names
from castbed_adapters.netns.ether import EtherProcess
from namespaces import need_namespaces
from real_runs import CELLS, CHAT, delivered_sets, example_on, run_on, running, verdicts

need_namespaces(whole_module=True)

pytestmark = pytest.mark.netns

BRING_UP_S_MAX = 20  # on a machine that does other things as well
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


def test_with_a_key_second_copies_reach_the_machines_and_nothing_honest_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CASTBED_TEST_KEY", "a key that nobody guesses")
    faults = {"duplication": 0.5, "loss": 0.1, "cuts": [{"source": "A", "target": "B", "start": "0s", "end": "300ms"}]}
    data = {**CHAT, "key": {"env": "CASTBED_TEST_KEY"}, "faults": faults}
    outcome = run_on("netns", {**data, "protocol": {"name": "sb", "variant": "repaired"}}, tmp_path)
    assert outcome.failures == []
    heard = [
        Counter(frame.data for frame in capture.frames if not frame.outgoing)
        for capture in read_captures(tmp_path / "netns")
    ]
    twice = sum(count - 1 for frames in heard for count in frames.values())
    assert twice == outcome.summary["faults"]["duplication"] > 0
    assert {"forged", "replayed", "foreign"}.isdisjoint(outcome.summary["links"])


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


def test_many_nodes_are_up_within_seconds(tmp_path: Path) -> None:
    data = {**CHAT, "topology": {"kind": "broadcast", "members": 64}, "duration": "500ms", "drain": "500ms"}
    outcome = run_on("netns", {**data, "workload": {"kind": "script", "lines": []}}, tmp_path)
    assert outcome.summary["wall_s"] - 1 < BRING_UP_S_MAX


@pytest.mark.skipif(shutil.which("script") is None, reason="script (util-linux) is missing")
def test_it_works_on_a_terminal_where_it_may_start_no_thread_before_it_forks(tmp_path: Path) -> None:
    """What shows the progress must not be there before namespaces are: a process with threads may make no user's."""
    code = (
        "import sys, threading; from castbed_testbed.cli.console import progress_bar\n"
        "with progress_bar('x', 10) as show:\n"
        "    before = threading.active_count(); show(1); print('threads', before, threading.active_count() > 1)\n"
    )
    path = tmp_path / "bar.py"
    path.write_text(code, encoding="utf-8")
    done = subprocess.run(
        ["script", "-qec", f"{sys.executable} {path}", "/dev/null"],
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "threads 1 True" in done.stdout, done.stdout


def test_a_run_ends_soon_after_its_medium_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = EtherProcess.begin

    def begin_and_die_later(self: EtherProcess, at: int) -> None:
        begin(self, at)
        killers.append(subprocess.Popen(["sh", "-c", f"sleep 1; kill -KILL {self.pid}"]))

    killers: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(EtherProcess, "begin", begin_and_die_later)
    began = time.monotonic()
    with pytest.raises(UnavailableError, match="the medium died"):
        run_on("netns", {**CHAT, "duration": "60s"}, tmp_path)
    assert killers[0].wait() == 0
    assert time.monotonic() - began < 30


def test_a_run_on_a_terminal_needs_no_root(tmp_path: Path) -> None:
    """Where threads are drawing a bar of progress when the user namespace is to be entered."""
    ordinary = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    able = subprocess.run([*ordinary, "unshare", "--user", "--net", "true"], capture_output=True, check=False)
    if able.returncode != 0:
        pytest.skip(f"this machine lets only root make namespaces: {able.stderr.decode().strip()}")
    path = tmp_path / "chat.toml"
    path.write_text(tomli_w.dumps({**CHAT, "transport": {"name": "netns"}}), encoding="utf-8")
    run = f"id -u; {sys.executable} -m castbed run {path} --out {tmp_path / 'run'}"
    done = subprocess.run(
        [*ordinary, "script", "-qec", run, "/dev/null"],
        capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("1000")
    assert "exactly_once" in done.stdout


def test_where_namespaces_cannot_be_made_the_run_says_what_would_help(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root, to give it up")
    path = tmp_path / "chat.toml"
    path.write_text(tomli_w.dumps({**CHAT, "transport": {"name": "netns"}}), encoding="utf-8")
    able = ["setpriv", "--bounding-set", "-sys_admin,-net_admin", "--inh-caps", "-sys_admin,-net_admin"]
    command = [*able, sys.executable, "-m", "castbed", "run", str(path), "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "this kernel lets root make no network namespace" in done.stderr


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing")
def test_the_dissector_reads_frames_and_events_of_a_run(tmp_path: Path) -> None:
    run_on("netns", CELLS, tmp_path)
    dissector = tmp_path / "castbed.lua"
    dissector.write_text(lua_dissector(packet_names(load_registry())), encoding="utf-8")
    seen = ""
    for capture in sorted((tmp_path / "netns" / "captures").glob("*.pcapng")):
        command = [
            "tshark",
            "-X",
            f"lua_script:{dissector}",
            "-r",
            str(capture),
            "-T",
            "fields",
            "-e",
            "_ws.col.Protocol",
        ]
        seen += subprocess.run(command, capture_output=True, text=True, check=True).stdout
        malformed = subprocess.run([*command[:5], "-Y", "_ws.malformed"], capture_output=True, text=True, check=True)
        assert malformed.stdout == ""
    assert {name.lower() for name in seen.split()} >= {"castbed"}, set(seen.split())
