"""Machines on real links: what happens to them is what happens in the simulator, in real time."""

from __future__ import annotations

import errno
import gc
from pathlib import Path
from typing import Any

import pytest
import testbed_support
from testbed_support import Seen, cells, do, post, probe, registry, say, script, simulated

from castbed import ContractError, Kind, UnavailableError
from castbed.capture import read_captures
from castbed_testbed.experiment import load
from castbed_testbed.hosting import life
from castbed_testbed.hosting.controller import Controller
from castbed_testbed.hosting.process import _loop_factory
from castbed_testbed.plan import make_plan
from castbed_testbed.report import HostReport
from castbed_testbed.runner import run_experiment
from namespaces import need_namespaces

SHORT = {"duration": "1s", "drain": "400ms"}


def hosted(data: dict[str, Any], folder: Path, name: str = "udp", **options: Any) -> Seen:
    """Run the experiment on sockets."""
    transport = {"name": name, "options": options}
    outcome = run_experiment(load({**data, **SHORT, "transport": transport}), registry(), folder / "run")
    assert outcome.history is not None
    summary = outcome.summary
    report = HostReport(summary["submitted"], summary["delivered"], effects=summary["faults"], links=summary["links"])
    return Seen(outcome.history, report)


def words(seen: Seen, name: str) -> list[str]:
    return [text for text, _ in seen.notes(name)]


def test_a_broadcast_reaches_everybody_else_and_a_message_for_some_only_those(tmp_path: Path) -> None:
    seen = hosted(probe(workload=script(say("A", "0s", "all"), say("B", "100ms", "two", to=["A", "C"]))), tmp_path)
    assert [seen.delivered(name) for name in "ABC"] == [["B1"], ["A1"], ["A1", "B1"]]


def test_a_sender_hears_itself_where_the_protocol_needs_that(tmp_path: Path) -> None:
    data = probe(protocol={"name": "probe", "variant": "own-copy"}, workload=script(say("A", "0s")))
    seen = hosted(data, tmp_path)
    assert [seen.delivered(name) for name in "ABC"] == [["A1"]] * 3


@pytest.mark.parametrize("uvloop", [True, False], ids=["uvloop", "asyncio"])
def test_the_event_loop_of_python_itself_will_do(uvloop: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not uvloop:
        monkeypatch.setattr("castbed_testbed.hosting.process.find_spec", lambda name: None)
    made = _loop_factory()
    assert (made is not None and made.__module__.startswith("uvloop")) is uvloop
    seen = hosted(cells(workload=script(say("S1", "0s", "mail", to=["S2"]), say("S1", "100ms", "news"))), tmp_path)
    assert (seen.delivered("S2"), seen.delivered("a")) == (["S1.1"], ["S1.2"])


def test_timers_ring_when_they_should_and_not_when_cancelled(tmp_path: Path) -> None:
    lines = [
        do("A", "0s", "set-alarm", name="tea", delay="200ms"),
        do("A", "0s", "set-alarm", name="egg", delay="100ms"),
        do("A", "50ms", "cancel-alarm", name="egg"),
    ]
    notes = hosted(probe(workload=script(*lines)), tmp_path).notes("A")
    assert [text for text, _ in notes] == ["life 0, kept None", "tea rang"]
    assert 200 <= notes[1][1] < 1_000


@pytest.mark.netns
def test_a_timer_counts_from_when_all_is_sent_where_the_air_has_a_rate(tmp_path: Path) -> None:
    """Ten frames of 1 058 bytes at 1 Mbit/s."""
    need_namespaces()
    shout = do("A", "100ms", "shout", times=10, size=1000)
    alarm = do("A", "100ms", "set-alarm", name="sent", delay="0ms", when_sent=True)
    (_, (text, at)) = hosted(probe(workload=script(shout, alarm)), tmp_path, "netns").notes("A")
    assert text == "sent rang"
    assert at >= 184


def test_absence_and_return_look_to_the_machine_as_in_the_simulator(tmp_path: Path) -> None:
    faults = {"absences": [{"node": "B", "start": "100ms", "end": "300ms"}]}
    data = probe(workload=script(say("A", "200ms", "unheard"), say("A", "400ms", "heard")), faults=faults)
    seen = hosted(data, tmp_path)
    assert words(seen, "B") == words(simulated(data), "B")
    assert (seen.delivered("B"), seen.delivered("C")) == (["A2"], ["A1", "A2"])
    assert seen.report.effects == {"absences": 1}


def test_a_host_hears_the_cell_that_it_is_in(tmp_path: Path) -> None:
    handoffs = [{"host": "c", "at": "200ms", "to": "S1"}]
    lines = [say("S1", "100ms", "early"), say("S1", "400ms", "late"), say("c", "500ms", "here")]
    data = cells(workload=script(*lines), faults={"handoffs": handoffs})
    seen, simulation = hosted(data, tmp_path), simulated(data)
    assert seen.delivered("a") == seen.delivered("b") == ["S1.1", "S1.2", "c1"]
    assert seen.delivered("c") == ["S1.2"]
    assert words(seen, "c") == words(simulation, "c")
    assert [seen.delivered(name) for name in ("S1", "S2", "a", "b", "c")] == [
        simulation.delivered(name) for name in ("S1", "S2", "a", "b", "c")
    ]


def test_frames_between_stations_go_over_wires_and_are_captured_there(tmp_path: Path) -> None:
    seen = hosted(cells(workload=script(say("S1", "0s", "mail", to=["S2"]))), tmp_path)
    assert seen.delivered("S2") == ["S1.1"]
    media = {frame.medium for capture in read_captures(tmp_path / "run") for frame in capture.frames}
    assert media == {"wire"}


def test_a_cut_delays_what_is_on_a_wire_and_keeps_its_order(tmp_path: Path) -> None:
    cut = {"source": "A", "target": "B", "start": "0s", "end": "300ms"}
    lines = [say("A", "50ms", "first"), say("A", "299ms", "second"), say("A", "301ms", "third")]
    seen = hosted(post(workload=script(*lines), faults={"cuts": [cut]}), tmp_path)
    assert seen.delivered("B") == ["A1", "A2", "A3"]
    assert seen.deliveries("C")[0][1] < seen.deliveries("B")[0][1] >= 300_000


def test_what_a_node_holds_back_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "HELD_BYTES_MAX", 300)
    cut = {"source": "A", "target": "B", "start": "0s", "end": "300ms"}
    held = [say("A", f"{at}ms") for at in (50, 100, 150)]
    seen = hosted(post(workload=script(*held), faults={"cuts": [cut]}), tmp_path / "fits")
    assert seen.delivered("B") == ["A1", "A2", "A3"]
    with pytest.raises(UnavailableError, match="B holds back 300 bytes that came over wires, and no more fits"):
        hosted(post(workload=script(*held, say("A", "200ms")), faults={"cuts": [cut]}), tmp_path / "too-much")


def test_a_node_keeps_what_it_persisted_through_a_kill_and_its_wires_come_back(tmp_path: Path) -> None:
    faults = {"crashes": [{"node": "B", "at": "100ms"}], "restarts": [{"node": "B", "at": "150ms"}]}
    lines = [do("B", "0s", "keep", value="treasure"), say("A", "900ms", "to B"), say("B", "900ms", "from B")]
    seen = hosted(post(workload=script(*lines), faults=faults), tmp_path)
    assert words(seen, "B") == ["life 0, kept None", "life 1, kept treasure"]
    assert (seen.delivered("B"), seen.delivered("A")) == (["A1"], ["B1~1"])
    lived = (Kind.START, Kind.CRASH, Kind.RESTART, Kind.STOP)
    assert [event.kind for event in seen.events("B", *lived)] == list(lived)
    assert seen.report.effects == {"crashes": 1, "restarts": 1}


def test_a_node_whose_storage_is_lost_starts_with_nothing(tmp_path: Path) -> None:
    restart = {"node": "B", "at": "150ms", "storage": False}
    faults = {"crashes": [{"node": "B", "at": "100ms"}], "restarts": [restart]}
    seen = hosted(probe(workload=script(do("B", "0s", "keep", value="treasure")), faults=faults), tmp_path)
    assert words(seen, "B") == ["life 0, kept None", "life 1, kept None"]


def test_what_a_machine_blames_on_a_peer_is_dropped_and_the_run_goes_on(tmp_path: Path) -> None:
    seen = hosted(probe(workload=script(say("A", "0s", "wrong"), say("A", "100ms", "right"))), tmp_path)
    assert [event.text for event in seen.events("B", Kind.DROP)] == ["a wrong packet"]
    assert seen.delivered("B") == ["A2"]


def test_a_packet_that_no_datagram_holds_is_dropped_and_counted(tmp_path: Path) -> None:
    seen = hosted(probe(workload=script(do("A", "0s", "shout", size=100_000), say("A", "100ms"))), tmp_path)
    assert "a frame on this air holds" in seen.events("A", Kind.DROP)[0].text
    assert seen.delivered("B") == ["A1"]


@pytest.mark.parametrize("transport", ["udp", pytest.param("netns", marks=pytest.mark.netns)])
def test_many_frames_of_one_step_arrive_in_order(transport: str, tmp_path: Path) -> None:
    if transport == "netns":
        need_namespaces()
    topology = {"kind": "broadcast", "members": ["A", "B", "C"], "air": {"rate": "54Mbit/s"}}
    burst = script(do("A", "0s", "shout", times=2_000, size=200))
    seen = hosted(probe(topology=topology, workload=burst), tmp_path, transport)
    assert seen.delivered("B") == seen.delivered("C") == [f"A{number}" for number in range(1, 2_001)]
    lost = {name: count for name, count in seen.report.links.items() if count and name not in NO_LOSSES}
    assert lost == {}


NO_LOSSES = ("small_buffer", "medium_late_us_max")


def test_who_moves_while_it_starts_again_is_in_the_new_cell(tmp_path: Path) -> None:
    faults = {
        "crashes": [{"node": "c", "at": "100ms"}],
        "restarts": [{"node": "c", "at": "150ms"}],
        "handoffs": [{"host": "c", "at": "150ms", "to": "S1"}],
    }
    data = cells(workload=script(say("S1", "800ms", "late")), faults=faults)
    seen = hosted(data, tmp_path)
    assert seen.delivered("c") == simulated(data).delivered("c") == ["S1.1"]
    assert seen.report.effects == {"crashes": 1, "restarts": 1, "handoffs": 1}


def test_a_crash_strikes_a_node_that_is_just_starting_again(tmp_path: Path) -> None:
    crashes = [{"node": "B", "at": "100ms"}, {"node": "B", "at": "151ms"}]
    data = post(faults={"crashes": crashes, "restarts": [{"node": "B", "at": "150ms"}]}, workload=script())
    seen, simulation = hosted(data, tmp_path), simulated(data)
    lived = (Kind.START, Kind.CRASH, Kind.RESTART, Kind.STOP)
    kinds = [event.kind for event in seen.events("B", *lived)]
    assert kinds == [Kind.START, Kind.CRASH, Kind.RESTART, Kind.CRASH]
    assert seen.report.effects == simulation.report.effects == {"crashes": 2, "restarts": 1}


def test_a_node_that_is_starting_again_is_not_started_twice(tmp_path: Path) -> None:
    restarts = [{"node": "B", "at": "150ms"}] * 2
    data = post(faults={"crashes": [{"node": "B", "at": "100ms"}], "restarts": restarts}, workload=script())
    seen = hosted(data, tmp_path)
    assert words(seen, "B") == ["life 0, kept None", "life 1, kept None"]
    assert seen.report.effects == simulated(data).report.effects == {"crashes": 1, "restarts": 1}


def test_nodes_that_start_again_together_have_one_wire_between_them(tmp_path: Path) -> None:
    faults = {
        "crashes": [{"node": name, "at": "100ms"} for name in "AB"],
        "restarts": [{"node": name, "at": "150ms"} for name in "AB"],
    }
    lines = [say("A", "800ms", "to B"), say("B", "800ms", "to A"), say("C", "800ms", "to both")]
    seen = hosted(post(faults=faults, workload=script(*lines)), tmp_path)
    assert sorted(seen.delivered("A")) == ["B1~1", "C1"]
    assert sorted(seen.delivered("B")) == ["A1~1", "C1"]


def test_a_process_that_was_killed_is_heard_to_its_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but the conversation with it knows it by then: if that were collected, Python would complain."""
    happen = Controller._happen

    def happen_and_collect(self: Controller, *happening: Any) -> None:
        happen(self, *happening)
        gc.collect()

    monkeypatch.setattr(Controller, "_happen", happen_and_collect)
    faults = {"crashes": [{"node": "A", "at": "100ms"}]}
    assert hosted(post(faults=faults, workload=script(say("C", "300ms", "to B"))), tmp_path).delivered("B") == ["C1"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workload": script(do("A", "0s", "shout", to=9))}, "A: A sent Said to node 9, which does not exist"),
        ({"application": {"name": "sleepless"}}, "an application on A wants to be woken in the past"),
    ],
)
def test_a_bug_at_a_node_ends_the_run_with_its_words(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=words):
        hosted(probe(topology={"kind": "broadcast", "members": ["A"]}, **changes), tmp_path)


def test_in_a_shared_process_the_node_that_has_the_bug_is_named(tmp_path: Path) -> None:
    bug = script(do("B", "100ms", "shout", to=9))
    with pytest.raises(ContractError, match=r"^B: B sent Said to node 9"):
        hosted(probe(workload=bug), tmp_path, processes=1)


def test_a_wire_that_cannot_be_connected_ends_the_run_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr("asyncio.selector_events.BaseSelectorEventLoop.sock_connect", refuse)
    monkeypatch.setattr("castbed_testbed.hosting.process.find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"[BC] cannot reach over a wire: A \(No route to host\)"):
        hosted(post(workload=script(say("A", "0s"))), tmp_path)


def test_without_captures_there_are_counters_only(tmp_path: Path) -> None:
    data = probe(**SHORT, transport={"name": "udp"}, workload=script(say("A", "0s")))
    outcome = run_experiment(load(data), registry(), tmp_path / "run", captures=False)
    assert (outcome.summary["submitted"], outcome.summary["delivered"], outcome.summary["frames"]) == (1, 2, 1)
    assert not (tmp_path / "run").exists()


def test_a_program_keeps_its_pace_although_timers_are_late(tmp_path: Path) -> None:
    steady = {"kind": "steady", "rate": 1000, "arrivals": "regular", "senders": 1}
    seen = hosted(probe(workload=steady), tmp_path)
    assert 900 <= seen.report.submitted <= 1_001


def test_a_plan_knows_the_network_of_its_transport() -> None:
    plan = make_plan(load(probe(transport={"name": "udp"})).experiment, registry())
    assert plan.transport.network
    assert not make_plan(load(probe()).experiment, registry()).transport.network
    assert testbed_support.PROBE is plan.chosen.protocol
