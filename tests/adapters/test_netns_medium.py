"""The decisions of the emulated air: who hears a frame and when, without any device."""

from __future__ import annotations

import select
import socket
import time

import pytest

from castbed.wire import ethernet_frame
from castbed_adapters.netns.ether import Ether
from castbed_adapters.netns.medium import NOWHERE, Medium, MediumSpec, shared_air
from castbed_adapters.netns.syscalls import set_timer
from castbed_testbed.delays import Delay
from castbed_testbed.faults import Reordering
from castbed_testbed.schedule import Block

MS = 1_000_000
RATE = 8_000_000  # a byte is a microsecond
FIXED = Delay.parse("2ms")
FRAME = ethernet_frame(b"x" * 986, sender=1)  # a millisecond on the air


def test_a_frame_reaches_everybody_else_after_its_air_time_and_its_delay() -> None:
    medium = Medium(MediumSpec(shared_air([1, 2, 3]), FIXED, RATE))
    assert list(medium.transmitted(1, FRAME, 0)) == [(3 * MS, (2, 3))]


def test_frames_of_one_sender_leave_one_after_the_other_and_those_of_others_at_once() -> None:
    medium = Medium(MediumSpec(shared_air([1, 2]), FIXED, RATE))
    arrivals = [at for sender in (1, 1, 2) for at, _ in medium.transmitted(sender, FRAME, 0)]
    assert arrivals == [3 * MS, 4 * MS, 3 * MS]


def test_a_frame_for_one_node_reaches_only_that_one() -> None:
    medium = Medium(MediumSpec(shared_air([1, 2, 3]), FIXED, RATE))
    assert [who for _, who in medium.transmitted(1, ethernet_frame(b"", 1, to=3), 0)] == [(3,)]
    assert list(medium.transmitted(1, ethernet_frame(b"", 1, to=9), 0)) == []


def test_only_the_cell_of_the_sender_hears_it_and_only_who_is_still_there() -> None:
    medium = Medium(MediumSpec({1: 1, 2: 2, 3: 1, 4: 2, 5: NOWHERE}, FIXED, RATE))
    assert [who for _, who in medium.transmitted(1, FRAME, 0)] == [(3,)]
    assert list(medium.transmitted(5, FRAME, 0)) == []
    medium.place(3, 2)
    assert medium.still_hears(1, (3,)) == []
    assert [who for _, who in medium.transmitted(3, FRAME, 0)] == [(2, 4)]


def test_loss_and_duplication_are_as_frequent_as_asked_and_counted() -> None:
    medium = Medium(MediumSpec(shared_air([1, 2]), FIXED, RATE, loss=0.2, duplication=0.1))
    copies = sum(len(who) for at in range(5000) for _, who in medium.transmitted(1, FRAME, at * 10 * MS))
    lost, doubled = medium.effects["loss"], medium.effects["duplication"]
    assert copies == 5000 - lost + doubled
    assert 900 < lost < 1100
    assert 320 < doubled < 480


def test_reordering_lets_later_frames_overtake() -> None:
    late = Reordering(probability=0.5, delay=Delay.parse("50ms"))
    medium = Medium(MediumSpec(shared_air([1, 2]), FIXED, RATE, reordering=late))
    arrivals = [at for start in range(100) for at, _ in medium.transmitted(1, FRAME, start * 5 * MS)]
    assert arrivals != sorted(arrivals)
    assert 20 < medium.effects["reordering"] < 80


def test_a_cut_stops_one_direction_while_it_lasts() -> None:
    cut = Block(1, 2, 10 * MS, 20 * MS, "cuts")
    medium = Medium(MediumSpec(shared_air([1, 2, 3]), FIXED, RATE, blocks=[cut]))
    heard = {at: [who for _, who in medium.transmitted(1, FRAME, at * MS)] for at in (5, 12, 30)}
    assert heard == {5: [(2, 3)], 12: [(3,)], 30: [(2, 3)]}
    assert [who for _, who in medium.transmitted(2, FRAME, 40 * MS)] == [(1, 3)]
    assert medium.effects == {"cuts": 1}


@pytest.mark.parametrize("frame", [b"", b"short", b"\xff" * 12 + b"\x08\x06" + b"arp"])
def test_what_is_not_ours_is_counted_and_goes_nowhere(frame: bytes) -> None:
    medium = Medium(MediumSpec(shared_air([1, 2]), FIXED, RATE))
    assert list(medium.transmitted(1, frame, 0)) == []
    assert medium.foreign == 1


def test_a_timer_that_has_rung_lets_the_medium_sleep() -> None:
    ours, its = socket.socketpair()
    with ours, its:
        ether = Ether(MediumSpec(shared_air([1, 2]), FIXED, RATE), {}, its)
        set_timer(ether._timer, time.monotonic_ns() + 1)
        assert select.select([ether._timer], [], [], 5)[0] == [ether._timer]
        ether._expired()
        assert select.select([ether._timer], [], [], 0)[0] == []


def test_each_copy_has_a_delay_of_its_own_within_the_limits() -> None:
    jitter = Delay.parse({"kind": "uniform", "low": "5ms", "high": "6ms"})
    medium = Medium(MediumSpec(shared_air([1, 2, 3]), jitter, RATE))
    lags = [at - (start + 1) * MS for start in range(0, 4000, 10) for at, _ in medium.transmitted(1, FRAME, start * MS)]
    assert 5 * MS <= min(lags) < 5.05 * MS
    assert 5.95 * MS < max(lags) <= 6 * MS
    assert len(set(lags)) > 700, "both copies of nearly every frame come at times of their own"
    assert 5.45 * MS < sum(lags) / len(lags) < 5.55 * MS
