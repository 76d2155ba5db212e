"""Air and wires of the simulator: when copies arrive, which do not, and that every trouble is counted.

A frame with PAYLOAD is 100 bytes, 800 us at 1 Mbit/s; times of deliveries are in microseconds.
"""

from __future__ import annotations

from typing import Any

import pytest
from testbed_support import cells, changed, do, post, probe, say, script, simulated

from castbed import ContractError, Kind

EVERYBODY = ("A", "B", "C")
MANY = 4_000


def shouting(times: int = MANY, **changes: Any) -> dict[str, Any]:
    """A sends so many empty frames at once, each to two others."""
    return probe(workload=script(do("A", "0ms", "shout", times=times)), drain="60s", **changes)


# --- time ------------------------------------------------------------------------------------------------------------


def test_a_frame_takes_its_bits_over_the_rate() -> None:
    seen = simulated(probe(workload=script(say("A", "10ms"))))
    assert [seen.deliveries(name) for name in EVERYBODY] == [[], [("A1", 10_800)], [("A1", 10_800)]]


def test_the_propagation_delay_comes_on_top() -> None:
    seen = simulated(changed("topology.air.delay", "5ms", probe(workload=script(say("A", "10ms")))))
    assert seen.deliveries("B") == [("A1", 15_800)]


def test_a_time_is_exact_to_the_nanosecond() -> None:
    data = changed("topology.air", {"rate": "3Mbit/s", "delay": "7ns"}, probe(workload=script(say("A", "10ms"))))
    (delivery,) = simulated(data).events("B", Kind.DELIVER)
    assert delivery.at == 10_000_000 + 800 * 1_000 // 3 + 7


def test_a_transmitter_sends_one_frame_after_the_other() -> None:
    lines = [say("A", "10ms"), say("A", "10ms", "y" * 42), say("A", "11ms", "z" * 42)]
    seen = simulated(probe(workload=script(*lines)))
    assert seen.deliveries("B") == [("A1", 10_800), ("A2", 11_600), ("A3", 12_400)]


def test_each_transmitter_has_a_queue_of_its_own() -> None:
    seen = simulated(probe(workload=script(say("A", "10ms"), say("B", "10ms"))))
    assert seen.deliveries("C") == [("A1", 10_800), ("B1", 10_800)]


def test_copies_that_arrive_at_one_time_come_in_the_order_in_which_they_were_sent() -> None:
    seen = simulated(probe(workload=script(say("B", "10ms"), say("A", "10ms"))))
    by_start_of_nodes = ["A1", "B1"]
    assert seen.delivered("C") == by_start_of_nodes
    late_first = script(say("A", "10ms", "x" * 142), say("B", "10ms", "y"), say("B", "10ms", "y" * 41))
    assert simulated(probe(workload=late_first)).deliveries("C") == [("B1", 10_472), ("B2", 11_264), ("A1", 11_600)]


def test_a_wire_has_a_queue_for_each_direction() -> None:
    data = post(workload=script(say("A", "10ms"), say("A", "10ms", "y" * 42), say("B", "10ms")))
    seen = simulated(data)
    assert seen.deliveries("B") == [("A1", 10_800), ("A2", 11_600)]
    assert seen.deliveries("A") == [("B1", 10_800)]
    assert seen.delivered("C") == ["A1", "B1", "A2"]


@pytest.mark.parametrize(
    ("delay", "low", "high", "mean"),
    [
        ({"kind": "uniform", "low": "2ms", "high": "6ms"}, 2_000, 6_000, 4_000),
        ({"kind": "exponential", "low": "2ms", "mean": "6ms"}, 2_000, 100_000, 6_000),
    ],
)
def test_drawn_delays_keep_to_their_distribution(delay: dict[str, str], low: int, high: int, mean: int) -> None:
    air = {"rate": "1Gbit/s", "delay": delay}
    arrivals = simulated(changed("topology.air", air, shouting())).deliveries("B")
    delays = [at - int(message[1:]) * 58 * 8 / 1000 for message, at in arrivals]
    assert len(delays) == MANY
    assert low - 1 <= min(delays) < low + 200
    assert max(delays) <= high
    assert abs(sum(delays) / MANY - mean) < mean / 20


# --- who hears -------------------------------------------------------------------------------------------------------


def test_a_sender_gets_its_own_copy_where_the_protocol_needs_it() -> None:
    data = probe(protocol={"name": "probe", "variant": "own-copy"}, workload=script(say("A", "10ms")))
    seen = simulated(data)
    assert [seen.deliveries(name) for name in EVERYBODY] == [[("A1", 10_800)]] * 3


def test_a_packet_for_one_is_heard_by_that_one() -> None:
    seen = simulated(probe(workload=script(say("A", "10ms", to=["C"]))))
    assert [seen.delivered(name) for name in EVERYBODY] == [[], [], ["A1"]]
    assert seen.report.frames == 1


def test_a_packet_for_two_is_one_transmission_on_the_air() -> None:
    seen = simulated(probe(workload=script(say("A", "10ms", to=["B", "C"]))))
    assert [seen.deliveries(name) for name in EVERYBODY] == [[], [("A1", 10_800)], [("A1", 10_800)]]
    assert seen.report.frames == 1


def test_a_packet_for_two_is_two_frames_on_wires() -> None:
    seen = simulated(post(workload=script(say("A", "10ms", to=["B", "C"]))))
    assert [seen.deliveries(name) for name in EVERYBODY] == [[], [("A1", 10_800)], [("A1", 10_800)]]
    assert seen.report.frames == 2


def test_a_packet_to_oneself_comes_back() -> None:
    assert simulated(post(workload=script(say("A", "10ms", to=["A"])))).delivered("A") == ["A1"]
    assert simulated(probe(workload=script(say("A", "10ms", to=["A"])))).delivered("A") == ["A1"]


def test_a_cell_hears_only_its_own() -> None:
    seen = simulated(cells(workload=script(say("a", "10ms"), say("S2", "20ms"))))
    heard = {name: seen.delivered(name) for name in ("S1", "S2", "a", "b", "c")}
    assert heard == {"S1": ["a1"], "S2": [], "a": [], "b": ["a1"], "c": ["S2.1"]}


def test_a_packet_goes_over_the_wire_where_there_is_one_and_over_the_air_where_not() -> None:
    slow_air = changed("topology.air.delay", "50ms", cells(workload=script(say("S1", "10ms", to=["S2", "a", "c"]))))
    seen = simulated(slow_air)
    assert seen.deliveries("S2") == [("S1.1", 10_800)]
    assert seen.deliveries("a") == [("S1.1", 60_800)]
    assert seen.deliveries("c") == []


@pytest.mark.parametrize("number", [9, -1])
def test_a_packet_for_nobody_is_the_protocols_mistake(number: int) -> None:
    with pytest.raises(ContractError, match="A sent Said to"):
        simulated(probe(workload=script(do("A", "1ms", "shout", to=number))))


def test_everybody_hears_what_is_said_at_the_start() -> None:
    seen = simulated(probe(protocol={"name": "probe", "variant": "greeter"}))
    assert [seen.delivered(name) for name in EVERYBODY] == [["B1", "C1"], ["A1", "C1"], ["A1", "B1"]]


def test_a_frame_that_is_too_large_is_counted_and_goes_nowhere() -> None:
    seen = simulated(probe(workload=script(do("A", "1ms", "shout", size=300_000), say("A", "2ms"))))
    assert (seen.report.oversize, seen.report.frames) == (1, 1)
    assert "needs 300044 bytes" in seen.events("A", Kind.DROP)[0].text
    assert seen.delivered("B") == ["A1"]


def test_a_packet_that_its_receiver_blames_on_the_peer_is_counted() -> None:
    seen = simulated(probe(workload=script(say("A", "1ms", "wrong"), say("A", "2ms"))))
    assert seen.report.dropped == 2
    assert [event.text for event in seen.events("B", Kind.DROP)] == ["a wrong packet"]
    assert seen.delivered("B") == ["A2"]


# --- trouble ---------------------------------------------------------------------------------------------------------


def test_loss_takes_its_share_and_is_counted() -> None:
    seen = simulated(shouting(faults={"loss": 0.2}))
    lost = seen.report.effects["loss"]
    assert lost == 2 * MANY - len(seen.deliveries("B")) - len(seen.deliveries("C"))
    assert abs(lost / (2 * MANY) - 0.2) < 0.03
    assert seen.delivered("B") != seen.delivered("C")


def test_duplication_adds_its_share_and_is_counted() -> None:
    seen = simulated(shouting(faults={"duplication": 0.2}))
    added = seen.report.effects["duplication"]
    assert added == len(seen.deliveries("B")) + len(seen.deliveries("C")) - 2 * MANY
    assert abs(added / (2 * MANY) - 0.2) < 0.03


def test_reordering_delays_its_share_and_is_counted() -> None:
    seen = simulated(shouting(faults={"reordering": {"probability": 0.2, "delay": "10ms"}}))
    arrivals = seen.deliveries("B")
    late = [message for message, at in arrivals if at > int(message[1:]) * 58 * 8]
    assert abs(len(late) / MANY - 0.2) < 0.03
    assert abs(seen.report.effects["reordering"] / (2 * MANY) - 0.2) < 0.03
    numbers = [int(message[1:]) for message, _ in arrivals]
    assert numbers != sorted(numbers)
    assert sorted(numbers) == list(range(1, MANY + 1))


def test_the_own_copy_is_never_lost() -> None:
    own = {"name": "probe", "variant": "own-copy"}
    seen = simulated(shouting(protocol=own, faults={"loss": 1.0}))
    assert [len(seen.delivered(name)) for name in EVERYBODY] == [MANY, 0, 0]


def test_a_cut_blocks_one_direction_while_it_lasts() -> None:
    cut = {"source": "A", "target": "B", "start": "100ms", "end": "200ms"}
    times = ("50ms", "150ms", "250ms")
    lines = [say(name, at, f"{name} at {at}") for name in ("A", "B") for at in times]
    seen = simulated(probe(workload=script(*lines), faults={"cuts": [cut]}))
    assert seen.delivered("B") == ["A1", "A3"]
    assert seen.delivered("A") == ["B1", "B2", "B3"]
    assert seen.delivered("C") == ["A1", "B1", "A2", "B2", "A3", "B3"]
    assert seen.report.effects == {"cuts": 1}


def test_a_partition_divides_its_sides_and_heals() -> None:
    partition = {"sides": [["A"], ["B"]], "start": "100ms", "end": "200ms"}
    lines = [say(name, at, f"{name} at {at}") for name in EVERYBODY for at in ("150ms", "250ms")]
    seen = simulated(probe(workload=script(*lines), faults={"partitions": [partition]}))
    assert seen.delivered("A") == ["C1", "B2", "C2"]
    assert seen.delivered("B") == ["C1", "A2", "C2"]
    assert seen.delivered("C") == ["A1", "B1", "A2", "B2"]
    assert seen.report.effects == {"partitions": 2}


def test_wires_keep_the_order_of_a_link_unless_told_otherwise() -> None:
    def numbers(fifo: bool) -> list[int]:
        wire = {"rate": "1Gbit/s", "delay": {"kind": "uniform", "low": "0ms", "high": "9ms"}, "fifo": fifo}
        lines = [say("A", f"{at}ms", f"number {at}", to=["B"]) for at in range(100)]
        seen = simulated(changed("topology.wire", wire, post(workload=script(*lines))))
        return [int(message[1:]) for message in seen.delivered("B")]

    assert numbers(fifo=True) == list(range(1, 101))
    assert numbers(fifo=False) != sorted(numbers(fifo=False))
    assert sorted(numbers(fifo=False)) == list(range(1, 101))


def test_a_blocked_wire_delivers_in_order_when_the_block_ends() -> None:
    cuts = [
        {"source": "A", "target": "B", "start": "100ms", "end": "200ms"},
        {"source": "A", "target": "B", "start": "150ms", "end": "300ms"},
    ]
    lines = [say("A", at, f"at {at}") for at in ("50ms", "120ms", "130ms", "400ms")]
    seen = simulated(post(workload=script(*lines), faults={"cuts": cuts}))
    times = dict(seen.deliveries("B"))
    assert seen.delivered("B") == ["A1", "A2", "A3", "A4"]
    assert (times["A2"], times["A3"]) == (300_000, 300_000)
    assert times["A4"] < 401_000
    assert dict(seen.deliveries("C"))["A2"] < 121_000
    assert seen.report.effects["cuts"] == 4


def test_random_partitions_block_somebody() -> None:
    lines = [say("A", f"{at}ms", f"number {at}") for at in range(0, 1000, 10)]
    faults = {"random_partitions": {"count": 3, "length": "100ms"}}
    seen = simulated(probe(workload=script(*lines), faults=faults))
    missed = 200 - len(seen.delivered("B")) - len(seen.delivered("C"))
    assert seen.report.effects == {"random_partitions": missed}
    assert missed > 0
