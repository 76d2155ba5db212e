"""The wires of a fixed node: a TCP connection with every other one; frames that leave together share a write.

Who starts later connects. Both ends greet with the run and their number, and whoever greets wrongly or not at all is
hung up on. Where the run has a key, both ends prove that they have it; where it has none, nobody takes the place of a
wire that works. A frame is its length and its bytes. Wires between nodes of one process are in `within`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from struct import Struct
from typing import Protocol, cast
from weakref import WeakValueDictionary

from castbed.errors import UnavailableError
from castbed.handshake import CALLED, CALLER, HELLO_BYTES, PROOF_BYTES, Handshake, HandshakeError
from castbed.links import Arrival, Heard, Prover
from castbed.packets import Packet
from castbed.values import NodeNumber
from castbed.wire import FRAME_BYTES_MAX
from castbed_adapters.udp.addresses import Interface
from castbed_adapters.udp.within import InnerWire

GREETING = Struct(">4s8sI")
GREETING_MAGIC = b"CBw1"
ENDS = Struct(">II")  # who calls, and who is called
TCP_ESTABLISHED = 1
_NEVER = 1 << 62
LENGTH = Struct(">I")
UNSENT_BYTES_CONGESTED = 1 << 20  # of one wire: applications wait above this
UNSENT_BYTES_MAX = 1 << 28  # of one wire: its peer has stopped reading, and memory is not endless
CONNECT_S_MAX = 20.0
STRANGERS_MAX = 256  # at once, besides the nodes of the run
GREET_S_MAX = 10.0  # from connecting to the end of the greetings, on a busy machine
OLD_WIRE_S = 0.02  # between two looks whether the wire of an earlier life is dead at last
CLOSE_S_MAX = 2.0


class _End(Protocol):
    """One end of a wire."""

    @property
    def congested(self) -> bool: ...

    def put(self, frame: bytes, packet: Packet | None) -> None:
        """Have the frame sent with the next `flush`."""

    def flush(self) -> None: ...

    def is_dead(self) -> bool:
        """Whether the other end has let go of it."""

    def begin(self) -> None:
        """Somebody listens from now on."""

    def cut(self) -> None:
        """The wire is not used any more, at once."""

    def hang_up(self) -> asyncio.Future[None] | None:
        """Send what waits and let go; what has to be waited for."""


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
        self._awaited: tuple[int, Callable[[bytes], None]] | None = (self._greeting_bytes(), self._take_greeting)
        """How many bytes the other end has to say next before there are frames, and who takes them."""
        self._proof: Handshake | None = None if to is None else self._begin_proof(CALLER, wires.me, to)
        self._patience: asyncio.TimerHandle | None = None
        self._old_wire: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # other event loops have classes of their own
        self.transport.set_write_buffer_limits(high=UNSENT_BYTES_CONGESTED)
        opened = transport.get_extra_info("socket")
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._patience = asyncio.get_running_loop().call_later(GREET_S_MAX, self.refuse)
        if self.peer is not None:
            self._greet()
        else:
            self._wires.welcome(self)

    def data_received(self, data: bytes) -> None:
        self._incoming = self._incoming + data if self._incoming else data
        while self._awaited is not None:
            size, take = self._awaited
            if len(self._incoming) < size:
                return
            said, self._incoming = self._incoming[:size], self._incoming[size:]
            try:
                take(said)
            except HandshakeError:
                self.refuse()
                return
        if self._wires.heard is not None:
            self.take_frames()
        else:
            self.transport.pause_reading()

    # --- greetings ---------------------------------------------------------------------------------------------------

    def _greeting_bytes(self) -> int:
        return GREETING.size + (HELLO_BYTES if self._wires.prover is not None else 0)

    def _begin_proof(self, role: bytes, caller: NodeNumber, called: NodeNumber) -> Handshake | None:
        prover = self._wires.prover
        return None if prover is None else prover(role, ENDS.pack(caller, called))

    def _greet(self) -> None:
        hello = b"" if self._proof is None else self._proof.hello()
        self.transport.write(GREETING.pack(GREETING_MAGIC, self._wires.token, self._wires.me) + hello)

    def _take_greeting(self, said: bytes) -> None:
        magic, token, number = GREETING.unpack_from(said)
        expected = self._wires.fixed if self.peer is None else {self.peer}
        if magic != GREETING_MAGIC or token != self._wires.token or number not in expected:
            raise HandshakeError("this is no node of the run")
        if self.peer is not None:
            self._called_back(said[GREETING.size :])
            return
        self._proof = self._begin_proof(CALLED, number, self._wires.me)
        if self._proof is None:
            self._take_place(number)
            return
        answer = self._proof.answer(said[GREETING.size :])
        self._greet()
        self._awaited = (PROOF_BYTES, partial(self._take_proof, number, answer))

    def _take_proof(self, number: NodeNumber, answer: bytes, proof: bytes) -> None:
        """The caller proves itself first; when it hears our answer, it knows that we listen."""
        assert self._proof is not None
        self._proof.check(proof)
        self._settle(number)
        self.transport.write(answer)

    def _called_back(self, hello: bytes) -> None:
        """The node that we called has greeted us."""
        assert self.peer is not None
        if self._proof is None:
            self._settle(self.peer)
            return
        self.transport.write(self._proof.answer(hello))
        self._awaited = (PROOF_BYTES, self._take_answer)

    def _take_answer(self, proof: bytes) -> None:
        assert self._proof is not None
        assert self.peer is not None
        self._proof.check(proof)
        self._settle(self.peer)

    def _take_place(self, number: NodeNumber) -> None:
        """Without a key: of a wire that is dead, as that of an earlier life soon is. One that works keeps its place."""
        if self.is_dead():
            self.transport.abort()
            return
        if self._wires.works(number):
            self.transport.pause_reading()
            self._awaited = (_NEVER, lambda said: None)
            self._old_wire = asyncio.get_running_loop().call_later(OLD_WIRE_S, self._take_place, number)
            return
        self._settle(number)
        self._greet()
        self.transport.resume_reading()

    def _settle(self, number: NodeNumber) -> None:
        """The greetings are over: frames come next."""
        assert self._patience is not None
        self._patience.cancel()
        self._awaited = None
        self.peer = number
        self._wires.strangers.pop(self, None)
        self._wires.adopt(self, number)
        self.greeted.set_result(None)

    def refuse(self) -> None:
        """Whoever is there, it is nobody whom we know."""
        self._wires.counters["foreign"] += 1
        self.transport.abort()

    def is_dead(self) -> bool:
        """The system knows it also while nothing is read."""
        opened = self.transport.get_extra_info("socket")
        try:
            state: bytes = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        except OSError:
            return True
        return self.transport.is_closing() or state[0] != TCP_ESTABLISHED

    def take_frames(self) -> None:
        """Hand over all complete frames."""
        data, at, arrivals, to = self._incoming, 0, list[Arrival](), (self._wires.me,)
        while at + LENGTH.size <= len(data):
            (length,) = LENGTH.unpack_from(data, at)
            if length > FRAME_BYTES_MAX:
                self._wires.counters["malformed"] += 1
                self.transport.abort()
                break
            end = at + LENGTH.size + length
            if end > len(data):
                break
            arrivals.append(Arrival(True, to, data[at + LENGTH.size : end], 0))
            at = end
        self._incoming = data[at:]
        if arrivals and self._wires.heard is not None:
            self._wires.heard(arrivals)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        for timer in (self._patience, self._old_wire):
            if timer is not None:
                timer.cancel()
        self._wires.strangers.pop(self, None)
        self._wires.forget(self, self.peer)
        self.lost.set_result(None)
        if not self.greeted.done():
            self.greeted.set_exception(ConnectionError("the other end hung up"))
            self.greeted.exception()

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False

    def put(self, frame: bytes, packet: Packet | None) -> None:  # noqa: ARG002 (only bytes travel)
        self._outgoing.append(LENGTH.pack(len(frame)))
        self._outgoing.append(frame)

    def flush(self) -> None:
        if self.transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            raise UnavailableError(f"node {self.peer} has stopped reading: {UNSENT_BYTES_MAX} bytes wait for it")
        self.transport.write(b"".join(self._outgoing))
        self._outgoing.clear()

    def begin(self) -> None:
        self.transport.resume_reading()
        self.take_frames()

    def cut(self) -> None:
        self.transport.abort()

    def hang_up(self) -> asyncio.Future[None]:
        self.transport.close()
        return self.lost


_here: WeakValueDictionary[tuple[bytes, NodeNumber], TcpWires] = WeakValueDictionary()
"""The nodes of this process, by run and number, that can be reached."""


class TcpWires:
    """All wires of one node."""

    def __init__(
        self,
        me: NodeNumber,
        token: bytes,
        fixed: frozenset[NodeNumber],
        interface: Interface,
        counters: Counter[str],
        prover: Prover | None = None,
    ) -> None:
        self.me = me
        self.token = token
        self.prover = prover
        self.fixed = fixed - {me}
        self.counters = counters
        self.heard: Heard | None = None
        self.neighbours: set[NodeNumber] = set()
        """To whom a packet goes as it is."""
        self.strangers: dict[_Wire, None] = {}
        """Who called and is not known yet, in the order in which they called."""
        self._interface = interface
        self._wires: dict[NodeNumber, _End] = {}
        self._waiting: dict[NodeNumber, _End] = {}
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
        _here[self.token, self.me] = self
        return list(listening.getsockname())

    async def connect(self, addresses: Mapping[NodeNumber, list[object]]) -> dict[NodeNumber, str]:
        """Reach these nodes; returns those that cannot be reached, and why."""
        reasons = await asyncio.gather(*(self._connect(node, address) for node, address in addresses.items()))
        return {node: reason for node, reason in zip(addresses, reasons, strict=True) if reason}

    async def _connect(self, node: NodeNumber, address: list[object]) -> str:
        neighbour = _here.get((self.token, node))
        if neighbour is not None:
            self._join(neighbour)
            return ""
        loop = asyncio.get_running_loop()
        reaching: socket.socket | asyncio.Transport = socket.socket(self._interface.family, socket.SOCK_STREAM)
        assert isinstance(reaching, socket.socket)
        reaching.setblocking(False)
        try:
            # A link-local address is one of our own interface, whatever number the other end has for its own.
            reaching.bind(self._interface.at(0))
            async with asyncio.timeout(CONNECT_S_MAX):
                await loop.sock_connect(reaching, tuple(address[:2]))
                reaching, wire = await loop.create_connection(lambda: _Wire(self, node), sock=reaching)
                await wire.greeted
        except OSError as error:
            reaching.close()
            if isinstance(error, TimeoutError) and not error.errno:
                return f"no answer within {CONNECT_S_MAX:g} s"
            return os.strerror(error.errno) if error.errno else str(error)
        return ""

    def welcome(self, stranger: _Wire) -> None:
        """Whoever calls may greet; when too many call, those who have kept us waiting longest are hung up on."""
        self.strangers[stranger] = None
        if len(self.strangers) > STRANGERS_MAX + len(self.fixed):
            longest = next(iter(self.strangers))
            del self.strangers[longest]
            longest.refuse()

    def works(self, number: NodeNumber) -> bool:
        """Whether there is a wire to this node, and the other end has it still."""
        wire = self._wires.get(number)
        return wire is not None and not wire.is_dead()

    def _join(self, neighbour: TcpWires) -> None:
        ours, theirs = InnerWire(self, neighbour.me), InnerWire(neighbour, self.me)
        ours.other, theirs.other = theirs, ours
        self.adopt(ours, neighbour.me)
        neighbour.adopt(theirs, self.me)
        self.neighbours.add(neighbour.me)
        neighbour.neighbours.add(self.me)

    def adopt(self, wire: _End, number: NodeNumber) -> None:
        """The wire to a node; that of an earlier life of it is dead, or about to be."""
        before = self._wires.pop(number, None)
        self.neighbours.discard(number)
        if before is not None:
            before.cut()
        self._wires[number] = wire

    def forget(self, wire: _End, peer: NodeNumber | None) -> None:
        if peer is not None and self._wires.get(peer) is wire:
            del self._wires[peer]
            self._waiting.pop(peer, None)
            self.neighbours.discard(peer)

    def listen(self, heard: Heard) -> None:
        self.heard = heard
        for wire in list(self._wires.values()):
            wire.begin()

    def forward(self, frame: bytes, to: NodeNumber, packet: Packet | None = None) -> None:
        wire = self._wires.get(to)
        if wire is None:
            self.counters["peer_down"] += 1
            return
        wire.put(frame, packet)
        self._waiting[to] = wire

    def flush(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, {}  # a wire may bring the answer before its flush returns
            for wire in waiting.values():
                wire.flush()

    async def close(self) -> None:
        """Hang up, after what waits has been sent; who does not read it is not waited for long."""
        if self._server is not None:
            self._server.close()
        _here.pop((self.token, self.me), None)
        leaving = [wire.hang_up() for wire in list(self._wires.values())]
        lost = [gone for gone in leaving if gone is not None]
        if lost:
            await asyncio.wait(lost, timeout=CLOSE_S_MAX)
