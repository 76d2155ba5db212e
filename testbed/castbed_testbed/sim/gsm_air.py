"""The air as a cellular network has it: group traffic in bursts on a shared channel, everything else on dedicated ones.

What a station broadcasts, or multicasts to several hosts, waits for the channel of its group: page, assignment, frames,
release. A host's machine gets the packet when its radio has every block of it; whatever else happens on the channel is
between the radios. A packet for one receiver takes a dedicated channel. Hosts are heard by their station alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from castbed import actions as do
from castbed.actions import Action
from castbed.context import Context
from castbed.events import Asked, Detached, Event, Expired, Submitted
from castbed.history import Kind, LocalEvent
from castbed.packets import Packet
from castbed.parts.cell_channel import FAMILY, PACKETS, PAYLOAD_BYTES_MAX, Frame
from castbed.recording import local_event
from castbed.values import NOBODY, Group, Message
from castbed.wire import Codec
from castbed_testbed.experiment import GsmSpec
from castbed_testbed.plan import Plan
from castbed_testbed.recorder import Recorder
from castbed_testbed.sim.gsm_radios import (
    EVERYBODY,
    QUEUE_FULL,
    Carried,
    Dedicated,
    HostRadio,
    Radio,
    StationRadio,
    Subscribe,
    Unsubscribe,
)
from castbed_testbed.sim.kernel import Kernel
from castbed_testbed.sim.media import NOWHERE, Arrival, Encoder, Flight, Receive
from castbed_testbed.sim.node import Cell, SimNode
from castbed_testbed.sim.transmitter import Transmitter

_RADIOS: dict[str, type[StationRadio | HostRadio]] = {"station": StationRadio, "host": HostRadio}


class Block(Flight):
    """One block on the air; the last of a message `carries` a frame, for whoever has the blocks before."""

    __slots__ = ("carries",)
    carries: Carried | None


class GsmTransmitter(Transmitter):
    """The transmitters of all nodes: wires as everywhere, the air through the radios of stations and hosts."""

    def __init__(
        self,
        plan: Plan,
        nodes: list[SimNode],
        kernel: Kernel,
        recorder: Recorder,
        effects: Counter[str],
        receive: Receive,
    ) -> None:
        super().__init__(plan, nodes, kernel, recorder, effects, receive)
        self._plan = plan
        self._options = plan.experiment.topology.air.gsm or GsmSpec()
        self._blocks = Encoder(Codec({FAMILY: PACKETS}), decode=False)
        self._radios: dict[SimNode, Radio] = {}
        self._dedicated: dict[SimNode, Dedicated] = {}
        self._do: dict[type[Action], Callable[[Radio, Any], None]] = {
            do.Broadcast: self._send_block,
            do.SetTimer: self._set_timer,
            do.CancelTimer: self._cancel_timer,
            do.Note: self._note,
        }

    # --- lives, places and groups of nodes ---------------------------------------------------------------------------

    def came_up(self, node: SimNode) -> None:
        make = _RADIOS.get(node.role)
        if make is not None:
            random = self._plan.random(f"radio/{node.number}/{node.life}")
            context = Context(node.number, self._plan.topology, random, node.life)
            self._radios[node] = Radio(node, make(context, self._options))

    def went_down(self, node: SimNode) -> None:
        """A radio stops with its device, and all that waits in it is gone."""
        radio = self._radios.pop(node, None)
        if radio is None:
            return
        radio.timers.clear()
        at_its_end = node.home.hearers if node.role == "station" and node.home is not None else (node,)
        for host in at_its_end:
            self._end_dedicated(host)

    def went_away(self, node: SimNode) -> None:
        self._end_dedicated(node)
        self._step(self._radios[node], Detached())

    def joined(self, node: SimNode, group: Group) -> None:
        if node.role == "host":
            self._step(self._radios[node], Asked(Subscribe(group)))

    def left(self, node: SimNode, group: Group) -> None:
        if node.role == "host":
            self._step(self._radios[node], Asked(Unsubscribe(group)))

    # --- what machines ask for ---------------------------------------------------------------------------------------

    def broadcast(self, node: SimNode, action: do.Broadcast) -> None:
        flight = self._flight(node, action.packet, node.cell or NOWHERE, NOBODY)
        if flight is None:
            return
        if node.role == "station":
            self._queue(self._radios[node], flight, None)
            return
        if self._own_copy:
            self._air.scatter(flight, (node,), self._kernel.now, self._receive)
        if node.cell is not None:
            self._send_dedicated(flight, _station_of(node.cell))

    def _over_air(self, node: SimNode, packet: Packet, receivers: Sequence[SimNode]) -> None:
        to = receivers[0].number if len(receivers) == 1 else NOBODY
        flight = self._flight(node, packet, node.cell or NOWHERE, to)
        if flight is None:
            return
        if len(receivers) > 1 and node.role == "station":
            self._queue(self._radios[node], flight, frozenset(receivers))
            return
        for receiver in receivers:
            if receiver.cell is node.cell is not None and "station" in (node.role, receiver.role):
                self._send_dedicated(flight, receiver)

    # --- packets for one receiver ------------------------------------------------------------------------------------

    def _send_dedicated(self, flight: Flight, receiver: SimNode | None) -> None:
        if receiver is None:
            return
        sender = flight.sender
        host = receiver if sender.role == "station" else sender
        channel = self._dedicated.setdefault(host, Dedicated(self._options))
        blocks = -(-len(flight.frame) // self._options.block_bytes)
        sent = channel.sent(sender, blocks, self._kernel.now)
        if sent is None:
            self._note(self._radios[sender], do.Note(QUEUE_FULL))
            return
        sender.air_free = max(sender.air_free, sent)  # what waits for a group's channel has no time yet
        self._air.scatter(flight, (receiver,), sent, lambda arrival: self._receive_from(channel, arrival), blocks)

    def _receive_from(self, channel: Dedicated, arrival: Arrival) -> None:
        if not channel.ended:
            self._receive(arrival)

    def _end_dedicated(self, host: SimNode) -> None:
        channel = self._dedicated.pop(host, None)
        if channel is not None:
            channel.ended = True

    # --- packets for a group -----------------------------------------------------------------------------------------

    def _queue(self, radio: Radio, flight: Flight, addressed: frozenset[SimNode] | None) -> None:
        """Let the frame wait for the channel of its packet's group."""
        if len(flight.frame) > PAYLOAD_BYTES_MAX:
            self.oversize += 1
            text = f"a frame of {len(flight.frame)} bytes, the channel takes {PAYLOAD_BYTES_MAX}"
            self._recorder.event(LocalEvent(radio.node.number, self._kernel.now, Kind.DROP, text=text))
            return
        group = getattr(flight.event.first, "group", EVERYBODY)
        message = Message(group=group, payload=flight.frame)
        if self._step(radio, Submitted(message), do.Accept):
            radio.queued.setdefault(group, deque()).append(Carried(flight, addressed))

    def _send_block(self, radio: Radio, action: do.Broadcast) -> None:
        """A block has left the station: those who are tuned to it get their copies."""
        node, packet = radio.node, action.packet
        assert node.cell is not None
        block = self._block(node, packet, node.cell)
        if isinstance(packet, Frame) and packet.last:
            block.carries = self._carried(radio, packet.group)
        self.frames += 1
        if self._measure is not None:
            self._measure(block.frame)
        if node.append is not None:
            self._capture(node, block)
        tuned = tuple(host for host in node.cell.others(node) if self._is_tuned(host, packet, node))
        self._air.scatter(block, tuned, self._kernel.now, self._arrive)
        if block.carries is not None and self._own_copy:
            self._air.scatter(block.carries.flight, (node,), self._kernel.now, self._receive)

    def _block(self, node: SimNode, packet: Packet, cell: Cell) -> Block:
        made = self._blocks.flight(node, packet, cell)
        block = Block(made.sender, made.cell, made.event, made.frame, made.to)
        block.carries = None
        return block

    def _carried(self, radio: Radio, group: Group) -> Carried:
        """The frame that ends with this block: each group's leave in the order in which they were queued."""
        waiting = radio.queued[group]
        carried = waiting.popleft()
        if not waiting:
            del radio.queued[group]
        return carried

    def _is_tuned(self, host: SimNode, packet: Packet, station: SimNode) -> bool:
        radio = self._radios[host].machine
        assert isinstance(radio, HostRadio)
        return radio.cell.listens_to(packet, station.number)

    def _arrive(self, arrival: Arrival) -> None:
        """A block reaches the radios; the machines above get the frame that is complete with it."""
        block, hosts = arrival
        assert isinstance(block, Block)
        complete = [host for host in hosts if host.cell is block.cell and self._hear(host, block)]
        if complete:
            assert block.carries is not None
            self._receive((block.carries.flight, tuple(complete)))

    def _hear(self, host: SimNode, block: Block) -> bool:
        """Show the host's radio the block; whether that completes a frame that is for the host."""
        if host.append is not None:
            seen = block.block(self._kernel.now, outgoing=False)
            host.append(seen)
            self._recorder.appended(len(seen))
        has_all = self._step(self._radios[host], block.event, do.Deliver)
        return has_all and block.carries is not None and block.carries.is_for(host)

    # --- what radios ask for -----------------------------------------------------------------------------------------

    def _step(self, radio: Radio, event: Event, expected: type[Action] = Action) -> bool:
        """Let the event happen to the radio; whether it answered with an action of the expected type."""
        actions = radio.machine.step(event, self._kernel.now)
        for action in actions:
            carry_out = self._do.get(action.__class__)
            if carry_out is not None:
                carry_out(radio, action)
        return any(action.__class__ is expected for action in actions)

    def _set_timer(self, radio: Radio, action: do.SetTimer) -> None:
        radio.timers[action.name] = pending = (radio, action.name)
        self._kernel.at(self._kernel.now + action.delay, self._expire, pending)

    def _expire(self, pending: tuple[Radio, Any]) -> None:
        radio, name = pending
        if radio.timers.get(name) is pending:
            del radio.timers[name]
            self._step(radio, Expired(name))

    def _cancel_timer(self, radio: Radio, action: do.CancelTimer) -> None:
        radio.timers.pop(action.name, None)

    def _note(self, radio: Radio, action: do.Note) -> None:
        if self._recorder.keeps_events:
            event = local_event(radio.node.number, self._kernel.now, action)
            assert event is not None
            self._recorder.event(event)


def _station_of(cell: Cell) -> SimNode | None:
    """The station of the cell, unless it is down."""
    return next((node for node in cell.hearers if node.role == "station"), None)
