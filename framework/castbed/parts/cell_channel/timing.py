"""When each block of a GSM cell is on the air, exact in integer nanoseconds.

Time is counted in TDMA frames of eight timeslots. A block is four bursts, one in the same timeslot of each of four
frames, and is named by its first frame; it is there when its fourth burst has ended. Timeslot 0 of the first carrier
repeats every 51 frames: nine blocks (three, if it is combined with signalling channels) for the AGCH and the PCH. All
other timeslots carry traffic and repeat every 26 frames: six blocks, FACCH included, in 120 ms.

Frame numbers here count on for ever; on the air they are written modulo HYPERFRAME, which both periods divide.
"""

from __future__ import annotations

import msgspec

from castbed.units import Duration

FrameNumber = int
TimeslotNumber = int

BLOCK_FRAMES = 4
TIMESLOTS = 8
CCCH_MULTIFRAME, TRAFFIC_MULTIFRAME = 51, 26
HYPERFRAME = CCCH_MULTIFRAME * TRAFFIC_MULTIFRAME * 2048  # frames until the numbers on the air repeat: 3.5 hours
CCCH_STARTS = (6, 12, 16, 22, 26, 32, 36, 42, 46)  # between FCCH, SCH and BCCH
COMBINED_CCCH_STARTS = CCCH_STARTS[:3]  # the rest are SDCCH and SACCH
TRAFFIC_STARTS = (0, 4, 8, 13, 17, 21)  # frame 12 is for the SACCH, frame 25 is idle
CARRIERS_MAX = 16
TRAFFIC_CHANNELS_MAX = CARRIERS_MAX * TIMESLOTS - 1
TUNING_FRAMES_MAX = TRAFFIC_MULTIFRAME


class GsmTiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The frames and the common channel of one cell; both sides of a channel need the same."""

    period: Duration = Duration(60 * 10**6)
    """`period_frames` TDMA frames last exactly this long: 60 ms for 13 is what makes a frame 4.615... ms."""
    period_frames: int = 13
    combined: bool = False
    """Whether the common channel shares its timeslot with signalling, and has three blocks instead of nine."""
    agch_blocks: int = 1
    """Blocks of the 51 frames that are the AGCH (BS_AG_BLKS_RES), the first ones; the others are the PCH."""
    tuning_frames: int = 4
    """Between the end of an assignment and the first traffic block that it may name."""

    def __post_init__(self) -> None:
        if self.period < TIMESLOTS * self.period_frames or self.period_frames < 1:
            raise ValueError("`period` and `period_frames` must be positive, and a timeslot not shorter than 1 ns")
        if not 1 <= self.agch_blocks < len(self._ccch_starts):
            raise ValueError(f"`agch_blocks` must be from 1 to {len(self._ccch_starts) - 1}, to leave a PCH")
        if not 0 <= self.tuning_frames <= TUNING_FRAMES_MAX:
            raise ValueError(f"`tuning_frames` must be from 0 to {TUNING_FRAMES_MAX}")

    # --- frames and time ---------------------------------------------------------------------------------------------

    def frame_start(self, frame: FrameNumber) -> int:
        """When the first timeslot of the frame begins."""
        return frame * self.period // self.period_frames

    def frame_from(self, time: int) -> FrameNumber:
        """The first frame that begins at `time` or later."""
        return -(-time * self.period_frames // self.period)

    def block_end(self, block: FrameNumber, timeslot: TimeslotNumber = 0) -> int:
        """When the last burst of the block ends, and a receiver has all of it."""
        slots = (block + BLOCK_FRAMES - 1) * TIMESLOTS + timeslot + 1
        return slots * self.period // (self.period_frames * TIMESLOTS)

    def between(
        self, block: FrameNumber, timeslot: TimeslotNumber, later: FrameNumber, later_timeslot: TimeslotNumber
    ) -> int:
        """From the end of one block to that of a later one, both with frame numbers as written on the air."""
        unwrapped = block + (later - block) % HYPERFRAME
        return self.block_end(unwrapped, later_timeslot) - self.block_end(block, timeslot)

    # --- which block is what -----------------------------------------------------------------------------------------

    def first_pch(self, frame: FrameNumber) -> FrameNumber:
        """The first PCH block that begins with `frame` or later."""
        return _first(self._ccch_starts[self.agch_blocks :], CCCH_MULTIFRAME, frame)

    def first_agch(self, frame: FrameNumber) -> FrameNumber:
        """The first AGCH block that begins with `frame` or later."""
        return _first(self._ccch_starts[: self.agch_blocks], CCCH_MULTIFRAME, frame)

    def first_traffic(self, frame: FrameNumber) -> FrameNumber:
        """The first traffic block that begins with `frame` or later."""
        return _first(TRAFFIC_STARTS, TRAFFIC_MULTIFRAME, frame)

    def agch_after(self, pch: FrameNumber) -> FrameNumber:
        """The AGCH block in which a group that this PCH block pages gets its channel."""
        return self.first_agch(pch + BLOCK_FRAMES)

    def traffic_after(self, block: FrameNumber) -> FrameNumber:
        """The traffic block that follows this one."""
        return self.first_traffic(block + BLOCK_FRAMES)

    def start_after(self, agch: FrameNumber) -> FrameNumber:
        """The first traffic block for which receivers of an assignment in this AGCH block have tuned."""
        return self.first_traffic(agch + BLOCK_FRAMES + self.tuning_frames)

    @property
    def _ccch_starts(self) -> tuple[int, ...]:
        return COMBINED_CCCH_STARTS if self.combined else CCCH_STARTS


def on_air(frame: FrameNumber) -> FrameNumber:
    """The frame number as it is written on the air."""
    return frame % HYPERFRAME


def traffic_channel(index: int) -> tuple[int, TimeslotNumber]:
    """Carrier and timeslot of a cell's traffic channels, counted from 0: all but the very first timeslot."""
    return divmod(index + 1, TIMESLOTS)


def _first(starts: tuple[int, ...], multiframe: int, frame: FrameNumber) -> FrameNumber:
    begun, within = divmod(frame, multiframe)
    for start in starts:
        if start >= within:
            return begun * multiframe + start
    return (begun + 1) * multiframe + starts[0]
