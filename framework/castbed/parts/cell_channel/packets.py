"""What a cell's station sends on the channel, and what of it can be true; kinds 80 to 89 are the channel's.

All four are broadcast into the cell. `frame` is the first TDMA frame of the block that a packet fills, which together
with carrier and timeslot says where it is on the air: whoever is not tuned there does not hear it.
"""

from __future__ import annotations

from castbed.errors import PeerError
from castbed.packets import Packet
from castbed.parts.cell_channel.options import PAYLOAD_BYTES_MAX, CellOptions
from castbed.parts.cell_channel.timing import (
    CARRIERS_MAX,
    HYPERFRAME,
    TIMESLOTS,
    FrameNumber,
    GsmTiming,
    TimeslotNumber,
)
from castbed.values import Group

FAMILY = "cell-channel"  # of these packets where the channel is a layer of its own, below a protocol
COUNTER_LIMIT = HYPERFRAME  # no burst has more blocks than there are frame numbers


class Page(Packet, frozen=True, tag=80):
    """On the PCH: there will be something for the group."""

    group: Group
    frame: FrameNumber


class Assign(Packet, frozen=True, tag=81):
    """On the AGCH: the group's data is on this carrier and timeslot from the block `start` on."""

    group: Group
    frame: FrameNumber
    carrier: int
    timeslot: TimeslotNumber
    start: FrameNumber


class Frame(Packet, frozen=True, tag=82):
    """On a traffic channel: the `counter`-th block of a burst, with fragment `index` of a message.

    All fragments of a message but the last are full. A block without data that is not the last is a fill frame: it
    keeps the channel while nothing is to be sent, because a missing block would make every receiver leave.
    """

    group: Group
    payload: bytes
    frame: FrameNumber
    carrier: int
    timeslot: TimeslotNumber
    counter: int
    index: int
    last: bool

    @property
    def is_fill(self) -> bool:
        return not self.payload and not self.last


class Release(Packet, frozen=True, tag=83):
    """On the FACCH, in place of a traffic block: the burst is over and the channel may become another group's."""

    frame: FrameNumber
    carrier: int
    timeslot: TimeslotNumber


PACKETS: tuple[type[Packet], ...] = (Page, Assign, Frame, Release)


def check_page(page: Page, timing: GsmTiming) -> None:
    """In a block of the PCH."""
    if not _on_air(page.frame) or timing.first_pch(page.frame) != page.frame:
        raise PeerError(f"a page in frame {page.frame}, where no PCH block begins")


def check_assign(assign: Assign, timing: GsmTiming) -> None:
    """In a block of the AGCH, naming a traffic channel and the first traffic block for which there is time to tune."""
    if not _on_air(assign.frame) or timing.first_agch(assign.frame) != assign.frame:
        raise PeerError(f"an assignment in frame {assign.frame}, where no AGCH block begins")
    _check_channel(assign.carrier, assign.timeslot)
    if assign.start != timing.start_after(assign.frame) % HYPERFRAME:
        raise PeerError(f"an assignment in frame {assign.frame} of a burst that begins in {assign.start}")


def check_frame(frame: Frame, options: CellOptions) -> None:
    """A traffic block whose fragment is as long as its place in the message says."""
    _check_traffic(frame.frame, frame.carrier, frame.timeslot, options.timing)
    size, full = len(frame.payload), options.block_bytes
    if not 0 <= frame.counter < COUNTER_LIMIT:
        raise PeerError(f"no burst has a block {frame.counter}")
    if frame.index < 0 or frame.index * full + size > PAYLOAD_BYTES_MAX:
        raise PeerError(f"fragment {frame.index} is outside the {PAYLOAD_BYTES_MAX} bytes of a message")
    if frame.is_fill:
        if frame.index:
            raise PeerError(f"a fill frame as fragment {frame.index}")
    elif size > full or (size < full and not frame.last) or (not size and frame.index):
        raise PeerError(f"fragment {frame.index} of {size} bytes, where a block holds {full}")


def check_release(release: Release, timing: GsmTiming) -> None:
    """In a traffic block."""
    _check_traffic(release.frame, release.carrier, release.timeslot, timing)


def _check_traffic(frame: FrameNumber, carrier: int, timeslot: TimeslotNumber, timing: GsmTiming) -> None:
    if not _on_air(frame) or timing.first_traffic(frame) != frame:
        raise PeerError(f"traffic in frame {frame}, where no block begins")
    _check_channel(carrier, timeslot)


def _check_channel(carrier: int, timeslot: TimeslotNumber) -> None:
    if not (0 <= carrier < CARRIERS_MAX and 0 <= timeslot < TIMESLOTS) or carrier == timeslot == 0:
        raise PeerError(f"timeslot {timeslot} of carrier {carrier} is no traffic channel")


def _on_air(frame: FrameNumber) -> bool:
    return 0 <= frame < HYPERFRAME
