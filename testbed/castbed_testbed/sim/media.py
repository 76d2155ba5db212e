"""What carries packets: air cells and wires, with rates, delays and everything that goes wrong on the way.

A transmitter sends one frame after the other at the rate of its medium. Who hears a transmission on the air is decided
when it is handed over: everybody in the cell who is still in it when the copy arrives. Copies that arrive at the same
time are one event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from castbed.capture import AIR, WIRE, frame_block
from castbed.events import Received
from castbed.packets import Packet
from castbed.values import NOBODY, NodeNumber
from castbed.wire import ETHERNET_BYTES, Codec, ethernet_frame
from castbed_testbed.experiment import AirSpec, WireSpec
from castbed_testbed.faults import Faults
from castbed_testbed.schedule import Block
from castbed_testbed.sim.kernel import Kernel
from castbed_testbed.sim.node import Cell, SimNode

SECOND = 1_000_000_000
WIRED = Cell()  # where packets on wires are
NOWHERE = Cell()  # where transmissions of nodes out of range are


class Flight:
    """One transmission: what is said, by whom, and in which cell (or WIRED, or NOWHERE)."""

    __slots__ = ("_ethernet", "cell", "event", "frame", "sender", "to")

    def __init__(self, sender: SimNode, cell: Cell, event: Received, frame: bytes, to: NodeNumber) -> None:
        self.sender = sender
        self.cell = cell
        self.event = event
        self.frame = frame
        self.to = to
        self._ethernet = b""

    def block(self, at: int, outgoing: bool) -> bytes:
        """What captures keep of this transmission: its sender with `outgoing`, its receivers without."""
        if not self._ethernet:
            self._ethernet = ethernet_frame(self.frame, self.sender.number, self.to)
        return frame_block(WIRE if self.cell is WIRED else AIR, at, self._ethernet, outgoing)

    def readdressed(self, to: NodeNumber) -> Flight:
        """The same packet for another receiver."""
        return Flight(self.sender, self.cell, self.event, self.frame, to)


Arrival = tuple[Flight, tuple[SimNode, ...]]
Receive = Callable[[Arrival], None]


class Blocks:
    """Directions in which nothing passes for a while."""

    def __init__(self, blocks: tuple[Block, ...]) -> None:
        self._by_pair: dict[tuple[NodeNumber, NodeNumber], list[Block]] = {}
        for block in blocks:
            self._by_pair.setdefault((block.source, block.target), []).append(block)

    def __bool__(self) -> bool:
        return bool(self._by_pair)

    def block(self, source: NodeNumber, target: NodeNumber, at: int) -> Block | None:
        for block in self._by_pair.get((source, target), ()):
            if block.start <= at < block.end:
                return block
        return None


class Air:
    """All air cells: they share their parameters and their faults."""

    def __init__(
        self, spec: AirSpec, faults: Faults, blocks: Blocks, random: Random, effects: Counter[str], kernel: Kernel
    ) -> None:
        self._bit_ns = SECOND / spec.rate
        self._delay = spec.delay
        self._faults = faults
        self._blocks = blocks
        self._random = random
        self._effects = effects
        self._kernel = kernel
        troubled = faults.loss or faults.duplication or faults.reordering or blocks
        self._constant = None if troubled else spec.delay.constant

    def transmit(self, flight: Flight, hearers: tuple[SimNode, ...], receive: Receive) -> None:
        """Queue the frame at its transmitter and let the hearers receive their copies."""
        sender, now = flight.sender, self._kernel.now
        start = sender.air_free if sender.air_free > now else now
        sender.air_free = sent = start + int((len(flight.frame) + ETHERNET_BYTES) * 8 * self._bit_ns)
        if self._constant is not None:
            self._kernel.at(sent + self._constant, receive, (flight, hearers))
            return
        arrivals: dict[int, list[SimNode]] = {}
        for hearer in hearers:
            for at in self._copies(sender, hearer, sent):
                arrivals.setdefault(at, []).append(hearer)
        for at, together in arrivals.items():
            self._kernel.at(at, receive, (flight, tuple(together)))

    def _copies(self, sender: SimNode, hearer: SimNode, sent: int) -> list[int]:
        """When the copies for one hearer arrive: usually one, none if it is lost, two if it is duplicated."""
        random, faults = self._random, self._faults
        if sender is hearer:
            return [sent + self._delay.sample(random)]
        if self._blocks:
            block = self._blocks.block(sender.number, hearer.number, sent)
            if block is not None:
                self._effects[block.fault] += 1
                return []
        if faults.loss and random.random() < faults.loss:
            self._effects["loss"] += 1
            return []
        copies = [sent + self._travel()]
        if faults.duplication and random.random() < faults.duplication:
            self._effects["duplication"] += 1
            copies.append(sent + self._travel())
        return copies

    def _travel(self) -> int:
        delay = self._delay.sample(self._random)
        reordering = self._faults.reordering
        if reordering is not None and self._random.random() < reordering.probability:
            self._effects["reordering"] += 1
            delay += reordering.delay.sample(self._random)
        return delay


class Link:
    """One direction of one wire: when it is free again, and when the latest packet on it arrives."""

    __slots__ = ("free", "latest", "receivers")

    def __init__(self, receiver: SimNode) -> None:
        self.receivers = (receiver,)
        self.free = 0
        self.latest = 0


class Wires:
    """The wires between all fixed nodes: reliable; a blocked direction delivers when the block ends."""

    def __init__(self, spec: WireSpec, blocks: Blocks, random: Random, effects: Counter[str], kernel: Kernel) -> None:
        self._bit_ns = SECOND / spec.rate
        self._delay = spec.delay
        self._constant = spec.delay.constant
        self._fifo = spec.fifo
        self._blocks = blocks
        self._random = random
        self._effects = effects
        self._kernel = kernel
        self._links: dict[tuple[SimNode, SimNode], Link] = {}

    def transmit(self, flight: Flight, receiver: SimNode, receive: Receive) -> None:
        link = self._links.get((flight.sender, receiver))
        if link is None:
            link = self._links[flight.sender, receiver] = Link(receiver)
        now = self._kernel.now
        start = link.free if link.free > now else now
        link.free = sent = start + int((len(flight.frame) + ETHERNET_BYTES) * 8 * self._bit_ns)
        delay = self._constant if self._constant is not None else self._delay.sample(self._random)
        arrival = sent + delay
        if self._blocks:
            arrival = self._blocked_until(flight.sender, receiver, sent, arrival)
        if self._fifo:
            if arrival < link.latest:
                arrival = link.latest
            link.latest = arrival
        self._kernel.at(arrival, receive, (flight, link.receivers))

    def _blocked_until(self, sender: SimNode, receiver: SimNode, sent: int, arrival: int) -> int:
        """When the packet arrives: not before the end of every block that is in force then."""
        free = sent
        while (block := self._blocks.block(sender.number, receiver.number, free)) is not None:
            self._effects[block.fault] += 1
            free = block.end
        return max(arrival, free)


class Encoder:
    """Makes flights of packets; with `decode`, receivers get what the bytes say instead of the sender's object."""

    def __init__(self, codec: Codec, decode: bool) -> None:
        self._codec = codec
        self._decode = decode

    def flight(self, sender: SimNode, packet: Packet, cell: Cell, to: NodeNumber = NOBODY) -> Flight:
        frame = self._codec.encode(packet, sender.number)
        seen: Any = self._codec.decode(frame)[0] if self._decode else packet
        return Flight(sender, cell, Received(seen, sender.number), frame, to)
