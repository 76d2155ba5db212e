"""The station's side: one channel for all of a group in the cell, and no answer awaited from anybody.

Each group that has something to send runs through TX_TRANSITIONS (EOMP, section 4 of the paper; table 5.3 of the
specification): a page in the next PCH block, an assignment in the next AGCH block after it, one frame in every block of
the traffic channel, a release. Each packet leaves at the end of its block. All groups share the blocks of PCH and AGCH
and the traffic channels; one that finds no channel free when its page is out pages again in the next PCH block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from castbed.context import Context
from castbed.errors import ContractError
from castbed.machine import Machine
from castbed.packets import Packet
from castbed.parts.cell_channel import packets
from castbed.parts.cell_channel.options import GROUPS_MAX, PAYLOAD_BYTES_MAX, CellOptions
from castbed.parts.cell_channel.packets import Assign, Frame, Page, Release
from castbed.parts.cell_channel.timing import (
    BLOCK_FRAMES,
    FrameNumber,
    GsmTiming,
    TimeslotNumber,
    on_air,
    traffic_channel,
)
from castbed.values import Group

NO_CHANNEL = "no-channel"
"""Noted for the group each time that its page found all traffic channels busy."""


class TxState(Enum):
    """Where a group is on its way from one burst to the next."""

    IDLE = "idle"
    PAGING = "paging"
    ASSIGNING = "assigning"
    SENDING = "sending"
    RELEASING = "releasing"


class TxEvent(Enum):
    """What happens to a group."""

    QUEUED = "a message is queued"
    NONE_FREE = "page sent, no channel free"
    PAGE_SENT = "page sent, channel reserved"
    ASSIGN_SENT = "assignment sent"
    FRAME_SENT = "frame sent"
    BURST_OVER = "nothing to send for the hold time, or burst too long"
    RELEASE_SENT = "release sent, nothing waits"
    DATA_WAITS = "release sent, messages wait"


TX_TRANSITIONS: Mapping[tuple[TxState, TxEvent], TxState] = {
    (TxState.IDLE, TxEvent.QUEUED): TxState.PAGING,
    (TxState.PAGING, TxEvent.NONE_FREE): TxState.PAGING,
    (TxState.PAGING, TxEvent.PAGE_SENT): TxState.ASSIGNING,
    (TxState.ASSIGNING, TxEvent.ASSIGN_SENT): TxState.SENDING,
    (TxState.SENDING, TxEvent.FRAME_SENT): TxState.SENDING,
    (TxState.SENDING, TxEvent.BURST_OVER): TxState.RELEASING,
    (TxState.RELEASING, TxEvent.RELEASE_SENT): TxState.IDLE,
    (TxState.RELEASING, TxEvent.DATA_WAITS): TxState.PAGING,
}
"""All that can happen. A message that is queued in any state but IDLE only waits for its turn."""


class _Call:
    """One group from its page to its release: what waits, which block is next, and how far the burst is."""

    __slots__ = ("block", "burst_end", "channel", "counter", "fills", "group", "offset", "state", "waiting")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.state = TxState.IDLE
        self.waiting: deque[bytes] = deque()
        self.block: FrameNumber = 0
        self.channel = 0
        self.burst_end = 0
        self.counter = 0
        self.fills = 0
        self.offset = 0

    def on(self, event: TxEvent) -> None:
        self.state = TX_TRANSITIONS[self.state, event]

    @property
    def place(self) -> tuple[int, TimeslotNumber]:
        """Carrier and timeslot of the traffic channel."""
        return traffic_channel(self.channel)


class CellTx(Machine):
    """The transmitter of one cell, as a part of its station's machine."""

    PACKETS: tuple[type[Packet], ...] = packets.PACKETS
    options: CellOptions

    def __init__(self, context: Context, options: CellOptions | None = None) -> None:
        super().__init__(context, options if options is not None else CellOptions())
        self._timing: GsmTiming = self.options.timing
        self._calls: dict[Group, _Call] = {}
        self._free = list(range(self.options.channels))
        self._promised: dict[FrameNumber, int] = {}

    # --- for the owner -----------------------------------------------------------------------------------------------

    def queue(self, group: Group, payload: bytes) -> bool:
        """Send the message to all of the group in the cell, best effort; False: too much waits, it was not taken."""
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise ContractError(f"a message of {len(payload)} bytes, the channel takes {PAYLOAD_BYTES_MAX}")
        call = self._calls.get(group)
        if call is None:
            return self._open(group, payload)
        if len(call.waiting) >= self.options.queue_max:
            return False
        call.waiting.append(payload)
        return True

    def state(self, group: Group) -> TxState:
        call = self._calls.get(group)
        return call.state if call is not None else TxState.IDLE

    @property
    def free_channels(self) -> int:
        return len(self._free)

    # --- what is due at the end of a block ---------------------------------------------------------------------------

    def expired(self, timer: Any) -> None:
        call = self._calls[timer]
        _AT_BLOCK_END[call.state](self, call)

    def _send_page(self, call: _Call) -> None:
        self.broadcast(Page(call.group, on_air(call.block)))
        agch = self._timing.agch_after(call.block)
        if not self._free:
            self.note(NO_CHANNEL, group=call.group)
            self._promised[agch] -= 1
            call.on(TxEvent.NONE_FREE)
            self._schedule_page(call)
            return
        call.channel = min(self._free)
        self._free.remove(call.channel)
        call.on(TxEvent.PAGE_SENT)
        self._await_block(call, agch, 0)

    def _send_assign(self, call: _Call) -> None:
        start = self._timing.start_after(call.block)
        self.broadcast(Assign(call.group, on_air(call.block), *call.place, on_air(start)))
        call.on(TxEvent.ASSIGN_SENT)
        call.burst_end = self._timing.frame_start(start) + self.options.max_burst
        call.counter = call.fills = 0
        self._await_block(call, start, call.place[1])

    def _send_frame(self, call: _Call) -> None:
        payload, index, last = self._next_fragment(call)
        self.broadcast(Frame(call.group, payload, on_air(call.block), *call.place, call.counter, index, last))
        call.counter += 1
        call.on(TxEvent.BURST_OVER if self._is_over(call) else TxEvent.FRAME_SENT)
        self._await_block(call, self._timing.traffic_after(call.block), call.place[1])

    def _send_release(self, call: _Call) -> None:
        self.broadcast(Release(on_air(call.block), *call.place))
        self._free.append(call.channel)
        if call.waiting:
            call.on(TxEvent.DATA_WAITS)
            self._schedule_page(call)
        else:
            call.on(TxEvent.RELEASE_SENT)
            del self._calls[call.group]

    # --- inside ------------------------------------------------------------------------------------------------------

    def _open(self, group: Group, payload: bytes) -> bool:
        if len(self._calls) >= GROUPS_MAX:
            return False
        call = self._calls[group] = _Call(group)
        call.waiting.append(payload)
        call.on(TxEvent.QUEUED)
        self._schedule_page(call)
        return True

    def _next_fragment(self, call: _Call) -> tuple[bytes, int, bool]:
        """Data, index and last flag of the next frame of a burst."""
        if not call.waiting:
            call.fills += 1
            return b"", 0, False
        call.fills = 0
        message, begin, size = call.waiting[0], call.offset, self.options.block_bytes
        call.offset = begin + size
        last = call.offset >= len(message)
        if last:
            call.waiting.popleft()
            call.offset = 0
        return message[begin : begin + size], begin // size, last

    def _is_over(self, call: _Call) -> bool:
        """Whether the burst ends here; never within a message, which could not be continued in another burst."""
        if call.offset:
            return False
        silent = not call.waiting and call.fills >= self.options.hold_frames
        return silent or self.now >= call.burst_end

    def _schedule_page(self, call: _Call) -> None:
        """In the next PCH block that has room and whose AGCH block has, too."""
        timing, now_frame = self._timing, self._timing.frame_from(self.now)
        self._promised = {block: count for block, count in self._promised.items() if block + BLOCK_FRAMES > now_frame}
        pch = timing.first_pch(now_frame)
        while not (self._has_room(pch) and self._has_room(timing.agch_after(pch))):
            pch = timing.first_pch(pch + BLOCK_FRAMES)
        for block in (pch, timing.agch_after(pch)):
            self._promised[block] = self._promised.get(block, 0) + 1
        self._await_block(call, pch, 0)

    def _has_room(self, block: FrameNumber) -> bool:
        return self._promised.get(block, 0) < self.options.groups_per_block

    def _await_block(self, call: _Call, block: FrameNumber, timeslot: TimeslotNumber) -> None:
        call.block = block
        self.set_timer(call.group, self._timing.block_end(block, timeslot) - self.now)


_AT_BLOCK_END: Mapping[TxState, Callable[[CellTx, _Call], None]] = {
    TxState.PAGING: CellTx._send_page,
    TxState.ASSIGNING: CellTx._send_assign,
    TxState.SENDING: CellTx._send_frame,
    TxState.RELEASING: CellTx._send_release,
}
"""What goes out in the block that a group waits for."""
