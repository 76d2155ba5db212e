"""A host's side: tuned to one channel at a time, and off it as soon as one frame is missing.

The host runs through RX_TRANSITIONS (EOMP, section 4 of the paper; table 5.4 of the specification). Each block says
when the next one is due, so the host's clock need not agree with the station's. A host that misses a block that was due
leaves the channel, because the block may have been the release and the channel may now be another group's; what it had
of a message is dropped, and it gets nothing until the next page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from castbed.context import Context
from castbed.errors import ContractError
from castbed.machine import Machine, on
from castbed.packets import Packet
from castbed.parts.cell_channel import packets
from castbed.parts.cell_channel.options import GROUPS_MAX, CellOptions
from castbed.parts.cell_channel.packets import Assign, Frame, Page, Release
from castbed.parts.cell_channel.timing import FrameNumber, GsmTiming, TimeslotNumber, on_air
from castbed.values import NOBODY, Group, NodeNumber

NO_ASSIGNMENT, CHANNEL_LEFT = "no-assignment", "channel-left"
"""Noted when a paged host finds nothing in the AGCH block, and when it misses a frame on its channel."""

_DUE = "due"


class RxState(Enum):
    """What a host listens to."""

    IDLE = "idle"
    PAGED = "paged"
    ASSIGNED = "assigned"
    RECEIVING = "receiving"
    RELEASED = "released"


class RxEvent(Enum):
    """What happens to a host."""

    PAGE = "page of a subscribed group"
    ASSIGN = "assignment for it"
    FRAME = "frame in sequence"
    MISSING = "what was due did not come"
    RELEASE = "release"
    PHYSICAL_RELEASE = "physical release"
    LEFT = "left the cell or the group"


RX_TRANSITIONS: Mapping[tuple[RxState, RxEvent], RxState] = {
    (RxState.IDLE, RxEvent.PAGE): RxState.PAGED,
    (RxState.PAGED, RxEvent.PAGE): RxState.PAGED,
    (RxState.PAGED, RxEvent.ASSIGN): RxState.ASSIGNED,
    (RxState.PAGED, RxEvent.MISSING): RxState.IDLE,
    (RxState.ASSIGNED, RxEvent.FRAME): RxState.RECEIVING,
    (RxState.RECEIVING, RxEvent.FRAME): RxState.RECEIVING,
    (RxState.ASSIGNED, RxEvent.MISSING): RxState.IDLE,
    (RxState.RECEIVING, RxEvent.MISSING): RxState.IDLE,
    (RxState.RECEIVING, RxEvent.RELEASE): RxState.RELEASED,
    (RxState.RELEASED, RxEvent.PHYSICAL_RELEASE): RxState.IDLE,
    **{(state, RxEvent.LEFT): RxState.IDLE for state in RxState},
}
"""All that can happen. Whatever else is on the air is not heard: the host is not tuned to it."""


class CellRx(Machine):
    """The receiver of one host, as a part of the host's machine."""

    PACKETS: tuple[type[Packet], ...] = packets.PACKETS
    options: CellOptions

    def __init__(self, context: Context, options: CellOptions | None, received: Callable[[Group, bytes], None]) -> None:
        super().__init__(context, options if options is not None else CellOptions())
        self.state = RxState.IDLE
        self._timing: GsmTiming = self.options.timing
        self._received = received
        self._subscribed: set[Group] = set()
        self._paged: set[Group] = set()
        self._station = NOBODY
        self._tuned: Assign | None = None
        self._due: FrameNumber = 0
        self._heard: FrameNumber | None = None
        self._counter = 0
        self._fragments: list[bytes] = []

    @classmethod
    def handing_to(cls, received: Callable[[Group, bytes], None]) -> Callable[[Context, CellOptions | None], CellRx]:
        """What `Machine.part` makes a part from; `received(group, payload)` gets each message and must not raise."""
        return lambda context, options: cls(context, options, received)

    # --- for the owner -----------------------------------------------------------------------------------------------

    def subscribe(self, group: Group) -> None:
        """React to pages of the group from now on; a burst that is under way is not joined."""
        if len(self._subscribed | {group}) > GROUPS_MAX:
            raise ContractError(f"a host subscribes to {GROUPS_MAX} groups at most")
        self._subscribed.add(group)

    def unsubscribe(self, group: Group) -> None:
        """Take no more of the group's pages, and leave its channel."""
        self._subscribed.discard(group)
        self._paged.discard(group)
        tuned_to_it = self._tuned is not None and self._tuned.group == group
        if tuned_to_it or (self.state is RxState.PAGED and not self._paged):
            self._idle(RxEvent.LEFT)

    def left_cell(self) -> None:
        """Out of the station's range: nothing of what was begun will be continued."""
        self._idle(RxEvent.LEFT)

    def listens_to(self, packet: Packet, sender: NodeNumber) -> bool:
        """Whether the receiver is tuned to where the packet is on the air."""
        if isinstance(packet, (Frame, Release)):
            return self._is_here(packet, sender)
        return self._tuned is None

    # --- handlers ----------------------------------------------------------------------------------------------------

    @on(Page)
    def page_received(self, page: Page, sender: NodeNumber) -> None:
        packets.check_page(page, self._timing)
        if page.group not in self._subscribed:
            return
        agch = on_air(self._timing.agch_after(page.frame))
        if self.state is RxState.IDLE:
            self._station = sender
            self._await(page.frame, 0, agch, 0)
        elif self.state is not RxState.PAGED or (sender, agch) != (self._station, self._due):
            return
        self._on(RxEvent.PAGE)
        self._paged.add(page.group)

    @on(Assign)
    def assign_received(self, assign: Assign, sender: NodeNumber) -> None:
        packets.check_assign(assign, self._timing)
        is_due = self.state is RxState.PAGED and (sender, assign.frame) == (self._station, self._due)
        if not is_due or assign.group not in self._paged:
            return
        self._on(RxEvent.ASSIGN)
        self._paged.clear()
        self._tuned = assign
        self._await(assign.frame, 0, assign.start, assign.timeslot)

    @on(Frame)
    def frame_received(self, frame: Frame, sender: NodeNumber) -> None:
        packets.check_frame(frame, self.options)
        tuned = self._tuned
        if tuned is None or not self._is_here(frame, sender) or frame.frame == self._heard:
            return
        if frame.group != tuned.group or not self._is_next(frame):
            self._leave_channel()
            return
        self._on(RxEvent.FRAME)
        self._heard = frame.frame
        self._counter += 1
        self._await(frame.frame, frame.timeslot, on_air(self._timing.traffic_after(frame.frame)), frame.timeslot)
        if not frame.is_fill:
            self._collect(frame)

    @on(Release)
    def release_received(self, release: Release, sender: NodeNumber) -> None:
        packets.check_release(release, self._timing)
        if not self._is_here(release, sender):
            return
        if self.state is RxState.ASSIGNED or release.frame != self._due:
            self._leave_channel()
        else:
            self._on(RxEvent.RELEASE)
            self._idle(RxEvent.PHYSICAL_RELEASE)

    def expired(self, timer: Any) -> None:  # noqa: ARG002 (there is one)
        """What was due did not come."""
        if self.state is RxState.PAGED:
            self.note(NO_ASSIGNMENT)
            self._idle(RxEvent.MISSING)
        else:
            self._leave_channel()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _on(self, event: RxEvent) -> None:
        self.state = RX_TRANSITIONS[self.state, event]

    def _await(
        self, block: FrameNumber, timeslot: TimeslotNumber, due: FrameNumber, due_timeslot: TimeslotNumber
    ) -> None:
        """This block has just ended; be patient until the next one that matters has."""
        self._due = due
        self.set_timer(_DUE, self._timing.between(block, timeslot, due, due_timeslot) + self.options.guard)

    def _is_here(self, packet: Frame | Release, sender: NodeNumber) -> bool:
        """Whether the packet is on the channel that the host is tuned to."""
        tuned = self._tuned
        place = (sender, packet.carrier, packet.timeslot)
        return tuned is not None and place == (self._station, tuned.carrier, tuned.timeslot)

    def _is_next(self, frame: Frame) -> bool:
        """Whether nothing is missing between the last frame and this one."""
        index = 0 if frame.is_fill else frame.index
        return (frame.frame, frame.counter, index) == (self._due, self._counter, len(self._fragments))

    def _collect(self, frame: Frame) -> None:
        self._fragments.append(frame.payload)
        if frame.last:
            payload = b"".join(self._fragments)
            self._fragments.clear()
            self._received(frame.group, payload)

    def _leave_channel(self) -> None:
        """The disconnect rule."""
        assert self._tuned is not None
        self.note(CHANNEL_LEFT, group=self._tuned.group)
        self._idle(RxEvent.MISSING)

    def _idle(self, event: RxEvent) -> None:
        """Back to the PCH, with nothing kept of the burst."""
        self._on(event)
        self.cancel_timer(_DUE)
        self._paged.clear()
        self._tuned = self._heard = None
        self._counter = 0
        self._fragments.clear()
