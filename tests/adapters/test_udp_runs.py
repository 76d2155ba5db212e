"""Experiments on real sockets: the examples hold what they promise, as in the simulator, whatever is killed."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest

from castbed import Kind, UnavailableError, load_registry
from castbed.capture import read_capture, read_captures, sent_headers
from castbed.links import SHARED_AIR
from castbed.packets import kind_of
from castbed.wire import ETHERNET_BYTES
from castbed_adapters.udp.addresses import draw_groups, find_interface
from castbed_adapters.udp.air import ENVELOPE, MAGIC, SLIP, VERSION, checked
from castbed_adapters.udp.network import UdpNetwork
from castbed_plugins.eomp.repaired.packets import BundleNumbered, BundleRequest
from castbed_testbed.runner import judge
from namespaces import need_namespaces
from real_runs import CELLS, CHAT, delivered_sets, example_on, kinds_of, run_on, running, summary_of, verdicts

pytestmark = pytest.mark.udp
ANYWHERE = ["udp", pytest.param("netns", marks=pytest.mark.netns)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_while_the_network_is_opened_undoes_what_was_done(
    number: signal.Signals, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def open_it(_: UdpNetwork) -> None:
        os.kill(os.getpid(), number)
        raise UnavailableError("the signal was not heeded")

    def close(_: UdpNetwork) -> None:
        os.kill(os.getpid(), number)  # an impatient user
        done.append("closed")

    monkeypatch.setattr(UdpNetwork, "open", open_it)
    monkeypatch.setattr(UdpNetwork, "close", close)
    before = signal.signal(number, ignored := lambda *_: None)
    try:
        with pytest.raises(SystemExit) as caught:
            run_on("udp", CHAT, tmp_path)
        assert signal.getsignal(number) is ignored
    finally:
        signal.signal(number, before)
    assert (caught.value.code, done) == (code, ["closed"])


def available(transport: str) -> None:
    """Skip the test where this machine has no such thing."""
    if transport == "netns":
        need_namespaces()


LONG = {**CHAT, "duration": "60s", "transport": {"name": "udp"}, "workload": {"kind": "steady", "rate": 40}}


@pytest.mark.parametrize("name", ["plain", "lossy", "two-questions", "eomp-plain", "eomp-lossy"])
def test_the_examples_keep_every_promise_on_real_sockets(name: str, tmp_path: Path) -> None:
    outcome = example_on("udp", name, tmp_path, "duration=1500ms", "drain=3s")
    assert outcome.failures == []
    assert outcome.violations, "nothing was judged"
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0
    assert outcome.summary["links"].get("overrun", 0) == 0


@pytest.mark.parametrize("data", [CHAT, CELLS], ids=["broadcast", "three tiers"])
def test_simulator_and_sockets_deliver_the_same_and_judge_the_same(data: dict[str, Any], tmp_path: Path) -> None:
    simulated, real = run_on("sim", data, tmp_path), run_on("udp", data, tmp_path)
    assert verdicts(simulated) == verdicts(real)
    assert delivered_sets(simulated) == delivered_sets(real)
    assert simulated.summary["submitted"] == real.summary["submitted"] > 0


@pytest.mark.parametrize("transport", ANYWHERE)
def test_what_everybody_says_at_time_zero_is_lost_at_nobody(transport: str, tmp_path: Path) -> None:
    available(transport)
    names = [f"n{number}" for number in range(8)]
    lines = [{"node": name, "at": "0s", "say": f"first of {name}"} for name in names]
    data = {
        **CHAT,
        "protocol": {"name": "sb", "variant": "published"},
        "topology": {"kind": "broadcast", "members": names},
    }
    outcome = run_on(
        transport,
        {**data, "duration": "300ms", "drain": "1s", "workload": {"kind": "script", "lines": lines}},
        tmp_path,
    )
    assert outcome.failures == []
    assert outcome.summary["delivered"] == len(names) ** 2


def test_several_nodes_may_share_a_process(tmp_path: Path) -> None:
    outcome = run_on("udp", CELLS, tmp_path, {"processes": 2})
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0


@pytest.mark.parametrize("transport", ANYWHERE)
@pytest.mark.parametrize("data", [CHAT, CELLS], ids=["broadcast", "three tiers"])
def test_a_frame_is_received_after_it_was_sent(data: dict[str, Any], transport: str, tmp_path: Path) -> None:
    available(transport)
    run_on(transport, data, tmp_path)
    sent: dict[bytes, int] = {}
    received: list[tuple[bytes, int]] = []
    for capture in read_captures(tmp_path / transport):
        for frame in capture.frames:
            if frame.outgoing:
                sent.setdefault(frame.data[ETHERNET_BYTES:], frame.at)  # a digest may be sent again
            else:
                received.append((frame.data[ETHERNET_BYTES:], frame.at))
    assert len(received) > len(sent) > 0
    assert [at for frame, at in received if at < sent[frame]] == []


def test_a_partition_and_a_one_way_cut_are_felt_and_counted(tmp_path: Path) -> None:
    faults = {
        "partitions": [{"sides": [["A"], ["B", "C"]], "start": "0s", "end": "500ms"}],
        "cuts": [{"source": "B", "target": "C", "start": "500ms", "end": "1s"}],
    }
    outcome = run_on("udp", {**CHAT, "drain": "4s", "faults": faults}, tmp_path)
    assert outcome.failures == []
    assert outcome.summary["faults"]["partitions"] > 0
    assert outcome.summary["faults"]["cuts"] > 0


def test_a_crash_kills_the_process_and_a_restart_goes_on_with_what_was_kept(tmp_path: Path) -> None:
    data = {
        **CHAT,
        "duration": "2s",
        "drain": "4s",
        "protocol": {"name": "m2mc"},
        "application": {"name": "chat"},
        "topology": {"kind": "broadcast", "members": ["A", "B", "C"], "groups": {}},
        "workload": {
            "kind": "script",
            "lines": [
                {"node": "A", "do": "create-group", "with": {"desc": "talk"}},
                {"node": "A", "at": "1s", "group": "1.A", "say": "Is B there?", "label": "question"},
                {"node": "C", "at": "1s", "group": "1.A", "reply_to": "question", "say": "Not now"},
            ],
        },
        "faults": {"crashes": [{"node": "B", "at": "700ms"}], "restarts": [{"node": "B", "at": "1500ms"}]},
    }
    outcome = run_on("udp", data, tmp_path)
    assert outcome.failures == []
    assert outcome.history is not None
    lives = [
        kind for kind in kinds_of(outcome.history, "B") if kind in (Kind.START, Kind.CRASH, Kind.RESTART, Kind.STOP)
    ]
    assert lives == [Kind.START, Kind.CRASH, Kind.RESTART, Kind.STOP]
    assert delivered_sets(outcome)["B"] == {"A1", "C1"}


@pytest.mark.parametrize("transport", ANYWHERE)
def test_a_node_killed_from_outside_leaves_a_readable_capture_and_a_right_verdict(
    transport: str, tmp_path: Path
) -> None:
    available(transport)
    data = {**LONG, "duration": "3s", "transport": {"name": transport}}
    with running(data, tmp_path) as run:
        run.wait_for_deliveries()
        os.kill(run.process_of("B"), signal.SIGKILL)
        code, out, error = run.finish()
        assert run.is_gone()
    assert (code, error) == (0, "")
    assert summary_of(out)["faults"]["killed"] == 1
    killed = read_capture(tmp_path / "run" / "captures" / "B.pcapng")
    assert killed.problems == []
    assert killed.events[-1].kind == Kind.CRASH
    assert any(event.kind == Kind.DELIVER for event in killed.events)
    judged, problems = judge(tmp_path / "run", load_registry())
    assert (judged.failures, problems) == ([], [])


def test_nothing_is_left_of_a_run_whose_controller_is_killed(tmp_path: Path) -> None:
    with running(LONG, tmp_path) as run:
        run.wait_for_deliveries()
        assert len(run.processes()) == 5, "the controller, the nursery and three nodes"
        os.kill(run.process.pid, signal.SIGKILL)
        assert run.is_gone()
    assert all(capture.events for capture in read_captures(tmp_path / "run"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_run_that_is_stopped_ends_its_nodes_and_completes_their_captures(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    with running(LONG, tmp_path) as run:
        run.wait_for_deliveries()
        for process in {run.process.pid} if number == signal.SIGTERM else run.processes():
            with suppress(ProcessLookupError):  # the others end as soon as the controller has heard of it
                os.kill(process, number)  # a terminal tells all that somebody interrupts, or that it is closed
        assert run.finish()[0] == code
        assert run.is_gone()
    assert list(scratch.iterdir()) == [], "the temporary directory is gone, too"
    for capture in read_captures(tmp_path / "run"):
        assert capture.problems == []
        assert capture.events[-1].kind == Kind.STOP


def test_the_death_of_the_process_that_starts_nodes_is_said(tmp_path: Path) -> None:
    faults = {"crashes": [{"node": "B", "at": "3s"}]}
    with running({**LONG, "protocol": {"name": "sb", "variant": "repaired"}, "faults": faults}, tmp_path) as run:
        run.wait_for_deliveries()
        os.kill(min(run.processes() - {run.process.pid}), signal.SIGKILL)
        code, _, error = run.finish()
        assert run.is_gone()
    assert code == 3
    assert "the process that starts nodes died" in error


def test_two_runs_at_a_time_do_not_hear_each_other(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    data = {**CHAT, "transport": {"name": "udp"}}
    with running(data, one) as first, running(data, other) as second:
        ends = first.finish(), second.finish()
    for code, out, error in ends:
        assert (code, error) == (0, "")
        assert summary_of(out)["delivered"] == summary_of(out)["expected"] == 54


def test_an_interface_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with running({**CHAT, "transport": {"name": "udp", "options": {"interface": "none0"}}}, tmp_path) as run:
        code, _, error = run.finish()
    assert code == 2
    assert "transport.options.interface: there is no interface 'none0' (there are: " in error


def test_a_rerun_compares_verdicts_because_the_bytes_differ(tmp_path: Path) -> None:
    from castbed_testbed.cli.running import rerun_command

    run_on("udp", {**CHAT, "duration": "700ms", "drain": "1s"}, tmp_path)
    assert rerun_command(tmp_path / "udp", None, True) == 0


def test_junk_and_forged_datagrams_reach_no_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, random, stopped = bytes(range(8)), Random(3), Event()
    monkeypatch.setattr("castbed_testbed.hosting.runner.os.urandom", lambda size: token)
    groups = draw_groups(find_interface("lo", 4), token)
    envelope = ENVELOPE.pack(MAGIC, VERSION, token, 1, SHARED_AIR)

    def shower() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            while not stopped.wait(0.002):
                junk = random.randbytes(random.randint(0, 200))
                forged = checked(envelope + SLIP.pack(len(junk), 0) + junk)
                for datagram in (junk, forged, forged[:-1]):
                    stranger.sendto(datagram, groups.reached_at(groups.of_cell(SHARED_AIR)))

    thread = Thread(target=shower)
    thread.start()
    try:
        outcome = run_on("udp", CHAT, tmp_path)
    finally:
        stopped.set()
        thread.join()
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] == 54
    assert outcome.summary["dropped"] == 0
    assert outcome.summary["links"]["malformed"] > 300
    assert outcome.summary["links"]["foreign"] > 300


def test_bundles_survive_losses_and_kills_of_a_host_and_of_the_sequencer(tmp_path: Path) -> None:
    crashes = [{"node": "h2", "at": "500ms"}, {"node": "Q", "at": "1s"}]
    data = {
        "name": "bundles",
        "protocol": {"name": "eomp", "options": {"window": 1}},
        "duration": "1500ms",
        "drain": "5s",
        "topology": {"kind": "three_tier", "coordinators": {"C1": ["S1"], "C2": ["S2"]}, "hosts": 3},
        "workload": {"kind": "steady", "rate": 400, "replies": 0.2},
        "faults": {
            "loss": 0.01,
            "crashes": crashes,
            "restarts": [{"node": "h2", "at": "900ms"}, {"node": "Q", "at": "1400ms"}],
            "handoffs": [{"host": "h1", "at": "700ms", "to": "S2"}],
        },
    }
    outcome = run_on("udp", data, tmp_path)
    assert outcome.failures == []
    station = read_capture(tmp_path / "udp" / "captures" / "S1.pcapng")
    kinds = Counter(header.kind for header in sent_headers(station))
    assert min(kinds[kind_of(packet)] for packet in (BundleRequest, BundleNumbered)) > 10
