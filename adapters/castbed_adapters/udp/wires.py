"""The wires of a fixed node: a TCP connection with every other one; frames that leave together share a write.

Who starts later connects. Both ends greet with the run and their number, and whoever greets wrongly is hung up on. A
frame is its length and its bytes.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Mapping
from struct import Struct
from typing import cast

from castbed.errors import UnavailableError
from castbed.links import Arrival, Heard
from castbed.values import NodeNumber
from castbed.wire import FRAME_BYTES_MAX
from castbed_adapters.udp.addresses import Interface

GREETING = Struct(">4s8sI")
GREETING_MAGIC = b"CBw1"
LENGTH = Struct(">I")
UNSENT_BYTES_CONGESTED = 1 << 20  # of one wire: applications wait above this
UNSENT_BYTES_MAX = 1 << 28  # of one wire: its peer has stopped reading, and memory is not endless
CONNECT_S_MAX = 20.0
CLOSE_S_MAX = 2.0


class _Wire(asyncio.Protocol):
    """One connection. Frames that come before somebody listens wait in the system, because nothing is read."""

    def __init__(self, wires: TcpWires, to: NodeNumber | None) -> None:
        self._wires = wires
        self.peer = to
        self.greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport
        self.congested = False
        self._outgoing: list[bytes] = []
        self._incoming = b""
        self._is_greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # other event loops have classes of their own
        self.transport.set_write_buffer_limits(high=UNSENT_BYTES_CONGESTED)
        opened = transport.get_extra_info("socket")
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.peer is not None:
            self._greet()

    def _greet(self) -> None:
        self.transport.write(GREETING.pack(GREETING_MAGIC, self._wires.token, self._wires.me))

    def data_received(self, data: bytes) -> None:
        self._incoming = self._incoming + data if self._incoming else data
        if not self._is_greeted and not self._take_greeting():
            return
        if self._wires.heard is not None:
            self.take_frames()
        else:
            self.transport.pause_reading()

    def _take_greeting(self) -> bool:
        if len(self._incoming) < GREETING.size:
            return False
        magic, token, number = GREETING.unpack_from(self._incoming)
        expected = self._wires.fixed if self.peer is None else {self.peer}
        if magic != GREETING_MAGIC or token != self._wires.token or number not in expected:
            self._wires.counters["foreign"] += 1
            self.transport.abort()
            return False
        if self.peer is None:
            self.peer = number
            self._greet()
        self._incoming = self._incoming[GREETING.size :]
        self._is_greeted = True
        self._wires.adopt(self, number)
        self.greeted.set_result(None)
        return True

    def take_frames(self) -> None:
        """Hand over all complete frames."""
        data, at, arrivals, me = self._incoming, 0, list[Arrival](), self._wires.me
        while at + LENGTH.size <= len(data):
            (length,) = LENGTH.unpack_from(data, at)
            if length > FRAME_BYTES_MAX:
                self._wires.counters["malformed"] += 1
                self.transport.abort()
                break
            end = at + LENGTH.size + length
            if end > len(data):
                break
            arrivals.append(Arrival(True, me, data[at + LENGTH.size : end], 0))
            at = end
        self._incoming = data[at:]
        if arrivals and self._wires.heard is not None:
            self._wires.heard(arrivals)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        self._wires.forget(self)
        self.lost.set_result(None)
        if not self.greeted.done():
            self.greeted.set_exception(ConnectionError("the other end hung up"))
            self.greeted.exception()

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False

    def put(self, frame: bytes) -> None:
        self._outgoing.append(LENGTH.pack(len(frame)))
        self._outgoing.append(frame)

    def flush(self) -> None:
        if self.transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            raise UnavailableError(f"node {self.peer} has stopped reading: {UNSENT_BYTES_MAX} bytes wait for it")
        self.transport.write(b"".join(self._outgoing))
        self._outgoing.clear()


class TcpWires:
    """All wires of one node."""

    def __init__(
        self,
        me: NodeNumber,
        token: bytes,
        fixed: frozenset[NodeNumber],
        interface: Interface,
        counters: Counter[str],
    ) -> None:
        self.me = me
        self.token = token
        self.fixed = fixed - {me}
        self.counters = counters
        self.heard: Heard | None = None
        self._interface = interface
        self._wires: dict[NodeNumber, _Wire] = {}
        self._waiting: dict[NodeNumber, _Wire] = {}
        self._server: asyncio.Server | None = None

    @property
    def congested(self) -> bool:
        return any(wire.congested for wire in self._wires.values())

    async def open(self) -> list[object]:
        """Listen; returns the address."""
        listening = socket.socket(self._interface.family, socket.SOCK_STREAM)
        listening.bind(self._interface.at(0))
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Wire(self, None), sock=listening, backlog=1024)
        return list(listening.getsockname())

    async def connect(self, addresses: Mapping[NodeNumber, list[object]]) -> None:
        async with asyncio.timeout(CONNECT_S_MAX):
            await asyncio.gather(*(self._connect(node, address) for node, address in addresses.items()))

    async def _connect(self, node: NodeNumber, address: list[object]) -> None:
        loop = asyncio.get_running_loop()
        reaching = socket.socket(self._interface.family, socket.SOCK_STREAM)
        reaching.setblocking(False)
        try:
            await loop.sock_connect(reaching, tuple(address))
            _, wire = await loop.create_connection(lambda: _Wire(self, node), sock=reaching)
            await wire.greeted
        except ConnectionError:
            self.counters["unreached"] += 1  # it died meanwhile; when it is back, it connects
            reaching.close()

    def adopt(self, wire: _Wire, number: NodeNumber) -> None:
        """The wire to a node; that of an earlier life of it is dead, or about to be."""
        before = self._wires.pop(number, None)
        if before is not None:
            before.transport.abort()
        self._wires[number] = wire

    def forget(self, wire: _Wire) -> None:
        if wire.peer is not None and self._wires.get(wire.peer) is wire:
            del self._wires[wire.peer]
            self._waiting.pop(wire.peer, None)

    def listen(self, heard: Heard) -> None:
        self.heard = heard
        for wire in list(self._wires.values()):
            wire.transport.resume_reading()
            wire.take_frames()

    def forward(self, frame: bytes, to: NodeNumber) -> None:
        wire = self._wires.get(to)
        if wire is None:
            self.counters["peer_down"] += 1
            return
        wire.put(frame)
        self._waiting[to] = wire

    def flush(self) -> None:
        if self._waiting:
            for wire in self._waiting.values():
                wire.flush()
            self._waiting.clear()

    async def close(self) -> None:
        """Hang up, after what waits has been sent; who does not read it is not waited for long."""
        if self._server is not None:
            self._server.close()
        wires = list(self._wires.values())
        for wire in wires:
            wire.transport.close()
        if wires:
            await asyncio.wait([wire.lost for wire in wires], timeout=CLOSE_S_MAX)
