"""How packets leave a node: over wires where there are any, in one transmission on the air for all others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from castbed.actions import Broadcast, Multicast, Send
from castbed.authentication import SealedCodec, place
from castbed.capture import AIR, WIRE, frame_block
from castbed.errors import ContractError
from castbed.links import NOWHERE, SHARED_AIR, Arrival, Cell, Links
from castbed.packets import Packet
from castbed.topology import Topology
from castbed.values import NOBODY, NodeNumber
from castbed.wire import ETHERNET_BYTES, Codec, FrameTooLargeError, ethernet_frame

SECOND = 1_000_000_000
Keep = Callable[[bytes], None]


class Sender(Protocol):
    """Whose transmitters these are: its number, and the time there."""

    me: NodeNumber
    now: int


class Outlet:
    """The transmitters of one node. What the node sends to itself gathers in `own` and never leaves it.

    `keep` takes the blocks of frames for the capture; None where there is no capture. Where the air has a `rate`, in
    bit/s, `air_free` is when all is sent that was put on it; without one (0) that is at once.
    """

    def __init__(
        self,
        node: Sender,
        topology: Topology,
        codec: Codec,
        links: Links,
        keep: Keep | None,
        own_copy: bool,
        too_large: Callable[[str], None],
        rate: int = 0,
    ) -> None:
        self.own: deque[tuple[Arrival, Packet]] = deque()
        self.frames = 0
        self.air_free = 0
        self.cell: Cell = SHARED_AIR
        self._node = node
        self._me = node.me
        self._topology = topology
        self._wired = topology.fixed - {node.me} if node.me in topology.fixed else frozenset[NodeNumber]()
        self._by_air = set[NodeNumber]()  # nodes that were found to be reached on the air only
        self._bare = links.neighbours if keep is None else frozenset[NodeNumber]()
        self._encode = codec.encode
        self._seals = codec if isinstance(codec, SealedCodec) else None
        self._links = links
        self._keep = keep
        self._own_copy = own_copy
        self._too_large = too_large
        self._rate = rate

    def broadcast(self, action: Broadcast) -> None:
        frame = self._on_air(action.packet, ())
        if frame is None:
            return
        if self.cell != NOWHERE:
            self._put_on_air(frame, ())
        if self._own_copy:
            self.own.append((Arrival(False, (), frame, 0), action.packet))

    def send(self, action: Send) -> None:
        to = action.to
        if to in self._bare:
            self.frames += 1
            self._links.forward(b"", to, action.packet)
        elif to in self._wired:
            self._over_wires(action.packet, (to,))
        elif to in self._by_air:
            self._transmit(action.packet, (to,))
        else:
            self._copies(action.packet, (to,))

    def multicast(self, action: Multicast) -> None:
        if self._bare.issuperset(action.to):
            self.frames += len(action.to)
            for number in action.to:
                self._links.forward(b"", number, action.packet)
        elif self._wired.issuperset(action.to):
            self._over_wires(action.packet, action.to)
        else:
            self._copies(action.packet, action.to)

    def _copies(self, packet: Packet, to: tuple[NodeNumber, ...]) -> None:
        me, wired, count = self._me, self._topology.wired, len(self._topology.nodes)
        by_wire, on_air = list[NodeNumber](), list[NodeNumber]()
        for number in to:
            if not 0 < number <= count:
                name = self._topology.name(me)
                raise ContractError(f"{name} sent {type(packet).__name__} to node {number}, which does not exist")
            (by_wire if number == me or wired(me, number) else on_air).append(number)
        if by_wire:
            self._over_wires(packet, by_wire)
        if on_air:
            self._by_air.update(on_air)
            self._transmit(packet, tuple(on_air))

    def _transmit(self, packet: Packet, to: tuple[NodeNumber, ...]) -> None:
        frame = self._on_air(packet, to)
        if frame is not None and self.cell != NOWHERE:
            self._put_on_air(frame, to)

    def _put_on_air(self, frame: bytes, to: tuple[NodeNumber, ...]) -> None:
        self._links.transmit(frame, to)
        if self._rate:
            takes = (len(frame) + ETHERNET_BYTES) * 8 * SECOND // self._rate
            self.air_free = max(self.air_free, self._node.now) + takes

    def _over_wires(self, packet: Packet, to: Sequence[NodeNumber]) -> None:
        frame = None
        for number in to:
            if frame is None or self._seals is not None:
                frame = self._encoded(packet, True, (number,))
            if frame is None:
                return
            self.frames += 1
            if self._keep is not None:
                self._sent(WIRE, frame, number)
            if number == self._me:
                self.own.append((Arrival(True, (number,), frame, 0), packet))
            else:
                self._links.forward(frame, number, packet)

    def _on_air(self, packet: Packet, to: tuple[NodeNumber, ...]) -> bytes | None:
        frame = self._encoded(packet, False, to)
        if frame is None:
            return None
        most = self._links.air_frame_bytes_max
        if len(frame) > most:
            self._too_large(f"{type(packet).__name__} needs {len(frame)} bytes, a frame on this air holds {most}")
            return None
        self.frames += 1
        if self._keep is not None:
            self._sent(AIR, frame, to[0] if len(to) == 1 else NOBODY)
        return frame

    def _encoded(self, packet: Packet, on_wire: bool, to: Sequence[NodeNumber]) -> bytes | None:
        try:
            if self._seals is None:
                return self._encode(packet, self._me)
            return self._seals.encode(packet, self._me, place(on_wire, NOWHERE if on_wire else self.cell, to))
        except FrameTooLargeError as error:
            self._too_large(str(error))
            return None

    def _sent(self, interface: int, frame: bytes, to: NodeNumber) -> None:
        assert self._keep is not None
        self._keep(frame_block(interface, self._node.now, ethernet_frame(frame, self._me, to), True))
