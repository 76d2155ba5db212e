"""What can be set about the channel, the same for both sides, and the limits that cannot."""

from __future__ import annotations

import msgspec

from castbed.parts.cell_channel.timing import TRAFFIC_CHANNELS_MAX, GsmTiming
from castbed.units import Duration

PAYLOAD_BYTES_MAX = 4096  # of one message: 4.1 s at 8 kbit/s, for which nobody else gets the channel
GROUPS_MAX = 256  # with something to send at a time, and subscribed at a host
BLOCK_BYTES_MAX = 1024  # far more than 20 ms of any GSM or EDGE channel carry
HOLD_FRAMES_MAX = 3000  # a minute
BURST_MAX = 3600 * 10**9  # an hour, well below a hyperframe
QUEUE_LIMIT = 4096  # messages; more only makes them older


class CellOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cell: its frames, its channels, and how long a burst is."""

    timing: GsmTiming = GsmTiming()
    channels: int = 7
    """Traffic channels of the cell: the timeslots of one carrier but the first, then those of further carriers."""
    groups_per_block: int = 2
    """Groups that one PCH or AGCH block names (as PAGING REQUEST TYPE 1 and IMMEDIATE ASSIGNMENT EXTENDED do)."""
    block_bytes: int = 20
    """Data in a traffic block: 24 bytes of TCH/F9.6, less 4 for counter, fragment and last flag; 8 kbit/s."""
    hold_frames: int = 2
    """`hold_time`: fill frames that are sent before the channel is given up, in case more comes for the group."""
    max_burst: Duration = Duration(10**9)
    """A burst that is longer ends with the message that it is at, so that newcomers are paged."""
    queue_max: int = 64
    """Messages that wait for one group; what comes then is not taken."""
    guard: Duration = Duration(2 * 10**6)
    """How much later than expected a block may come to a host: what the medium below varies by."""

    def __post_init__(self) -> None:
        _within("channels", self.channels, 1, TRAFFIC_CHANNELS_MAX)
        _within("groups_per_block", self.groups_per_block, 1, 4)  # PAGING REQUEST TYPE 3 names four
        _within("block_bytes", self.block_bytes, 1, BLOCK_BYTES_MAX)
        _within("hold_frames", self.hold_frames, 0, HOLD_FRAMES_MAX)
        _within("max_burst", self.max_burst, 1, BURST_MAX)
        _within("queue_max", self.queue_max, 1, QUEUE_LIMIT)
        _within("guard", self.guard, 1, self.timing.frame_start(1) - 1)  # a block that late is another block


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"`{name}` must be from {least} to {most}")
