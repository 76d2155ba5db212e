"""The back-end `gsm` of the simulated air: group traffic in bursts, everything else on dedicated channels.

A frame of these tests is 44 bytes longer than what is said; a block holds 20 bytes and takes 20 ms on average.
"""

from __future__ import annotations

import pytest
from gsm_cells import BLOCK_MS, FOUR_BLOCKS, GSM, S1, SETUP_MS, A, B, cellular, cut, frame_ends, seen
from testbed_support import MILLISECOND, changed, do, planned, say
from testbed_support import simulated as run

from castbed import Kind
from castbed.parts.cell_channel import CHANNEL_LEFT, NO_ASSIGNMENT, NO_CHANNEL
from castbed_testbed.recorder import NullRecorder
from castbed_testbed.sim.gsm_radios import QUEUE_FULL, TOO_MANY_GROUPS
from castbed_testbed.sim.simulation import Simulation

# --- packets for a group ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_ms", [0, 100, 200])
def test_a_broadcast_of_a_station_comes_after_page_assignment_and_all_its_frames(at_ms: int) -> None:
    done = seen(say("S1", f"{at_ms}ms", FOUR_BLOCKS))
    for name in ("a", "b"):
        (event,) = done.events(name, Kind.DELIVER)
        assert event.at == frame_ends(at_ms, 4)[-1]
    assert done.delivered("c") == []


def test_the_propagation_delay_comes_on_top() -> None:
    (event,) = run(changed("topology.air.delay", "1ms", cellular(say("S1", "0ms", FOUR_BLOCKS)))).events(
        "a", Kind.DELIVER
    )
    assert event.at == frame_ends(0, 4)[-1] + MILLISECOND


def test_messages_that_come_while_a_burst_is_under_way_join_it() -> None:
    done = seen(say("S1", "0ms", FOUR_BLOCKS), say("S1", "350ms", FOUR_BLOCKS))
    assert [event.at for event in done.events("a", Kind.DELIVER)] == [frame_ends(0, 8)[3], frame_ends(0, 8)[7]]


def test_a_host_that_missed_the_assignment_gets_nothing_of_the_burst() -> None:
    """5.4: PAGED, that AGCH missed."""
    agch = GSM.block_end(GSM.agch_after(GSM.first_pch(0)))
    done = seen(say("S1", "0ms"), say("S1", "2s"), faults={"cuts": [cut("b", agch)]})
    assert (done.delivered("a"), done.delivered("b")) == (["S1.1", "S1.2"], ["S1.2"])
    assert [text for text, _ in done.notes("b") if text == NO_ASSIGNMENT] == [NO_ASSIGNMENT]


def test_a_host_that_missed_a_frame_leaves_the_channel_until_the_next_page() -> None:
    """5.4, the disconnect rule: also what follows in the burst is lost for it."""
    lines = [say("S1", "0ms", FOUR_BLOCKS)] * 2 + [say("S1", "2s", FOUR_BLOCKS)]
    done = seen(*lines, faults={"cuts": [cut("b", frame_ends(0, 2)[1])]})
    assert (done.delivered("a"), done.delivered("b")) == (["S1.1", "S1.2", "S1.3"], ["S1.3"])
    assert [text for text, _ in done.notes("b") if text == CHANNEL_LEFT] == [CHANNEL_LEFT]


def test_loss_is_drawn_for_each_block_and_each_receiver() -> None:
    """A burst of n blocks reaches a host if page, assignment and all of them do."""
    times = 300
    hosts = {f"h{number}": "S1" for number in range(4)}
    lines = [say("S1", f"{number}s", FOUR_BLOCKS) for number in range(times)]
    data = cellular(*lines, topology={"hosts": hosts}, duration=f"{times}s", faults={"loss": 0.05})
    done = run(data)
    got = [set(done.delivered(name)) for name in hosts]
    expected = 0.95**6
    assert sum(map(len, got)) / (4 * times) == pytest.approx(expected, abs=0.04)
    assert len(got[0] & got[1]) / times == pytest.approx(expected**2, abs=0.08)
    assert done.report.effects["loss"] > 300


def test_only_members_of_the_group_take_its_channel() -> None:
    topology = {"groups": {"1": ["a"], "2": ["a", "b"]}}
    done = seen(say("S1", "0ms"), say("S1", "2s", group="2"), topology=topology)
    assert (done.delivered("a"), done.delivered("b")) == (["S1.1", "S1.2"], ["S1.2"])


def test_who_joins_is_paged_and_who_leaves_is_not() -> None:
    lines = [
        say("S1", "0ms", group="1"),
        do("b", "1s", "join-group", group="1"),
        do("a", "1s", "leave-group", group="1"),
        say("S1", "2s", group="1"),
    ]
    done = seen(*lines, topology={"groups": {"1": ["a"], "2": ["a", "b"]}})
    assert (done.delivered("a"), done.delivered("b")) == (["S1.1"], ["S1.2"])


def test_a_multicast_reaches_the_hosts_that_it_names() -> None:
    hosts = {"a": "S1", "b": "S1", "c": "S1"}
    done = seen(say("S1", "0ms", FOUR_BLOCKS, to=["a", "c"]), topology={"hosts": hosts})
    assert [done.delivered(name) for name in hosts] == [["S1.1"], [], ["S1.1"]]
    (event,) = done.events("c", Kind.DELIVER)
    assert event.at == frame_ends(0, 4)[-1]


def test_a_host_that_enters_the_cell_before_the_page_hears_what_was_queued_before() -> None:
    handoff = {"host": "c", "at": "10ms", "to": "S1"}
    assert seen(say("S1", "0ms"), faults={"handoffs": [handoff]}).delivered("c") == ["S1.1"]


def test_a_host_that_leaves_and_comes_back_within_a_burst_is_off_the_channel() -> None:
    middle = frame_ends(0, 2)[0] + MILLISECOND
    moves = [{"host": "b", "at": f"{middle}ns"}, {"host": "b", "at": f"{middle + MILLISECOND}ns", "to": "S1"}]
    done = seen(say("S1", "0ms", FOUR_BLOCKS), faults={"handoffs": moves})
    assert (done.delivered("a"), done.delivered("b")) == (["S1.1"], [])


def test_a_group_waits_while_all_traffic_channels_are_busy() -> None:
    """5.3: none free, stay and retry in the next PCH block."""
    topology = {"groups": {"1": ["a"], "2": ["b"]}}
    lines = [say("S1", "0ms", "x" * 456, group="1"), say("S1", "0ms", FOUR_BLOCKS, group="2")]
    alone = seen(*lines, topology=topology)
    blocked = seen(*lines, topology=topology, gsm={"channels": 1})
    at = {name: done.events("b", Kind.DELIVER)[0].at for name, done in (("alone", alone), ("blocked", blocked))}
    assert at["alone"] == frame_ends(0, 4, timeslot=2)[-1]
    assert at["blocked"] > alone.events("a", Kind.DELIVER)[0].at
    assert NO_CHANNEL not in dict(alone.notes("S1"))
    assert NO_CHANNEL in dict(blocked.notes("S1"))


def test_a_frame_that_finds_the_queue_full_is_gone() -> None:
    done = seen(*[say("S1", "0ms")] * 5, gsm={"queue_max": 3})
    assert done.delivered("a") == ["S1.1", "S1.2", "S1.3"]
    assert [text for text, _ in done.notes("S1") if text == QUEUE_FULL] == [QUEUE_FULL] * 2


def test_a_frame_that_is_too_long_for_the_channel_is_counted() -> None:
    done = seen(do("S1", "0ms", "shout", size=4053), do("S1", "0ms", "shout", size=4052))
    assert len(done.delivered("a")) == 1
    assert done.report.oversize == 1
    (drop,) = done.events("S1", Kind.DROP)
    assert "4097 bytes" in drop.text


def test_a_station_that_crashes_loses_what_waits_and_pages_again_when_it_is_back() -> None:
    middle = frame_ends(0, 2)[0] + MILLISECOND
    faults = {"crashes": [{"node": "S1", "at": f"{middle}ns"}], "restarts": [{"node": "S1", "at": "1s"}]}
    done = seen(say("S1", "0ms", FOUR_BLOCKS), say("S1", "2s", FOUR_BLOCKS), faults=faults)
    assert done.delivered("a") == done.delivered("b") == ["S1.1~1"]


def test_a_host_that_crashed_listens_again_when_it_is_back() -> None:
    faults = {"crashes": [{"node": "a", "at": "100ms"}], "restarts": [{"node": "a", "at": "1s"}]}
    done = seen(say("S1", "0ms"), say("S1", "2s"), faults=faults)
    assert (done.delivered("a"), done.delivered("b")) == (["S1.2"], ["S1.1", "S1.2"])


def test_a_sender_gets_its_own_copy_where_the_protocol_needs_it() -> None:
    data = cellular(say("S1", "0ms", FOUR_BLOCKS), say("a", "0ms"))
    done = run({**data, "protocol": {"name": "cells", "variant": "needs-own_copy"}})
    (own,) = (event for event in done.events("S1", Kind.DELIVER) if event.mid.sender == S1)
    assert own.at == frame_ends(0, 4)[-1]
    assert "a1" in done.delivered("a")


def test_a_host_in_more_groups_than_a_radio_takes_says_so() -> None:
    groups = {str(number): ["a"] for number in range(1, 257)}
    done = seen(say("S1", "0ms", group="255"), say("S1", "2s", group="256"), topology={"groups": groups})
    assert done.delivered("a") == ["S1.1"]
    assert [event.group for event in done.events("a", Kind.NOTE) if event.text == TOO_MANY_GROUPS] == [256]


def test_who_has_left_a_group_may_join_another() -> None:
    groups = {str(number): ["a"] for number in range(1, 256)} | {"256": ["b"]}
    lines = [
        do("a", "0ms", "leave-group", group="1"),
        do("a", "10ms", "join-group", group="256"),
        say("S1", "1s", group="256"),
    ]
    assert seen(*lines, topology={"groups": groups}).delivered("a") == ["S1.1"]


def test_a_block_does_not_reach_a_host_that_crashed_on_its_way() -> None:
    page = GSM.block_end(GSM.first_pch(0))
    data = cellular(say("S1", "0ms"), faults={"crashes": [{"node": "b", "at": f"{page + MILLISECOND}ns"}]})
    done = run(changed("topology.air.delay", "2ms", data))
    assert (done.delivered("a"), done.delivered("b")) == (["S1.1"], [])


# --- packets for one receiver ----------------------------------------------------------------------------------------


def test_a_packet_for_one_waits_for_the_set_up_and_then_takes_a_block_for_every_20_bytes() -> None:
    done = seen(do("S1", "100ms", "shout", to=A, size=36))
    assert done.deliveries("a") == [("S1.1", (100 + SETUP_MS + 4 * BLOCK_MS) * 1000)]
    assert done.delivered("b") == []


def test_packets_that_follow_use_the_channel_that_is_there() -> None:
    """Each direction has its own queue; the channel is given up after the hold time of two blocks."""
    first = SETUP_MS + 3 * BLOCK_MS
    lines = [
        do("a", "0ms", "shout", to=S1, times=2),
        do("S1", f"{first}ms", "shout", to=A),
        do("a", f"{first + 5 * BLOCK_MS}ms", "shout", to=S1),
        do("a", "5s", "shout", to=S1),
    ]
    done = seen(*lines)
    up = [first, first + 3 * BLOCK_MS, first + 8 * BLOCK_MS, 5000 + first]
    assert [at // 1000 for _, at in done.deliveries("S1")] == up
    assert [at // 1000 for _, at in done.deliveries("a")] == [first + 3 * BLOCK_MS]


def test_it_is_known_when_everything_for_single_receivers_is_sent() -> None:
    """Timers may count from then."""
    simulation = Simulation(planned(cellular(do("a", "0ms", "shout", to=S1, times=2))), NullRecorder())
    simulation.run()
    sent = [simulation.transmitter.air_free(simulation.nodes[number - 1]) for number in (A, B)]
    assert sent == [(SETUP_MS + 6 * BLOCK_MS) * MILLISECOND, 0]


def test_every_host_has_a_channel_of_its_own() -> None:
    done = seen(do("a", "0ms", "shout", to=S1), do("b", "0ms", "shout", to=S1))
    assert [at // 1000 for _, at in done.deliveries("S1")] == [SETUP_MS + 3 * BLOCK_MS] * 2


def test_a_host_is_heard_by_its_station_alone() -> None:
    done = seen(say("a", "0ms"), do("a", "1s", "shout", to=B), say("a", "2s", to=["b", "S1"]))
    assert done.delivered("S1") == ["a1", "a2"]
    assert done.delivered("b") == done.delivered("S2") == []


def test_what_is_on_a_dedicated_channel_is_lost_when_the_host_moves() -> None:
    moves = [{"host": "a", "at": "300ms", "to": "S2"}, {"host": "a", "at": "400ms", "to": "S1"}]
    lines = [do("a", "0ms", "shout", to=S1), do("S1", "0ms", "shout", to=A), do("a", "450ms", "shout", to=S1)]
    done = seen(*lines, faults={"handoffs": moves})
    assert done.delivered("a") == []
    assert [at // 1000 for _, at in done.deliveries("S1")] == [450 + SETUP_MS + 3 * BLOCK_MS]


def test_what_is_on_dedicated_channels_is_lost_when_the_station_crashes() -> None:
    faults = {"crashes": [{"node": "S1", "at": "100ms"}], "restarts": [{"node": "S1", "at": "200ms"}]}
    done = seen(do("a", "0ms", "shout", to=S1), do("S1", "0ms", "shout", to=A), faults=faults)
    assert done.delivered("a") == done.delivered("S1") == []


def test_nobody_is_heard_where_no_station_is() -> None:
    faults = {"crashes": [{"node": "S1", "at": "100ms"}], "handoffs": [{"host": "c", "at": "100ms"}]}
    done = seen(say("a", "1s"), say("c", "1s"), faults=faults)
    assert [done.delivered(name) for name in ("S2", "a", "b", "c")] == [[]] * 4


def test_each_block_of_a_packet_for_one_may_be_lost() -> None:
    times = 1000
    lines = [do("a", f"{number}s", "shout", to=S1, size=36) for number in range(times)]
    data = cellular(*lines, duration=f"{times}s", faults={"loss": 0.05})
    assert len(run(data).delivered("S1")) / times == pytest.approx(0.95**4, abs=0.05)


def test_too_many_packets_for_one_are_gone() -> None:
    done = seen(do("a", "0ms", "shout", to=S1, times=6), gsm={"queue_max": 3})
    assert len(done.delivered("S1")) == 4  # one is under way, three wait
    assert [text for text, _ in done.notes("a") if text == QUEUE_FULL] == [QUEUE_FULL] * 2
