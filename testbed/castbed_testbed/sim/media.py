"""What carries packets: air cells and wires, with rates, delays and everything that goes wrong on the way.

A transmitter sends one frame after the other at the rate of its medium. Who hears a transmission on the air is decided
when it is handed over: everybody in the cell who is still in it when the copy arrives. Copies that arrive at the same
time are one event. Who wants to know of every transmission passes `queued`; else nothing is paid for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from struct import Struct
from typing import Any

from castbed.capture import AIR, WIRE, frame_block
from castbed.events import Received
from castbed.packets import Packet
from castbed.values import NOBODY, NodeNumber
from castbed.wire import ETHERNET_BYTES, HEADER_BYTES, Codec, ethernet_frame
from castbed_testbed.experiment import AirSpec, WireSpec
from castbed_testbed.faults import Faults
from castbed_testbed.schedule import Block
from castbed_testbed.sim.kernel import Kernel
from castbed_testbed.sim.node import Cell, SimNode

SECOND = 1_000_000_000
WIRED = Cell()  # where packets on wires are
NOWHERE = Cell()  # where transmissions of nodes out of range are
CONTROL_HEADER_BYTES = 32  # of a packet without message, where papers count; they give no number


class Flight:
    """One transmission: what is said, by whom, and in which cell (or WIRED, or NOWHERE).

    On the air, `sent` is when its last bit leaves the transmitter.
    """

    __slots__ = ("_ethernet", "cell", "event", "frame", "sender", "sent", "to")

    def __init__(self, sender: SimNode, cell: Cell, event: Received, frame: bytes, to: NodeNumber) -> None:
        self.sender = sender
        self.cell = cell
        self.event = event
        self.frame = frame
        self.to = to
        self.sent = 0
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
Queued = Callable[["Flight", object, int, int, int], None]
"""A transmission, the queue it waits in, and when it was handed over, begins to be sent, and is sent."""


def frame_bytes(frame: bytes) -> int:
    """What a frame is on Ethernet."""
    return len(frame) + ETHERNET_BYTES


def message_bytes(frame: bytes) -> int:
    """What papers count: a message is as large as its payload, anything else has a small header and its fields."""
    control: int
    payload: int
    control, payload = _SIZES.unpack_from(frame, HEADER_BYTES - _SIZES.size)
    return payload or CONTROL_HEADER_BYTES + control


_SIZES = Struct(">II")  # the last two fields of a frame's header
_COUNTED: dict[str, Callable[[bytes], int]] = {"frames": frame_bytes, "messages": message_bytes}


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
        self,
        spec: AirSpec,
        faults: Faults,
        blocks: Blocks,
        random: Random,
        effects: Counter[str],
        kernel: Kernel,
        queued: Queued | None = None,
    ) -> None:
        self._bit_ns = SECOND / spec.rate
        self._bytes = _COUNTED[spec.sizes]
        self._shared = spec.shared
        self._queued = queued
        self._delay = spec.delay
        self._faults = faults
        self._spared = frozenset(faults.loss_spares)
        self._blocks = blocks
        self._random = random
        self._effects = effects
        self._kernel = kernel
        troubled = faults.loss or faults.duplication or faults.reordering or blocks
        self._constant = None if troubled else spec.delay.constant
        only_loss = not (faults.duplication or faults.reordering or blocks)
        self._constant_but_lossy = spec.delay.constant if only_loss else None

    def queue(self, sender: SimNode, cell: Cell) -> SimNode | Cell:
        """Where the frame waits: at its transmitter, or, where that is shared, with all others of the cell."""
        if self._shared == "none" or cell is NOWHERE or (self._shared == "uplink" and sender.role == "station"):
            return sender
        return cell

    def transmit(self, flight: Flight, hearers: tuple[SimNode, ...], receive: Receive) -> None:
        """Queue the frame at its transmitter and let the hearers receive their copies."""
        now, queue = self._kernel.now, self.queue(flight.sender, flight.cell)
        start = queue.air_free if queue.air_free > now else now
        queue.air_free = flight.sent = sent = start + int(self._bytes(flight.frame) * 8 * self._bit_ns)
        if self._queued is not None:
            self._queued(flight, queue, now, start, sent)
        if self._constant is not None:
            self._kernel.at(sent + self._constant, receive, (flight, hearers))
        elif self._constant_but_lossy is not None:
            kept = self._survivors(flight, hearers)
            if kept:
                self._kernel.at(sent + self._constant_but_lossy, receive, (flight, kept))
        else:
            self.scatter(flight, hearers, sent, receive)

    def _survivors(self, flight: Flight, hearers: tuple[SimNode, ...]) -> tuple[SimNode, ...]:
        """Who hears a copy where loss is all that can happen to it: the quick way for the common case."""
        if flight.event.first.__class__.__name__ in self._spared:
            return hearers
        random, loss, sender = self._random.random, self._faults.loss, flight.sender
        if len(hearers) == 1 and hearers[0] is not sender:
            lost = random() < loss
            self._effects["loss"] += lost
            return () if lost else hearers
        kept = [hearer for hearer in hearers if hearer is sender or random() >= loss]
        self._effects["loss"] += len(hearers) - len(kept)
        return hearers if len(kept) == len(hearers) else tuple(kept)

    def scatter(
        self, flight: Flight, hearers: tuple[SimNode, ...], sent: int, receive: Receive, parts: int = 1
    ) -> None:
        """Let the hearers receive their copies of what was `sent` in so many `parts`, each of which may be lost."""
        spared = flight.event.first.__class__.__name__ in self._spared
        loss = 0.0 if spared else 1 - (1 - self._faults.loss) ** parts
        arrivals: dict[int, list[SimNode]] = {}
        for hearer in hearers:
            for at in self._copies(flight.sender, hearer, sent, loss):
                arrivals.setdefault(at, []).append(hearer)
        for at, together in arrivals.items():
            self._kernel.at(at, receive, (flight, tuple(together)))

    def _copies(self, sender: SimNode, hearer: SimNode, sent: int, loss: float) -> list[int]:
        """When the copies for one hearer arrive: usually one, none if it is lost, two if it is duplicated."""
        random, faults = self._random, self._faults
        if sender is hearer:
            return [sent + self._delay.sample(random)]
        if self._blocks:
            block = self._blocks.block(sender.number, hearer.number, sent)
            if block is not None:
                self._effects[block.fault] += 1
                return []
        if loss and random.random() < loss:
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

    __slots__ = ("latest", "receivers", "wire_free")

    def __init__(self, receiver: SimNode) -> None:
        self.receivers = (receiver,)
        self.wire_free = 0
        self.latest = 0


class Wires:
    """The wires between all fixed nodes: reliable; a blocked direction delivers when the block ends."""

    def __init__(
        self,
        spec: WireSpec,
        blocks: Blocks,
        random: Random,
        effects: Counter[str],
        kernel: Kernel,
        queued: Queued | None = None,
    ) -> None:
        self._bit_ns = SECOND / spec.rate
        self._bytes = _COUNTED[spec.sizes]
        self._queued = queued
        self._one_each = spec.transmitter == "node"
        self.multicasts = spec.fanout == "multicast"
        self._delay = spec.delay
        self._constant = spec.delay.constant
        self._fifo = spec.fifo
        self._blocks = blocks
        self._random = random
        self._effects = effects
        self._kernel = kernel
        self._links: dict[tuple[SimNode, SimNode], Link] = {}

    def transmit(self, flight: Flight, receiver: SimNode, receive: Receive) -> None:
        """Queue the frame at its transmitter and let the receiver have it."""
        link = self._link(flight.sender, receiver)
        self._travel(flight, link, self._sent(flight, link), receive)

    def multicast(self, flight: Flight, receivers: Sequence[SimNode], receive: Receive) -> None:
        """One transmission for all of them, as on a switched network that copies it; one event, if it is one time."""
        links = [self._link(flight.sender, receiver) for receiver in receivers]
        sent = self._sent(flight, links[0])
        if self._constant is not None and not self._blocks:
            self._kernel.at(sent + self._constant, receive, (flight, tuple(receivers)))
            return
        for link in links:
            self._travel(flight, link, sent, receive)

    def _link(self, sender: SimNode, receiver: SimNode) -> Link:
        link = self._links.get((sender, receiver))
        if link is None:
            link = self._links[sender, receiver] = Link(receiver)
        return link

    def _sent(self, flight: Flight, link: Link) -> int:
        """When the last bit of the frame leaves; its transmitter is busy until then."""
        now, queue = self._kernel.now, flight.sender if self._one_each else link
        start = queue.wire_free if queue.wire_free > now else now
        queue.wire_free = sent = start + int(self._bytes(flight.frame) * 8 * self._bit_ns)
        if self._queued is not None:
            self._queued(flight, queue, now, start, sent)
        return sent

    def _travel(self, flight: Flight, link: Link, sent: int, receive: Receive) -> None:
        delay = self._constant if self._constant is not None else self._delay.sample(self._random)
        arrival = sent + delay
        if self._blocks:
            arrival = self._blocked_until(flight.sender, link.receivers[0], sent, arrival)
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
