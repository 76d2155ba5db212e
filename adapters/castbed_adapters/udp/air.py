"""The air of one node as IP multicast: frames that leave together share a datagram, and arrive in order.

A datagram names its run, its sender and the sender's cell; then come the frames, each with the nodes it is for (none:
everybody in the cell), and a checksum. Whoever is not in that cell, or not meant, or in another run, does not hear it.
The checksum is against garbled datagrams, for UDP's own is weak and often left out; against people there are keys.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from errno import ENOBUFS
from struct import Struct
from struct import error as struct_error
from time import monotonic_ns
from zlib import crc32

from castbed.links import NOWHERE, Arrival, Cell, Heard
from castbed.values import NodeNumber
from castbed_adapters.receiving import ANCILLARY_BYTES, KernelNotes, ask_for_notes, make_room
from castbed_adapters.udp.addresses import Groups, SocketAddress

MAGIC, VERSION = 0xCB6D, 2
ENVELOPE = Struct(">HBx8sII")  # magic, version, run, sender, cell
SLIP = Struct(">IH")  # bytes of the frame, how many nodes it is for
NUMBER = Struct(">I")
CHECKSUM = Struct(">I")  # CRC-32 of everything before it
DATAGRAM_BYTES_MAX = 65_507  # what UDP over IPv4 carries
RECEIVED_AT_ONCE = 64  # datagrams, before other things in this process get their turn
STILL_BUSY_NS = 100_000  # who is woken again so soon expects more than one
QUEUE_MAX = 1024  # datagrams that wait because the interface takes no more now
QUEUE_CONGESTED = QUEUE_MAX // 2


class MulticastAir:
    """What one node sends and hears on the air."""

    def __init__(
        self,
        me: NodeNumber,
        token: bytes,
        groups: Groups,
        counters: Counter[str],
        datagram_bytes: int,
        receive_buffer: int,
        stamps: bool,
    ) -> None:
        self._me = me
        self._token = token
        self._groups = groups
        self._counters = counters
        self._datagram_bytes = min(datagram_bytes, DATAGRAM_BYTES_MAX)
        self._receive_buffer = receive_buffer
        self._stamps = stamps
        self._cell: Cell = NOWHERE
        self._envelope = b""
        self._everybody: SocketAddress = ("", 0)
        self._one: dict[NodeNumber, SocketAddress] = {}
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._open_to: SocketAddress = ("", 0)
        self._queue: deque[tuple[bytes, SocketAddress]] = deque()
        self._buffer = bytearray(DATAGRAM_BYTES_MAX + 1)
        self._into = [memoryview(self._buffer)]
        self._busy_until = 0
        self._notes = KernelNotes(counters)

    frame_bytes_max = DATAGRAM_BYTES_MAX - ENVELOPE.size - SLIP.size - 64 * NUMBER.size - CHECKSUM.size

    @property
    def congested(self) -> bool:
        return len(self._queue) > QUEUE_CONGESTED

    def open(self) -> None:
        self._socket = self._groups.open_socket()
        make_room(self._socket, self._receive_buffer, self._counters)
        ask_for_notes(self._socket, self._stamps)
        self._groups.join(self._socket, self._groups.of_node(self._me))

    def listen(self, heard: Heard) -> None:
        self._heard = heard
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self.poll)

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        loop.remove_writer(self._socket.fileno())
        if self._queue:
            self._counters["unsent"] += len(self._queue)
        self._socket.close()

    def tune(self, cell: Cell) -> None:
        """Leave the group of one cell and join that of another."""
        self.flush()
        groups = self._groups
        if self._cell != NOWHERE:
            groups.leave(self._socket, groups.of_cell(self._cell))
        self._cell = cell
        if cell != NOWHERE:
            groups.join(self._socket, groups.of_cell(cell))
            self._envelope = ENVELOPE.pack(MAGIC, VERSION, self._token, self._me, cell)
            self._everybody = groups.reached_at(groups.of_cell(cell))

    # --- out ---------------------------------------------------------------------------------------------------------

    def transmit(self, frame: bytes, to: tuple[NodeNumber, ...]) -> None:
        """Put the frame behind those that wait; a new datagram begins when it is full or for somebody else.

        A frame for one node goes along in a datagram for everybody, because a second one would cost more.
        """
        slip = SLIP.pack(len(frame), len(to))
        if to:
            slip += b"".join(map(NUMBER.pack, to))
        size = len(slip) + len(frame)
        fits = self._open_bytes + size <= self._datagram_bytes
        address = self._everybody
        if len(to) == 1 and not (fits and self._open_to is address):
            address = self._one.get(to[0]) or self._address(to[0])
        if not fits or address is not self._open_to:
            self.flush()
            self._open_to, self._open_bytes = address, ENVELOPE.size + CHECKSUM.size
            self._open.append(self._envelope)
        self._open.append(slip)
        self._open.append(frame)
        self._open_bytes += size

    def _address(self, node: NodeNumber) -> SocketAddress:
        self._one[node] = address = self._groups.reached_at(self._groups.of_node(node))
        return address

    def flush(self) -> None:
        if not self._open:
            return
        datagram, address = checked(b"".join(self._open)), self._open_to
        self._open.clear()
        self._open_to = ("", 0)
        if self._queue or not self._sent(datagram, address):
            self._enqueue(datagram, address)

    def _sent(self, datagram: bytes, address: SocketAddress) -> bool:
        """Whether the datagram needs no second try."""
        try:
            self._socket.sendto(datagram, address)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno == ENOBUFS:
                return False
            self._counters["unsendable"] += 1
        return True

    def _enqueue(self, datagram: bytes, address: SocketAddress) -> None:
        if len(self._queue) >= QUEUE_MAX:
            self._counters["queue_full"] += 1
            return
        if not self._queue:
            asyncio.get_running_loop().add_writer(self._socket.fileno(), self._writable)
        self._queue.append((datagram, address))

    def _writable(self) -> None:
        while self._queue:
            if not self._sent(*self._queue[0]):
                return
            self._queue.popleft()
        asyncio.get_running_loop().remove_writer(self._socket.fileno())

    # --- in ----------------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take what is there, up to a limit, and hand it over at once.

        Where datagrams come one by one, none waits until the kernel has said that there is no second; if there is one,
        this is called again at once.
        """
        arrivals: list[Arrival] = []
        at_once = RECEIVED_AT_ONCE if monotonic_ns() < self._busy_until else 1
        receive, into, left = self._socket.recvmsg_into, self._into, at_once
        try:
            while left:
                size, ancillary, _, _ = receive(into, ANCILLARY_BYTES)
                at = self._notes.read(ancillary) if ancillary else 0
                self._unpack(size, at, arrivals)
                left -= 1
        except (BlockingIOError, InterruptedError):
            if left == at_once:
                return
        except OSError:
            self._counters["unreceivable"] += 1
        if arrivals:
            self._heard(arrivals)
        self._busy_until = monotonic_ns() + STILL_BUSY_NS

    def _unpack(self, size: int, at: int, arrivals: list[Arrival]) -> None:
        """Append the frames of the datagram in the buffer that are for this node."""
        buffer, end = self._buffer, size - CHECKSUM.size
        if end < ENVELOPE.size:
            self._counters["malformed"] += 1
            return
        magic, version, token, sender, cell = ENVELOPE.unpack_from(buffer)
        if magic != MAGIC or version != VERSION or token != self._token:
            self._counters["foreign"] += 1
            return
        if sender == self._me:
            return
        if crc32(self._into[0][:end]) != CHECKSUM.unpack_from(buffer, end)[0]:
            self._counters["malformed"] += 1
            return
        if cell != self._cell:
            self._counters["out_of_range"] += 1
            return
        found = len(arrivals)
        try:
            self._frames(end, at, arrivals)
        except (struct_error, ValueError):
            del arrivals[found:]
            self._counters["malformed"] += 1

    def _frames(self, size: int, at: int, arrivals: list[Arrival]) -> None:
        offset, me, slip, buffer, view = ENVELOPE.size, self._me, SLIP.unpack_from, self._buffer, self._into[0]
        while offset < size:
            length, count = slip(buffer, offset)
            start = offset + SLIP.size + count * NUMBER.size
            offset = start + length
            if offset > size:
                raise ValueError("a frame that reaches beyond its datagram")
            to = _numbers(buffer, start, count) if count else ()
            if to and me not in to:
                continue
            arrivals.append(Arrival(False, to, bytes(view[start:offset]), at))


def checked(datagram: bytes) -> bytes:
    """With its checksum behind it."""
    return datagram + CHECKSUM.pack(crc32(datagram))


def _numbers(buffer: bytearray, end: int, count: int) -> tuple[NodeNumber, ...]:
    """The nodes whose numbers end there."""
    if count == 1:
        return NUMBER.unpack_from(buffer, end - NUMBER.size)
    return tuple(number for (number,) in NUMBER.iter_unpack(buffer[end - count * NUMBER.size : end]))
