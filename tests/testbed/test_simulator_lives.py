"""Nodes of the simulator: timers, crashes, restarts, storage, absences, moves, groups, and programs on top of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from testbed_support import cells, changed, do, planned, post, probe, say, script, simulated

from castbed import ContractError, Kind
from castbed_testbed.sim import simulation
from castbed_testbed.sim.kernel import Kernel

EVERYBODY = ("A", "B", "C")


def lives(*lines: dict[str, Any], **faults: list[dict[str, Any]]) -> Any:
    return simulated(probe(workload=script(*lines), faults=faults))


def at(node: str, when: str, **more: Any) -> dict[str, Any]:
    return {"node": node, "at": when, **more}


def moments(events: list[Any]) -> list[tuple[str, int]]:
    return [(event.kind.name, event.at // 1_000_000) for event in events]


# --- timers ----------------------------------------------------------------------------------------------------------


def test_a_timer_rings_after_its_delay_and_once() -> None:
    seen = lives(do("A", "10ms", "set-alarm", name="egg", delay="5ms"))
    assert seen.notes("A")[1:] == [("egg rang", 15)]


def test_a_timer_that_is_set_again_is_replaced() -> None:
    earlier = [do("A", f"{ms}ms", "set-alarm", name="egg", delay="20ms") for ms in (10, 20)]
    assert lives(*earlier).notes("A")[1:] == [("egg rang", 40)]
    shorter = [do("A", "10ms", "set-alarm", name="egg", delay=delay) for delay in ("20ms", "5ms")]
    assert lives(*shorter).notes("A")[1:] == [("egg rang", 15)]


def test_a_cancelled_timer_does_not_ring_and_others_do() -> None:
    lines = [do("A", "10ms", "set-alarm", name=name, delay="5ms") for name in ("egg", "tea")]
    seen = lives(*lines, do("A", "12ms", "cancel-alarm", name="egg"), do("A", "13ms", "cancel-alarm", name="none"))
    assert seen.notes("A")[1:] == [("tea rang", 15)]


def test_timers_that_are_due_at_one_time_ring_in_the_order_in_which_they_were_set() -> None:
    lines = [
        do("A", "10ms", "set-alarm", name="first", delay="20ms"),
        do("A", "20ms", "set-alarm", name="second", delay="10ms"),
        do("A", "15ms", "set-alarm", name="between", delay="15ms"),
    ]
    assert [note for note, _ in lives(*lines).notes("A")[1:]] == ["first rang", "between rang", "second rang"]


def test_each_node_has_its_own_timers() -> None:
    lines = [do(name, "10ms", "set-alarm", name="egg", delay=f"{after}ms") for name, after in (("A", 5), ("B", 9))]
    seen = lives(*lines)
    assert (seen.notes("A")[1:], seen.notes("B")[1:]) == ([("egg rang", 15)], [("egg rang", 19)])


# --- crashes and restarts --------------------------------------------------------------------------------------------


def test_a_crash_ends_timers_and_programs() -> None:
    lines = [do("A", "10ms", "set-alarm", name="egg", delay="50ms"), say("A", "90ms")]
    seen = lives(*lines, crashes=[at("A", "20ms")])
    assert [note for note, _ in seen.notes("A")] == ["life 0, kept None"]
    assert moments(seen.events("A", Kind.START, Kind.CRASH, Kind.STOP)) == [("START", 0), ("CRASH", 20)]
    assert seen.delivered("B") == []
    assert seen.report.effects == {"crashes": 1}


def test_a_timer_of_an_earlier_life_does_not_ring_in_the_next() -> None:
    alarm = do("A", "10ms", "set-alarm", name="egg", delay="50ms")
    seen = lives(alarm, crashes=[at("A", "20ms")], restarts=[at("A", "30ms")])
    assert [note for note, _ in seen.notes("A")] == ["life 0, kept None", "life 1, kept None"]


@pytest.mark.parametrize("make", [probe, post])
def test_what_is_in_flight_to_a_crashed_node_is_lost(make: Any) -> None:
    medium = "air" if make is probe else "wire"
    data = make(workload=script(say("A", "10ms")), faults={"crashes": [at("B", "12ms")]})
    seen = simulated(changed(f"topology.{medium}.delay", "5ms", data))
    assert (seen.delivered("B"), seen.delivered("C")) == ([], ["A1"])


@pytest.mark.parametrize("air", [{"delay": "5ms"}, {"delay": {"kind": "uniform", "low": "4ms", "high": "6ms"}}])
@pytest.mark.parametrize("shared", ["none", "cell"])
def test_what_a_transmitter_has_not_sent_goes_down_with_its_node(air: dict[str, Any], shared: str) -> None:
    """Of three frames of 464 us the second is cut short; what another node has in the same queue is sent."""
    lines = [do(name, "10ms", "shout", times=times) for name, times in (("A", 3), ("B", 1))]
    faults = {"crashes": [{"node": "A", "at": "10.6ms"}], "restarts": [at("A", "11ms")]}
    data = probe(workload=script(*lines), faults=faults)
    seen = simulated(changed("topology.air", {"rate": "1Mbit/s", "shared": shared, **air}, data))
    assert sorted(seen.delivered("C")) == ["A1", "B1"]


def test_what_was_handed_to_a_wire_outlives_its_sender() -> None:
    faults = {"crashes": [{"node": "A", "at": "10.6ms"}]}
    seen = simulated(post(workload=script(do("A", "10ms", "shout", times=3, to=2)), faults=faults))
    assert seen.delivered("B") == ["A1", "A2", "A3"]


def test_a_restart_keeps_the_storage_and_counts_the_lives() -> None:
    kept = do("A", "10ms", "keep", value="ten")
    seen = lives(kept, crashes=[at("A", "20ms")], restarts=[at("A", "30ms")])
    assert seen.notes("A") == [("life 0, kept None", 0), ("life 1, kept ten", 30)]
    (restart,) = seen.events("A", Kind.RESTART)
    assert restart.number == 1
    assert moments(seen.events("A", Kind.START, Kind.CRASH, Kind.RESTART, Kind.STOP))[1:] == [
        ("CRASH", 20),
        ("RESTART", 30),
        ("STOP", 2000),
    ]


def test_a_restart_without_storage_begins_from_nothing() -> None:
    kept = do("A", "10ms", "keep", value="ten")
    twice = [at("A", "20ms"), at("A", "40ms")]
    seen = lives(kept, crashes=twice, restarts=[at("A", "30ms", storage=False), at("A", "50ms")])
    assert [note for note, _ in seen.notes("A")] == ["life 0, kept None", "life 1, kept None", "life 2, kept None"]
    assert [event.number for event in seen.events("A", Kind.RESTART)] == [0, 1]


def test_a_value_that_was_forgotten_stays_forgotten() -> None:
    lines = [do("A", "10ms", "keep", value="ten"), do("A", "11ms", "keep", value="")]
    seen = lives(*lines, crashes=[at("A", "20ms")], restarts=[at("A", "30ms")])
    assert seen.notes("A")[1] == ("life 1, kept None", 30)


def test_a_restarted_node_hears_and_is_heard_and_goes_on_with_its_script() -> None:
    lines = [say("A", "10ms", "before"), say("A", "25ms", "meanwhile"), say("A", "40ms", "after"), say("B", "50ms")]
    seen = lives(*lines, crashes=[at("A", "20ms")], restarts=[at("A", "30ms")])
    assert seen.delivered("B") == ["A1", "A1~1"]
    assert seen.delivered("A") == ["B1"]


def test_the_groups_are_joined_again_after_a_restart() -> None:
    seen = lives(crashes=[at("A", "20ms")], restarts=[at("A", "30ms")])
    assert moments(seen.events("A", Kind.JOIN)) == [("JOIN", 0), ("JOIN", 30)]


@pytest.mark.parametrize(
    "faults", [{"restarts": [at("A", "30ms")]}, {"crashes": [at("A", "1ms")], "restarts": [at("B", "30ms")]}]
)
def test_a_restart_of_a_node_that_is_up_has_no_effect(faults: dict[str, Any]) -> None:
    seen = lives(**faults)
    assert seen.report.effects["restarts"] == 0
    assert seen.events("A", Kind.RESTART) == []


def test_a_node_crashes_only_once_at_a_time() -> None:
    assert lives(crashes=[at("A", "10ms"), at("A", "20ms")]).report.effects == {"crashes": 1}


# --- absences and moves ----------------------------------------------------------------------------------------------

ABSENCE = {"node": "A", "start": "100ms", "end": "200ms"}


def test_an_absent_node_hears_nothing_and_is_not_heard() -> None:
    lines = [say(name, when, f"{name} {when}") for name in ("A", "B") for when in ("50ms", "150ms", "250ms")]
    seen = lives(*lines, absences=[ABSENCE])
    assert seen.delivered("A") == ["B1", "B3"]
    assert seen.delivered("B") == ["A1", "A3"]
    assert seen.delivered("C") == ["A1", "B1", "B2", "A3", "B3"]


def test_an_absence_is_told_recorded_and_counted_once() -> None:
    seen = lives(absences=[ABSENCE])
    assert seen.notes("A")[1:] == [("detached", 100), ("attached to 0", 200)]
    assert moments(seen.events("A", Kind.DETACH, Kind.ATTACH)) == [("DETACH", 100), ("ATTACH", 200)]
    assert seen.report.effects == {"absences": 1}


def test_an_absent_node_still_gets_its_own_copy() -> None:
    data = probe(protocol={"name": "probe", "variant": "own-copy"}, workload=script(say("A", "150ms")))
    seen = simulated({**data, "faults": {"absences": [ABSENCE]}})
    assert [seen.deliveries(name) for name in EVERYBODY] == [[("A1", 150_800)], [], []]


def test_who_left_before_the_copy_arrives_does_not_hear_it() -> None:
    data = probe(workload=script(say("B", "90ms")), faults={"absences": [ABSENCE]})
    seen = simulated(changed("topology.air.delay", "20ms", data))
    assert (seen.delivered("A"), seen.delivered("C")) == ([], ["B1"])


def test_who_comes_while_a_copy_is_on_its_way_does_not_hear_it() -> None:
    data = probe(workload=script(say("B", "190ms")), faults={"absences": [ABSENCE]})
    seen = simulated(changed("topology.air.delay", "20ms", data))
    assert (seen.delivered("A"), seen.delivered("C")) == ([], ["B1"])


def test_a_node_that_restarts_while_it_is_absent_stays_absent() -> None:
    lines = [say("B", when, f"B {when}") for when in ("150ms", "250ms")]
    seen = lives(*lines, absences=[ABSENCE], crashes=[at("A", "110ms")], restarts=[at("A", "120ms")])
    assert seen.delivered("A") == ["B2"]
    assert moments(seen.events("A", Kind.DETACH, Kind.ATTACH)) == [("DETACH", 100), ("ATTACH", 200)]


def test_a_handoff_takes_the_host_to_the_other_cell() -> None:
    handoff = {"host": "a", "at": "100ms", "to": "S2"}
    lines = [say(station, when, f"{station} {when}") for station in ("S1", "S2") for when in ("50ms", "150ms")]
    seen = simulated(cells(workload=script(*lines), faults={"handoffs": [handoff]}))
    assert seen.delivered("a") == ["S1.1", "S2.2"]
    assert seen.delivered("b") == ["S1.1", "S1.2"]
    assert seen.notes("a")[1:] == [("attached to 1", 0), ("detached", 100), ("attached to 2", 100)]
    assert [event.peer for event in seen.events("a", Kind.ATTACH)] == [1, 2]
    assert seen.report.effects == {"handoffs": 1}


def test_a_handoff_to_nowhere_and_back() -> None:
    handoffs = [{"host": "a", "at": "100ms"}, {"host": "a", "at": "200ms", "to": "S1"}]
    lines = [say("S1", when, f"S1 {when}") for when in ("50ms", "150ms", "250ms")]
    seen = simulated(cells(workload=script(*lines, say("a", "160ms")), faults={"handoffs": handoffs}))
    assert seen.delivered("a") == ["S1.1", "S1.3"]
    assert seen.delivered("S1") == []


def test_a_handoff_to_the_cell_where_the_host_is_has_no_effect() -> None:
    seen = simulated(cells(faults={"handoffs": [{"host": "a", "at": "100ms", "to": "S1"}]}))
    assert seen.report.effects == {"handoffs": 0}
    assert seen.events("a", Kind.DETACH) == []


def test_a_host_that_starts_in_no_cell_is_told_nothing() -> None:
    hosts = {"a": "", "b": "S1", "c": "S2"}
    seen = simulated(changed("topology.hosts", hosts, cells()))
    assert seen.events("a", Kind.ATTACH) == []
    assert len(seen.events("b", Kind.ATTACH)) == 1


def test_mobile_hosts_go_from_cell_to_cell() -> None:
    seen = simulated(cells(mobility={"dwell": {"kind": "uniform", "low": "50ms", "high": "150ms"}, "hosts": ["a"]}))
    moves = seen.events("a", Kind.ATTACH, Kind.DETACH)
    assert [event.kind for event in moves] == [Kind.ATTACH, *[Kind.DETACH, Kind.ATTACH] * (len(moves) // 2)]
    stations = [event.peer for event in moves if event.kind == Kind.ATTACH]
    assert stations == [1 + number % 2 for number in range(len(stations))]
    times = [event.at for event in moves if event.kind == Kind.ATTACH]
    assert all(50_000_000 <= later - sooner <= 150_000_000 for sooner, later in pairwise(times))
    assert max(times) <= 1_000_000_000
    assert len(seen.events("b", Kind.ATTACH)) == 1
    assert seen.report.effects["mobility"] == len(stations) - 1 >= 6


def test_with_a_gap_a_mobile_host_is_nowhere_for_a_while() -> None:
    seen = simulated(cells(mobility={"dwell": "200ms", "gap": "30ms", "hosts": ["a"]}))
    expected = [("ATTACH", 0), ("DETACH", 200), ("ATTACH", 230), ("DETACH", 430), ("ATTACH", 460)]
    moves = moments(seen.events("a", Kind.ATTACH, Kind.DETACH))
    assert moves[:5] == expected
    assert seen.report.effects["mobility"] == len(moves) // 2


def test_the_relay_makes_up_for_every_move() -> None:
    data = cells(
        protocol={"name": "relay"},
        mobility={"dwell": {"kind": "exponential", "mean": "100ms"}, "gap": "20ms"},
        workload={"kind": "steady", "rate": 50},
        drain="5s",
    )
    seen = simulated(data)
    submitted = {event.mid for name in "abc" for event in seen.events(name, Kind.SUBMIT)}
    assert len(submitted) > 100
    for name in "abc":
        assert {event.mid for event in seen.events(name, Kind.DELIVER)} == submitted
        assert len(seen.events(name, Kind.DELIVER)) == len(submitted)


# --- faults that the seed draws --------------------------------------------------------------------------------------


def drawn(seed: int, **faults: Any) -> list[Any]:
    return list(planned(probe(seed=seed, faults=faults)).schedule.happenings)


@pytest.mark.parametrize("kind", ["random_crashes", "random_absences"])
def test_random_faults_come_from_the_seed(kind: str) -> None:
    plan = {"count": 5, "down" if kind == "random_crashes" else "length": "10ms"}
    assert drawn(1, **{kind: plan}) == drawn(1, **{kind: plan})
    assert drawn(1, **{kind: plan}) != drawn(2, **{kind: plan})
    assert len(drawn(1, **{kind: plan})) == 10


def test_one_random_fault_does_not_change_the_other() -> None:
    crashes = {"count": 5, "down": "10ms"}
    both = drawn(1, random_crashes=crashes, random_absences={"count": 3, "length": "10ms"})
    assert set(drawn(1, random_crashes=crashes)) < set(both)


def test_random_crashes_take_effect_as_often_as_asked() -> None:
    seen = simulated(probe(faults={"random_crashes": {"count": 7, "down": "10ms", "storage": False}}))
    assert seen.report.effects == {"random_crashes": 7}
    assert len(seen.history.of(Kind.CRASH)) == 7
    assert [event.number for event in seen.history.of(Kind.RESTART)] == [0] * 7


def test_random_absences_take_effect_as_often_as_asked() -> None:
    seen = simulated(probe(faults={"random_absences": {"count": 7, "length": "10ms"}}))
    assert seen.report.effects == {"random_absences": 7}
    assert len(seen.history.of(Kind.DETACH)) == len(seen.history.of(Kind.ATTACH)) == 7


# --- groups and programs ---------------------------------------------------------------------------------------------


def test_joins_and_leaves_ask_the_protocol() -> None:
    seen = lives(joins=[at("A", "10ms", group="7")], leaves=[at("B", "20ms"), at("A", "30ms", group="7")])
    assert [(event.group, *moments([event])[0]) for event in seen.events("A", Kind.JOIN, Kind.LEAVE)] == [
        (1, "JOIN", 0),
        (7, "JOIN", 10),
        (7, "LEAVE", 30),
    ]
    assert moments(seen.events("B", Kind.LEAVE)) == [("LEAVE", 20)]
    assert seen.report.effects == {"joins": 1, "leaves": 2}


def test_a_steady_sender_stops_when_it_leaves_its_group() -> None:
    workload = {"kind": "steady", "rate": 100, "arrivals": "regular", "senders": ["A"]}
    seen = simulated(probe(workload=workload, faults={"leaves": [at("A", "500ms")]}))
    times = [event.at for event in seen.events("A", Kind.SUBMIT)]
    assert 45 <= len(times) <= 51
    assert max(times) <= 500_000_000


def test_a_steady_workload_keeps_to_its_rate_its_count_and_its_senders() -> None:
    workload = {"kind": "steady", "rate": 100, "arrivals": "regular", "senders": 2, "size": "80B"}
    seen = simulated(probe(workload=workload))
    assert [len(seen.events(name, Kind.SUBMIT)) for name in EVERYBODY] == [100, 100, 0]
    assert {event.size for event in seen.history.of(Kind.SUBMIT)} == {80}
    limited = simulated(probe(workload={**workload, "count": 5, "start": "300ms"}))
    assert [len(limited.events(name, Kind.SUBMIT)) for name in EVERYBODY] == [5, 5, 0]
    assert min(event.at for event in limited.history.of(Kind.SUBMIT)) >= 300_000_000


def test_a_reply_waits_for_its_question() -> None:
    lines = [say("A", "100ms", "question?", label="q"), say("B", "0ms", "answer", reply_to="q")]
    (answer,) = lives(*lines).events("B", Kind.SUBMIT)
    assert answer.at > 100_000_000
    assert (answer.parent.sender, answer.parent.seqno) == (1, 1)


def test_an_application_that_answers_itself_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "STEPS_AT_ONE_TIME_MAX", 2_000)
    data = probe(protocol={"name": "probe", "variant": "echo"}, application={"name": "chatterbox"})
    with pytest.raises(ContractError, match="an application on A never stops answering itself"):
        simulated(data)


def test_an_application_that_is_answered_by_others_goes_on() -> None:
    seen = simulated(probe(application={"name": "chatterbox"}, duration="20ms", drain="0s"))
    assert seen.report.submitted > 3


def test_an_application_cannot_be_woken_in_the_past() -> None:
    with pytest.raises(ContractError, match="an application on A wants to be woken in the past"):
        simulated(probe(application={"name": "sleepless"}))


def test_a_timer_cannot_be_set_into_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    from testbed_support import Probe

    monkeypatch.setattr(Probe, "started", lambda self: self.set_timer("egg", -1))
    with pytest.raises(ContractError, match="A set the timer 'egg' into the past"):
        simulated(probe())


def test_a_host_that_was_away_comes_back_to_the_cell_that_it_left() -> None:
    absence = {"node": "a", "start": "300ms", "end": "500ms"}
    handoff = {"host": "a", "at": "100ms", "to": "S2"}
    seen = simulated(cells(faults={"absences": [absence], "handoffs": [handoff]}))
    assert [seen.history.name(event.peer) for event in seen.events("a", Kind.ATTACH)] == ["S1", "S2", "S2"]


def test_time_that_stands_still_ends_the_run() -> None:
    def again(_: object) -> None:
        kernel.at(kernel.now, again, None)

    kernel = Kernel()
    kernel.at(5, again, None)
    with pytest.raises(ContractError, match="time stands still at 5 ns"):
        kernel.run(10)


def test_times_in_a_history_are_plain_numbers_also_after_a_fault() -> None:
    seen = lives(crashes=[at("A", "10ms")], restarts=[at("A", "20ms")])
    assert {type(event.at) for event in seen.history.events} == {int}
