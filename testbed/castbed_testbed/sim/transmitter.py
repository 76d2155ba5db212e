"""Puts packets on the media: on the air of the sender's cell, or on wires, and into the sender's capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from castbed.actions import Broadcast, Multicast, Send
from castbed.errors import ContractError
from castbed.history import Kind, LocalEvent
from castbed.packets import Packet
from castbed.values import NOBODY, Group, NodeNumber
from castbed.wire import FrameTooLargeError
from castbed_testbed.plan import Plan
from castbed_testbed.recorder import Recorder
from castbed_testbed.sim.kernel import Kernel
from castbed_testbed.sim.media import NOWHERE, WIRED, Air, Blocks, Flight, Receive, Wires
from castbed_testbed.sim.node import Cell, SimNode
from castbed_testbed.sim.sealing import encoder_of


class Transmitter:
    """The transmitters of all nodes; whatever arrives is handed to `receive`."""

    def __init__(
        self,
        plan: Plan,
        nodes: list[SimNode],
        kernel: Kernel,
        recorder: Recorder,
        effects: Counter[str],
        receive: Receive,
    ) -> None:
        self.frames = 0
        self.oversize = 0
        self.encoder = encoder_of(plan)
        self._nodes = nodes
        self._kernel = kernel
        self._recorder = recorder
        self._receive = receive
        self._measure = recorder.measure
        self._fixed = plan.topology.fixed
        self._own_copy = "own_copy" in plan.chosen.variant.needs
        spec, blocks = plan.experiment.topology, Blocks(plan.schedule.blocks)
        faults, queued = plan.experiment.faults, recorder.queued
        self._air = Air(spec.air, faults, blocks, plan.random("air"), effects, kernel, queued)
        self._wires = Wires(spec.wire, blocks, plan.random("wires"), effects, kernel, queued)

    # --- what a radio that keeps state has to know; the plain one keeps none -----------------------------------------

    def came_up(self, node: SimNode) -> None:
        """The node begins a life."""

    def went_down(self, node: SimNode) -> None:
        """The node crashed: a frame that has not left its transmitter completely never will."""
        now = self._kernel.now
        if self.air_free(node) > now:
            self._kernel.withdraw(self._receive, lambda arrival: arrival[0].sender is node and arrival[0].sent > now)

    def went_away(self, node: SimNode) -> None:
        """The node left the cell that it was in."""

    def joined(self, node: SimNode, group: Group) -> None:
        """The node counts as a member of the group."""

    def left(self, node: SimNode, group: Group) -> None:
        """The node no longer counts as a member of the group."""

    def air_free(self, node: SimNode) -> int:
        """When everything that the node has put on the air is sent."""
        return self._air.queue(node, node.cell or NOWHERE).air_free

    # --- what machines ask for ---------------------------------------------------------------------------------------

    def broadcast(self, node: SimNode, action: Broadcast) -> None:
        cell = node.cell or NOWHERE
        flight = self._flight(node, action.packet, cell, NOBODY)
        if flight is None:
            return
        hearers: tuple[SimNode, ...]
        if cell is NOWHERE:
            hearers = (node,) if self._own_copy else ()
        else:
            hearers = cell.hearers if self._own_copy else cell.others(node)
        self._air.transmit(flight, hearers, self._receive)

    def send(self, node: SimNode, action: Send) -> None:
        """One copy; short, because most packets of most protocols go this way."""
        receiver = self._receiver(node, action.packet, action.to)
        if receiver is node or (node.number in self._fixed and action.to in self._fixed):
            self._over_wires(node, action.packet, (receiver,))
        else:
            self._over_air(node, action.packet, (receiver,))

    def multicast(self, node: SimNode, action: Multicast) -> None:
        self._copies(node, action.packet, action.to)

    def _copies(self, node: SimNode, packet: Packet, to: tuple[NodeNumber, ...]) -> None:
        """Over wires where there are any (and to oneself), in one transmission on the air for all others."""
        wired = node.number in self._fixed
        by_wire: list[SimNode] = []
        on_air: list[SimNode] = []
        for number in to:
            receiver = self._receiver(node, packet, number)
            (by_wire if receiver is node or (wired and number in self._fixed) else on_air).append(receiver)
        if by_wire:
            self._over_wires(node, packet, by_wire)
        if on_air:
            self._over_air(node, packet, on_air)

    def _receiver(self, node: SimNode, packet: Packet, number: NodeNumber) -> SimNode:
        if not 0 < number <= len(self._nodes):
            raise ContractError(f"{node.name} sent {type(packet).__name__} to node {number}, which does not exist")
        return self._nodes[number - 1]

    def _over_air(self, node: SimNode, packet: Packet, receivers: Sequence[SimNode]) -> None:
        to = receivers[0].number if len(receivers) == 1 else NOBODY
        flight = self._flight(node, packet, node.cell or NOWHERE, to)
        if flight is not None:
            hearers = tuple([hearer for hearer in receivers if hearer.cell is node.cell is not None])
            self._air.transmit(flight, hearers, self._receive)

    def _over_wires(self, node: SimNode, packet: Packet, receivers: Sequence[SimNode]) -> None:
        """One packet for all; only captures care about the address of each copy."""
        if self._wires.multicasts and len(receivers) > 1:
            self._in_one_transmission(node, packet, receivers)
            return
        flight = self._flight(node, packet, WIRED, receivers[0].number)
        if flight is None:
            return
        transmit, receive, captured = self._wires.transmit, self._receive, node.append is not None
        transmit(flight, receivers[0], receive)
        for receiver in receivers[1:]:
            self.frames += 1
            if self._measure is not None:
                self._measure(flight.frame)
            if captured:
                flight = flight.readdressed(receiver.number)
                self._capture(node, flight)
            transmit(flight, receiver, receive)

    def _in_one_transmission(self, node: SimNode, packet: Packet, receivers: Sequence[SimNode]) -> None:
        flight = self._flight(node, packet, WIRED, NOBODY)
        if flight is not None:
            self._wires.multicast(flight, receivers, self._receive)

    def _flight(self, node: SimNode, packet: Packet, cell: Cell, to: NodeNumber) -> Flight | None:
        try:
            flight = self.encoder.flight(node, packet, cell, to)
        except FrameTooLargeError as error:
            self.oversize += 1
            self._recorder.event(LocalEvent(node.number, self._kernel.now, Kind.DROP, text=str(error)))
            return None
        self.frames += 1
        if self._measure is not None:
            self._measure(flight.frame)
        if node.append is not None:
            self._capture(node, flight)
        return flight

    def _capture(self, node: SimNode, flight: Flight) -> None:
        block = flight.block(self._kernel.now, outgoing=True)
        assert node.append is not None
        node.append(block)
        self._recorder.appended(len(block))
