"""The cellular channel in the simulator: latency, throughput, losses, moves and blocking, with their times."""

from __future__ import annotations

from typing import Any

import cell_radio
import pytest

from castbed import Kind, LocalEvent, load_registry
from castbed.history import History
from castbed.parts.cell_channel import CHANNEL_LEFT, NO_ASSIGNMENT, NO_CHANNEL
from castbed.parts.cell_channel.timing import GsmTiming
from castbed_testbed.experiment import load
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import MemoryRecorder
from castbed_testbed.sim.runner import simulate

MILLISECOND = 1_000_000
GSM = GsmTiming()
AIR = {"rate": "100Mbit/s", "delay": "0ms"}  # so quick that only the channel's own times are seen
AIR_NS_MAX = 20_000  # what that air takes for the longest packet


def say(at: str, size: int, group: str = "1") -> dict[str, Any]:
    return {"node": "S", "at": at, "say": "x" * size, "group": group}


def run(lines: list[dict[str, Any]], options: dict[str, Any] | None = None, **changes: Any) -> History:
    """A cell of S with the hosts x and y in groups 1 and 2, and a second one."""
    topology = {"kind": "cellular", "stations": ["S", "N"], "hosts": {"x": "S", "y": "S"}, "air": AIR}
    data = {
        "name": "cell",
        "protocol": {"name": "cell-radio", "options": options or {}},
        "duration": "10s",
        "topology": {**topology, **changes.pop("topology", {})},
        "workload": {"kind": "script", "lines": lines},
        **changes,
    }
    plan = make_plan(load(data).experiment, load_registry(extra={"cell-radio": cell_radio}))
    recorder = MemoryRecorder(plan.identity())
    simulate(plan, recorder)
    return recorder.history()


def delivered(history: History, name: str) -> list[LocalEvent]:
    number = history.identity.names.index(name) + 1
    return [event for event in history.by_node[number] if event.kind is Kind.DELIVER]


def notes(history: History, text: str) -> list[LocalEvent]:
    return [event for event in history.of(Kind.NOTE) if event.text == text]


@pytest.mark.parametrize(
    ("said", "pch"),
    [
        pytest.param("0ms", 12, id="the first PCH block of a multiframe: longest wait for the AGCH"),
        pytest.param("200ms", 46, id="the last PCH block: shortest wait"),
    ],
)
def test_a_message_of_one_block_comes_after_page_assignment_and_one_frame(said: str, pch: int) -> None:
    history = run([say(said, 16)])
    first_frame = GSM.start_after(GSM.agch_after(pch))
    for name in ("x", "y"):
        (event,) = delivered(history, name)
        assert 0 <= event.at - GSM.block_end(first_frame, 1) <= AIR_NS_MAX


def test_from_the_application_to_the_hosts_takes_tenths_of_a_second() -> None:
    """5.5: page-to-data latency is tens to hundreds of milliseconds."""
    waits = []
    for at in range(0, 240, 8):
        (event,) = delivered(run([say(f"{at}ms", 16)]), "x")
        waits.append((event.at - at * MILLISECOND) / MILLISECOND)
    assert 100 < min(waits) < 130
    assert 300 < max(waits) < 360


def test_the_channel_carries_eight_kilobits_per_second() -> None:
    """5.5: of the order of 10 kbit/s; 20 bytes in each block, six blocks in 120 ms."""
    history = run([say("0ms", 996)] * 5, {"max_burst": "10s"})
    times = [event.at for event in delivered(history, "x")]
    assert len(times) == 5
    bits = 8 * 1000 * 4
    assert bits * 10**9 / (times[-1] - times[0]) == pytest.approx(8000, rel=0.01)


def test_a_host_that_missed_a_frame_leaves_and_gets_nothing_until_the_next_page() -> None:
    """5.4, the disconnect rule: y does not hear S for one block in the first burst."""
    cut = {"source": "S", "target": "y", "start": "320ms", "end": "340ms"}
    lines = [say("0ms", 36), say("0ms", 17), say("0ms", 18), say("1s", 19)]
    history = run(lines, faults={"cuts": [cut]})
    assert [event.size for event in delivered(history, "x")] == [36, 17, 18, 19]
    assert [event.size for event in delivered(history, "y")] == [19]
    (left,) = notes(history, CHANNEL_LEFT)
    lost = GSM.traffic_after(GSM.start_after(GSM.agch_after(12)))
    assert 0 <= left.at - GSM.block_end(lost, 1) - 2 * MILLISECOND <= AIR_NS_MAX


def test_a_host_that_enters_the_cell_within_a_burst_gets_the_next_burst() -> None:
    """5.3: `max_burst` is there so that newcomers can tune in."""
    topology = {"hosts": {"x": "S", "y": "N"}}
    lines = [say("0ms", 496)] * 8  # half a second each; a second is over when the third has begun
    history = run(lines, topology=topology, faults={"handoffs": [{"host": "y", "at": "500ms", "to": "S"}]})
    assert [event.mid.seqno for event in delivered(history, "x")] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [event.mid.seqno for event in delivered(history, "y")] == [4, 5, 6, 7, 8]


def test_two_groups_with_a_channel_each_do_not_delay_each_other() -> None:
    groups = {"groups": {"1": ["x"], "2": ["y"]}}
    history = run([say("0ms", 196), say("0ms", 196, "2")], topology=groups)
    (one,), (other,) = delivered(history, "x"), delivered(history, "y")
    assert 0 < other.at - one.at < MILLISECOND  # the next timeslot
    assert notes(history, NO_CHANNEL) == []


def test_a_group_that_finds_all_channels_busy_waits_for_the_release() -> None:
    groups = {"groups": {"1": ["x"], "2": ["y"]}}
    history = run([say("0ms", 196), say("0ms", 196, "2")], {"channels": 1}, topology=groups)
    (one,), (other,) = delivered(history, "x"), delivered(history, "y")
    assert 400 * MILLISECOND < other.at - one.at < 600 * MILLISECOND
    blocked = notes(history, NO_CHANNEL)
    assert {event.group for event in blocked} == {2}
    assert len(blocked) > 10  # one useless page in each PCH block


def test_the_usual_air_varies_by_less_than_the_guard_time() -> None:
    """Seven groups at once on one transmitter of 2 Mbit/s: nobody takes a queued block for a missing one."""
    groups = {str(number): ["x" if number % 2 else "y"] for number in range(1, 8)}
    air = {"rate": "2Mbit/s", "delay": "1us"}
    lines = [say(f"{at}s", 396, str(group)) for at in range(3) for group in range(1, 8)]
    history = run(lines, topology={"groups": groups, "air": air})
    assert notes(history, CHANNEL_LEFT) == []
    assert delivered(history, "x")


def test_an_air_that_varies_by_more_keeps_hosts_off_the_channel() -> None:
    air = {"rate": "2Mbit/s", "delay": {"kind": "uniform", "low": "0ms", "high": "10ms"}}
    history = run([say("0ms", 996)], topology={"air": air})
    assert len(notes(history, CHANNEL_LEFT) + notes(history, NO_ASSIGNMENT)) == 2
    assert delivered(history, "x") == delivered(history, "y") == []


def test_random_loss_costs_long_messages_more() -> None:
    lines = [say(f"{second}s", size) for second in range(200) for size in [16 if second % 2 else 396]]
    history = run(lines, duration="200s", faults={"loss": 0.03}, seed=5)
    sizes = [event.size for event in delivered(history, "x")]
    short, long = sizes.count(16), sizes.count(396)
    assert 80 < short < 100  # three blocks have to come: 0.97 ** 3 is 0.91
    assert 35 < long < 70  # twenty-two have to: 0.97 ** 22 is 0.51
    assert notes(history, CHANNEL_LEFT)


def test_the_same_seed_gives_the_same_run() -> None:
    lines = [say(f"{at}00ms", 100) for at in range(50)]
    runs = [run(lines, faults={"loss": 0.05}).of(*Kind) for _ in range(2)]
    assert runs[0] == runs[1]
