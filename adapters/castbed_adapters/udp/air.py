"""The air of one node as IP multicast: frames that leave together share a datagram, and arrive in order.

A datagram names its run, its sender and the sender's cell; then come the frames, each with the nodes it is for (none:
everybody in the cell), and a checksum. Whoever is not in that cell, or not meant, or in another run, does not hear it.
The checksum is against garbled datagrams, for UDP's own is weak and often left out; against people there are keys.

What is longer than a packet of the interface goes in pieces, which the kernel cuts from one another and joins again.
Where it cannot do that, IP cuts the datagram.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Iterator
from errno import EINVAL, EIO, EMSGSIZE, ENOBUFS
from struct import Struct
from struct import error as struct_error
from time import monotonic_ns
from zlib import crc32

from castbed.errors import PeerError
from castbed.links import NOWHERE, Arrival, Cell, Heard
from castbed.values import NodeNumber
from castbed_adapters.pieces import PIECE_MAGIC, PIECE_OVERHEAD, PIECES_MAX, Piece, all_pieces, pieces, read_piece
from castbed_adapters.reassembly import Reassembly
from castbed_adapters.receiving import ANCILLARY_BYTES, KernelNotes, ask_for_notes, make_room
from castbed_adapters.udp import segments
from castbed_adapters.udp.addresses import Groups, SocketAddress

MAGIC, VERSION = 0xCB6D, 2
ENVELOPE = Struct(">HBx8sII")  # magic, version, run, sender, cell
SLIP = Struct(">IH")  # bytes of the frame, how many nodes it is for
NUMBER = Struct(">I")
CHECKSUM = Struct(">I")  # CRC-32 of everything before it
DATAGRAM_BYTES_MAX = 65_507  # what UDP over IPv4 carries
JOINED_BYTES_MAX = 1 << 16  # of what the kernel hands over at once
RECEIVED_AT_ONCE = 64  # datagrams, before other things in this process get their turn
STILL_BUSY_NS = 100_000  # who is woken again so soon expects more than one
QUEUE_MAX = 1024  # datagrams that wait because the interface takes no more now
QUEUE_CONGESTED = QUEUE_MAX // 2
SERIALS = 1 << 32
_PIECE_BEGINS = PIECE_MAGIC.to_bytes(2, "big")
NOTES_BYTES = ANCILLARY_BYTES + segments.ANCILLARY_BYTES
REFUSES_SEGMENTS = (EINVAL, EIO, EMSGSIZE)  # so says an interface that takes none, or none of this size any more
UNCUT = 0


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
        self._queue: deque[tuple[bytes, SocketAddress, int]] = deque()
        self._step = DATAGRAM_BYTES_MAX  # of a datagram that goes uncut
        self._serial = int.from_bytes(os.urandom(4), "big")
        self._into = [memoryview(bytearray(JOINED_BYTES_MAX))]
        self._busy_until = 0
        self._notes = KernelNotes(counters)
        self._reassembly = Reassembly(counters)

    frame_bytes_max = DATAGRAM_BYTES_MAX - ENVELOPE.size - SLIP.size - 64 * NUMBER.size - CHECKSUM.size

    @property
    def congested(self) -> bool:
        return len(self._queue) > QUEUE_CONGESTED

    def open(self) -> None:
        self._socket = self._groups.open_socket()
        make_room(self._socket, self._receive_buffer, self._counters)
        ask_for_notes(self._socket, self._stamps)
        segments.take_joined(self._socket)
        self._step = self._uncut_bytes()
        self._groups.join(self._socket, self._groups.of_node(self._me))

    def _uncut_bytes(self) -> int:
        """What the interface takes in one packet, if the kernel can cut, and the pieces are not too many."""
        room = self._groups.packet_bytes(self._socket)
        enough = PIECES_MAX * (room - PIECE_OVERHEAD) >= DATAGRAM_BYTES_MAX
        return room if enough and segments.can_be_cut(self._socket) else DATAGRAM_BYTES_MAX

    def listen(self, heard: Heard) -> None:
        self._heard = heard
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self.poll)

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        loop.remove_writer(self._socket.fileno())
        if self._queue:
            self._counters["unsent"] += len(self._queue)
        self._reassembly.end()
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
        if len(datagram) <= self._step:
            self._put(datagram, address, UNCUT)
            return
        step = self._step
        for batch in self._in_pieces(datagram, step):
            self._put(batch, address, step)

    def _put(self, data: bytes, address: SocketAddress, step: int) -> None:
        if self._queue or not self._sent(data, address, step):
            self._enqueue(data, address, step)

    def _in_pieces(self, letter: bytes, step: int) -> Iterator[bytes]:
        """Datagrams of `step` bytes, so many side by side as the kernel cuts at once."""
        self._serial = (self._serial + 1) % SERIALS
        parts = list(pieces(self._token, self._me, self._serial, letter, step))
        at_once = min(segments.SEGMENTS_MAX, DATAGRAM_BYTES_MAX // step)
        for start in range(0, len(parts), at_once):
            yield b"".join(parts[start : start + at_once])

    def _sent(self, data: bytes, address: SocketAddress, step: int) -> bool:
        """Whether the datagram, or those of `step` bytes that it is to be cut into, need no second try."""
        try:
            if step == UNCUT:
                self._socket.sendto(data, address)
            else:
                segments.send_to_be_cut(self._socket, data, step, address)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno == ENOBUFS:
                return False
            if error.errno in REFUSES_SEGMENTS and step != UNCUT:
                self._send_one_by_one(data, address, step)
            else:
                self._counters["unsendable"] += 1
        return True

    def _send_one_by_one(self, batch: bytes, address: SocketAddress, step: int) -> None:
        """Cut here what the kernel does not cut; what comes later is left to IP, which can."""
        self._step = DATAGRAM_BYTES_MAX
        for start in range(0, len(batch), step):
            try:
                self._socket.sendto(batch[start : start + step], address)
            except OSError:
                self._counters["unsendable"] += 1

    def _enqueue(self, data: bytes, address: SocketAddress, step: int) -> None:
        if len(self._queue) >= QUEUE_MAX:
            self._counters["queue_full"] += 1
            return
        if not self._queue:
            asyncio.get_running_loop().add_writer(self._socket.fileno(), self._writable)
        self._queue.append((data, address, step))

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
                size, ancillary, _, _ = receive(into, NOTES_BYTES)
                at = step = 0
                if ancillary:
                    at, step = self._notes.read(ancillary), segments.joined_step(ancillary)
                if step:
                    self._take_joined(into[0][:size], step, at, arrivals)
                else:
                    self._take(into[0][:size], at, arrivals)
                left -= 1
        except (BlockingIOError, InterruptedError):
            if left == at_once:
                return
        except OSError:
            self._counters["unreceivable"] += 1
        if arrivals:
            self._heard(arrivals)
        self._busy_until = monotonic_ns() + STILL_BUSY_NS

    def _take_joined(self, batch: memoryview, step: int, at: int, arrivals: list[Arrival]) -> None:
        """Datagrams that the kernel joined: all pieces of a letter, or whatever came together."""
        piece = all_pieces(batch, step)
        if piece is not None:
            self._take_piece(piece, at, arrivals)
            return
        for start in range(0, len(batch), step):
            self._take(batch[start : start + step], at, arrivals)

    def _take(self, datagram: memoryview, at: int, arrivals: list[Arrival]) -> None:
        if datagram[:2] != _PIECE_BEGINS:
            self._unpack(datagram, at, arrivals)
            return
        try:
            piece = read_piece(bytes(datagram))
        except PeerError:
            self._counters["malformed"] += 1
            return
        self._take_piece(piece, at, arrivals)

    def _take_piece(self, piece: Piece, at: int, arrivals: list[Arrival]) -> None:
        """The piece may make a letter whole, or be all of it."""
        if piece.token != self._token:
            self._counters["foreign"] += 1
            return
        if piece.sender == self._me or self._cell == NOWHERE:
            return
        letter = piece.data if piece.of == 1 else self._reassembly.add(piece, monotonic_ns())
        if letter is not None:
            self._unpack(memoryview(letter), at, arrivals)

    def _unpack(self, datagram: memoryview, at: int, arrivals: list[Arrival]) -> None:
        """Append the frames of the datagram that are for this node."""
        end = len(datagram) - CHECKSUM.size
        if end < ENVELOPE.size:
            self._counters["malformed"] += 1
            return
        magic, version, token, sender, cell = ENVELOPE.unpack_from(datagram)
        if magic != MAGIC or version != VERSION or token != self._token:
            self._counters["foreign"] += 1
            return
        if sender == self._me:
            return
        if crc32(datagram[:end]) != CHECKSUM.unpack_from(datagram, end)[0]:
            self._counters["malformed"] += 1
            return
        if cell != self._cell:
            self._counters["out_of_range"] += 1
            return
        found = len(arrivals)
        try:
            self._frames(datagram, end, at, arrivals)
        except (struct_error, ValueError):
            del arrivals[found:]
            self._counters["malformed"] += 1

    def _frames(self, datagram: memoryview, size: int, at: int, arrivals: list[Arrival]) -> None:
        offset, me, slip = ENVELOPE.size, self._me, SLIP.unpack_from
        while offset < size:
            length, count = slip(datagram, offset)
            start = offset + SLIP.size + count * NUMBER.size
            offset = start + length
            if offset > size:
                raise ValueError("a frame that reaches beyond its datagram")
            to = _numbers(datagram, start, count) if count else ()
            if to and me not in to:
                continue
            arrivals.append(Arrival(False, to, bytes(datagram[start:offset]), at))


def checked(datagram: bytes) -> bytes:
    """With its checksum behind it."""
    return datagram + CHECKSUM.pack(crc32(datagram))


def _numbers(datagram: memoryview, end: int, count: int) -> tuple[NodeNumber, ...]:
    """The nodes whose numbers end there."""
    if count == 1:
        return NUMBER.unpack_from(datagram, end - NUMBER.size)
    return tuple(number for (number,) in NUMBER.iter_unpack(datagram[end - count * NUMBER.size : end]))
