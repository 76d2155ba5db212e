"""When the blocks of a GSM cell are on the air: vectors from GSM's frame structure, and what holds for all frames."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castbed import ConfigurationError
from castbed.parts import CellOptions, GsmTiming
from castbed.parts.cell_channel.timing import BLOCK_FRAMES, HYPERFRAME, on_air, traffic_channel
from castbed.units import convert

GSM = GsmTiming()
COMBINED = GsmTiming(combined=True)
FRAME_NS = Fraction(60_000_000, 13)
frames = st.integers(0, 3 * HYPERFRAME)


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "starts"),
    [
        pytest.param(0, 0, id="the first"),
        pytest.param(1, 4_615_384, id="4.615 ms"),
        pytest.param(13, 60_000_000, id="13 in 60 ms"),
        pytest.param(26, 120_000_000, id="the traffic multiframe is 120 ms"),
        pytest.param(51, 235_384_615, id="the control multiframe is 235.4 ms"),
        pytest.param(HYPERFRAME, 12_533_760_000_000, id="the hyperframe is 3 h 28 min 53.76 s"),
    ],
)
def test_frames_start_where_gsm_says(frame: int, starts: int) -> None:
    """Timing facts of 5.5."""
    assert GSM.frame_start(frame) == starts


@given(frame=frames, timeslot=st.integers(0, 7))
def test_times_never_drift_from_the_exact_ones(frame: int, timeslot: int) -> None:
    exact = (frame + 3 + Fraction(timeslot + 1, 8)) * FRAME_NS
    assert 0 <= exact - GSM.block_end(frame, timeslot) < 1


@given(frame=frames)
def test_the_first_frame_from_a_time_is_the_one_that_starts_then(frame: int) -> None:
    start = GSM.frame_start(frame)
    assert GSM.frame_from(start) == frame
    assert GSM.frame_from(start + 1) == frame + 1


def test_a_block_ends_with_the_fourth_burst_of_its_timeslot() -> None:
    """5.5: a block is four bursts; a timeslot is 0.577 ms."""
    assert GSM.block_end(0, 7) == GSM.frame_start(4)
    assert GSM.block_end(0, 0) == int(3 * FRAME_NS + FRAME_NS / 8)
    assert GSM.block_end(0, 1) - GSM.block_end(0, 0) == 576_924


def test_the_wait_for_a_block_goes_on_over_the_end_of_the_frame_numbers() -> None:
    last = HYPERFRAME - 5
    assert GSM.between(last, 0, 3, 2) == GSM.block_end(HYPERFRAME + 3, 2) - GSM.block_end(last, 0)


# --- blocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timing", "after", "pch"),
    [
        pytest.param(GSM, 0, 12, id="block 0 is the AGCH, block 1 the first PCH"),
        pytest.param(GSM, 12, 12, id="a block that begins now is in time"),
        pytest.param(GSM, 13, 16, id="one that has begun is not"),
        pytest.param(GSM, 17, 22, id="FCCH and SCH lie between"),
        pytest.param(GSM, 47, 63, id="the next multiframe"),
        pytest.param(COMBINED, 17, 63, id="a combined channel has three blocks"),
        pytest.param(GsmTiming(agch_blocks=3), 0, 22, id="three AGCH blocks leave six"),
    ],
)
def test_the_next_pch(timing: GsmTiming, after: int, pch: int) -> None:
    """5.3: the page goes out in the next PCH block."""
    assert timing.first_pch(after) == pch


@pytest.mark.parametrize(
    ("timing", "pch", "agch"),
    [
        pytest.param(GSM, 12, 57, id="from the first PCH block"),
        pytest.param(GSM, 46, 57, id="from the last, to the same"),
        pytest.param(GSM, 63, 108, id="a multiframe later"),
        pytest.param(COMBINED, 16, 57, id="combined: fn mod 51 = 6"),
        pytest.param(GsmTiming(agch_blocks=2), 16, 57, id="two AGCH blocks: the first comes first"),
    ],
)
def test_the_next_agch_after_a_pch(timing: GsmTiming, pch: int, agch: int) -> None:
    """5.2: the assignment is in the next AGCH after that PCH."""
    assert timing.agch_after(pch) == agch


def test_six_traffic_blocks_leave_out_the_sacch_and_the_idle_frame() -> None:
    blocks = [0]
    for _ in range(6):
        blocks.append(GSM.traffic_after(blocks[-1]))
    assert blocks == [0, 4, 8, 13, 17, 21, 26]


def test_a_burst_starts_when_hosts_have_tuned() -> None:
    """5.3: SENDING begins at start_fn."""
    assert GSM.start_after(57) == 65  # the AGCH block ends with 60, four frames to tune: 65 is 13 of its multiframe
    assert GsmTiming(tuning_frames=0).start_after(57) == 65
    assert GsmTiming(tuning_frames=5).start_after(57) == 69


@given(frame=frames, timing=st.sampled_from([GSM, COMBINED, GsmTiming(agch_blocks=4)]))
def test_no_block_is_two_things_and_numbers_on_the_air_say_the_same(frame: int, timing: GsmTiming) -> None:
    pch, agch, traffic = timing.first_pch(frame), timing.first_agch(frame), timing.first_traffic(frame)
    assert pch != agch
    assert min(pch, agch, traffic) >= frame
    assert abs(pch - agch) >= BLOCK_FRAMES
    assert timing.first_pch(on_air(frame)) % HYPERFRAME == on_air(pch)
    assert timing.first_agch(on_air(frame)) % HYPERFRAME == on_air(agch)
    assert timing.first_traffic(on_air(frame)) % HYPERFRAME == on_air(traffic)


def test_traffic_channels_are_all_timeslots_but_the_first() -> None:
    """5.5: a channel number and a timeslot are assigned."""
    assert [traffic_channel(index) for index in range(9)] == [(0, slot) for slot in range(1, 8)] + [(1, 0), (1, 1)]


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({"timing": {"agch_blocks": 9}}, "from 1 to 8"),
        ({"timing": {"combined": True, "agch_blocks": 3}}, "from 1 to 2"),
        ({"timing": {"period": "50ns"}}, "period"),
        ({"timing": {"period_frames": 0}}, "period_frames"),
        ({"timing": {"tuning_frames": -1}}, "tuning_frames"),
        ({"channels": 0}, "channels"),
        ({"channels": 128}, "from 1 to 127"),
        ({"groups_per_block": 5}, "groups_per_block"),
        ({"block_bytes": 0}, "block_bytes"),
        ({"hold_frames": -1}, "hold_frames"),
        ({"max_burst": "0s"}, "max_burst"),
        ({"queue_max": 0}, "queue_max"),
        ({"guard": "5ms"}, "guard"),
        ({"speed": 1}, "unknown key"),
    ],
)
def test_impossible_options_are_refused(written: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        convert(written, CellOptions, "options")


def test_options_are_written_as_people_write_them() -> None:
    options = convert({"max_burst": "2s", "guard": "200us", "timing": {"period": "6ms"}}, CellOptions)
    assert (options.max_burst, options.guard, options.timing.frame_start(13)) == (2 * 10**9, 200_000, 6 * 10**6)
