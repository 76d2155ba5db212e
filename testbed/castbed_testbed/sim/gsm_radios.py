"""What a simulated device has below its protocol when the air is `gsm`: the machines of the cellular channel.

A station's radio carries frames to groups, a host's radio takes them from the channel; both are machines of their own
and know nothing of the protocol above. Packets for one receiver use a dedicated channel, which is only a clock here.
"""

from __future__ import annotations

from collections import deque

from castbed.context import Context
from castbed.events import TimerName
from castbed.machine import Machine, on
from castbed.packets import Command
from castbed.parts.cell_channel import GROUPS_MAX, CellOptions, CellRx, CellTx
from castbed.parts.cell_channel.timing import TRAFFIC_MULTIFRAME, TRAFFIC_STARTS
from castbed.values import Group, Message
from castbed_testbed.experiment import GsmSpec
from castbed_testbed.sim.media import Flight
from castbed_testbed.sim.node import SimNode

EVERYBODY: Group = 0
"""The group of packets that name none: all hosts of a cell listen to it."""
QUEUE_FULL, TOO_MANY_GROUPS = "queue-full", "too-many-groups"
"""Noted when a frame finds `queue_max` others before it, and when a host joins more groups than a radio takes."""


class Subscribe(Command, frozen=True):
    """React to pages of the group."""

    group: Group


class Unsubscribe(Command, frozen=True):
    """React to pages of the group no longer."""

    group: Group


class StationRadio(Machine):
    """Sends each message that is submitted to all of its group in the cell; refuses what finds the queue full."""

    def __init__(self, context: Context, options: CellOptions) -> None:
        super().__init__(context, options)
        self.cell = self.part("cell", CellTx, options)

    def submitted(self, message: Message) -> None:
        if self.cell.queue(message.group, message.payload):
            self.accept(message)
        else:
            self.refuse(message, QUEUE_FULL)
            self.note(QUEUE_FULL, group=message.group)


class HostRadio(Machine):
    """Delivers each message that it got every block of."""

    def __init__(self, context: Context, options: CellOptions) -> None:
        super().__init__(context, options)
        self.cell = self.part("cell", CellRx.handing_to(self._received), options)
        self.cell.subscribe(EVERYBODY)
        self._groups = {EVERYBODY}

    @on(Subscribe)
    def subscribed(self, command: Subscribe) -> None:
        if len(self._groups | {command.group}) > GROUPS_MAX:
            self.note(TOO_MANY_GROUPS, group=command.group)
        else:
            self._groups.add(command.group)
            self.cell.subscribe(command.group)

    @on(Unsubscribe)
    def unsubscribed(self, command: Unsubscribe) -> None:
        self._groups.discard(command.group)
        self.cell.unsubscribe(command.group)

    def detached(self) -> None:
        self.cell.left_cell()

    def _received(self, group: Group, payload: bytes) -> None:
        self.deliver(Message(group=group, payload=payload))


class Dedicated:
    """A host's own channel to the station of its cell: there after the set-up, given up after the hold time.

    It carries one frame after the other in each direction, a block at a time. When one of the two stops or the host
    leaves, it has `ended`, with all that was on it.
    """

    def __init__(self, options: GsmSpec) -> None:
        self.ended = False
        self._options = options
        self._ready = 0
        self._open_until = -1
        self._ends: dict[SimNode, deque[int]] = {}

    def sent(self, sender: SimNode, blocks: int, now: int) -> int | None:
        """When the last block of a frame that is handed over now has left; None if too many frames wait."""
        ends = self._ends.setdefault(sender, deque())
        while ends and ends[0] <= now:
            ends.popleft()
        if len(ends) > self._options.queue_max:
            return None
        if now > self._open_until:
            self._ready = now + self._options.unicast_setup
        end = max(now, self._ready, ends[-1] if ends else 0) + self._lasting(blocks)
        ends.append(end)
        self._open_until = max(self._open_until, end + self._lasting(self._options.hold_frames))
        return end

    def _lasting(self, blocks: int) -> int:
        return blocks * self._options.timing.frame_start(TRAFFIC_MULTIFRAME) // len(TRAFFIC_STARTS)


class Carried:
    """A frame on its way through a group's channel; `addressed` is None where all who hear it may have it."""

    __slots__ = ("addressed", "flight")

    def __init__(self, flight: Flight, addressed: frozenset[SimNode] | None) -> None:
        self.flight = flight
        self.addressed = addressed

    def is_for(self, node: SimNode) -> bool:
        return self.addressed is None or node in self.addressed


class Radio:
    """One device's radio in one life: its machine, its timers and, at a station, the frames in each group's queue."""

    __slots__ = ("machine", "node", "queued", "timers")

    def __init__(self, node: SimNode, machine: StationRadio | HostRadio) -> None:
        self.node = node
        self.machine = machine
        self.timers: dict[TimerName, tuple[Radio, TimerName]] = {}
        self.queued: dict[Group, deque[Carried]] = {}
