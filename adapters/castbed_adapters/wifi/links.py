"""The air of one node on a raw interface: letters out, letters in, with the kernel's time of reception."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from castbed.errors import ConfigurationError, ContractError, PeerError, UnavailableError
from castbed.links import NOWHERE, Arrival, Cell, Heard
from castbed.packets import Packet
from castbed.values import NOBODY, NodeNumber
from castbed.wire import ETHERTYPE, FRAME_BYTES_MAX
from castbed_adapters.pieces import PIECE_OVERHEAD, PIECES_MAX, pieces, read_piece
from castbed_adapters.reassembly import Reassembly
from castbed_adapters.receiving import ANCILLARY_BYTES, KernelNotes
from castbed_adapters.wifi.envelope import (
    LETTER_OVERHEAD,
    PIECE_ETHERTYPE,
    Letter,
    letter_bytes,
    read_letter,
)
from castbed_adapters.wifi.framing import DOT11_BODY_BYTES_MAX, EthernetFraming, Framing, MonitorFraming
from castbed_adapters.wifi.options import WifiOptions
from castbed_adapters.wifi.sockets import (
    ARPHRD_ETHER,
    ARPHRD_RADIOTAP,
    PacketSocket,
    carries,
    dropped_frames,
    open_packet_socket,
)

RECEIVED_AT_ONCE = 64  # frames, before other things in this process get their turn
QUEUE_MAX = 1_024  # frames that wait because the interface takes no more now
QUEUE_CONGESTED = QUEUE_MAX // 2
DEFAULT_BSSID = "02:cb:00:00:00:01"  # of an injected cell; any will do that all nodes share
RETRY_S = 0.001
SERIALS = 1 << 32
CARRIER_WAIT_S = 0.02
CARRIER_TRIES = 500  # ten seconds: an ad hoc cell is joined in less
_RECEIVED_BYTES_MAX = 65_536
_SNAP_BYTES = 8
_PACKET_TYPE_AT = 2  # in the address that a packet socket tells
_EXPECTED = {"ethernet": ARPHRD_ETHER, "monitor": ARPHRD_RADIOTAP}


class WifiLinks:
    """The links of one node: an air, and no wires."""

    air_frame_bytes_max = FRAME_BYTES_MAX  # in pieces; from `open` on less, where the interface takes small ones only
    neighbours: frozenset[NodeNumber] = frozenset()

    def __init__(
        self,
        me: NodeNumber,
        token: bytes,
        interface: str,
        options: WifiOptions,
        stamps: bool = True,
        addressed: bool = False,
    ) -> None:
        """`addressed`: interfaces have the addresses of their nodes, and a frame for one node goes to it alone."""
        self.counters: Counter[str] = Counter()
        self._addressed = addressed
        self._me, self._token, self._interface, self._options, self._stamps = me, token, interface, options, stamps
        self._cell: Cell = NOWHERE
        self._queue: deque[bytes] = deque()
        self._waiting = False
        self._retrying: asyncio.TimerHandle | None = None
        self._serial = int.from_bytes(os.urandom(4), "big")
        self._reassembly = Reassembly(self.counters)
        self._notes = KernelNotes(self.counters)
        self._heard: Heard | None = None

    @property
    def congested(self) -> bool:
        return len(self._queue) > QUEUE_CONGESTED

    async def open(self) -> Any:
        opened = open_packet_socket(
            self._interface, (ETHERTYPE, PIECE_ETHERTYPE), self._options.receive_buffer, self._stamps, self.counters
        )
        self._socket = opened.socket
        self._framing = self._framing_for(opened)
        self._size_max = self._room(opened.mtu)
        self._letter_max = PIECES_MAX * (self._size_max - PIECE_OVERHEAD)
        self.air_frame_bytes_max = min(FRAME_BYTES_MAX, self._letter_max - LETTER_OVERHEAD)
        try:
            await self._carrier()
        except UnavailableError:
            self._socket.close()
            raise

    async def _carrier(self) -> None:
        """Wait until the interface carries frames: joining a cell takes a while, plugging in a cable a moment."""
        for _ in range(CARRIER_TRIES):
            up = carries(self._socket, self._interface)
            await asyncio.sleep(CARRIER_WAIT_S)  # also after it is up: its queue opens a little later
            if up:
                return
        problem = f"the interface {self._interface!r} is down or has no carrier"
        raise UnavailableError(f"{problem}: `ip link set {self._interface} up`, or a cell or cable for it")

    def _framing_for(self, opened: PacketSocket) -> Framing:
        mode = self._options.mode
        if opened.hardware != _EXPECTED[mode]:
            opened.socket.close()
            what = "an Ethernet interface" if mode == "ethernet" else "in monitor mode"
            raise ConfigurationError("transport.options.interface", f"{self._interface!r} is not {what}")
        if mode == "ethernet":
            return EthernetFraming(opened.address)
        bssid = bytes.fromhex((self._options.bssid or DEFAULT_BSSID).replace(":", ""))
        return MonitorFraming(b"\x02\xcb" + self._me.to_bytes(4, "big"), bssid)

    def _room(self, mtu: int) -> int:
        """For a letter or a piece in one frame of the interface; in monitor mode the MTU counts all heads."""
        if self._options.mode == "ethernet":
            return mtu
        return min(DOT11_BODY_BYTES_MAX - _SNAP_BYTES, mtu - self._framing.overhead)

    async def connect(self, addresses: Mapping[NodeNumber, Any]) -> Mapping[NodeNumber, str]:  # noqa: ARG002 (as in Links)
        """On the air nobody is connected."""
        return {}

    def listen(self, heard: Heard) -> None:
        self._heard = heard
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self.poll)

    def tune(self, cell: Cell) -> None:
        self._cell = cell

    async def close(self) -> None:
        self.flush()
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        loop.remove_writer(self._socket.fileno())
        if self._retrying is not None:
            self._retrying.cancel()
        self._count_unread()
        self._reassembly.end()
        if self._queue:
            self.counters["unsent"] += len(self._queue)
        self._socket.close()

    # --- out ---------------------------------------------------------------------------------------------------------

    def transmit(self, frame: bytes, to: tuple[NodeNumber, ...]) -> None:
        letter = letter_bytes(self._token, frame, self._cell, to)
        one = to[0] if self._addressed and len(to) == 1 else NOBODY
        if len(letter) <= self._size_max:
            self._enqueue([self._framing.wrapped(ETHERTYPE, letter, one)])
            return
        if len(letter) > self._letter_max:
            self.counters["oversize"] += 1
            return
        self._serial = (self._serial + 1) % SERIALS
        parts = pieces(self._token, self._me, self._serial, letter, self._size_max)
        self._enqueue([self._framing.wrapped(PIECE_ETHERTYPE, part, one) for part in parts])

    def forward(self, frame: bytes, to: NodeNumber, packet: Packet | None = None) -> None:  # noqa: ARG002 (as in Links)
        raise ContractError("there are no wires on wifi")

    def flush(self) -> None:
        """Send what waits, as far as the interface takes it now."""
        if not self._waiting and self._retrying is None:
            self._writable()

    def _enqueue(self, frames: list[bytes]) -> None:
        """All pieces of a letter or none: some of them would be of no use."""
        if len(self._queue) + len(frames) > QUEUE_MAX:
            self._writable()
        if len(self._queue) + len(frames) > QUEUE_MAX:
            self.counters["queue_full"] += 1
            return
        self._queue.extend(frames)

    def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            if not self._sent(self._queue[0]):
                if not self._waiting and self._retrying is None:
                    self._waiting = True
                    loop.add_writer(self._socket.fileno(), self._writable)
                return
            self._queue.popleft()
        if self._waiting:
            self._waiting = False
            loop.remove_writer(self._socket.fileno())

    def _sent(self, frame: bytes) -> bool:
        """Whether the frame needs no second try."""
        try:
            self._socket.send(frame)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                self._retry()
                return False
            self.counters["unsendable"] += 1
        return True

    def _retry(self) -> None:
        """The queue of the interface is full, and the kernel does not tell when it is not: ask again soon."""
        loop = asyncio.get_running_loop()
        if self._waiting:
            self._waiting = False
            loop.remove_writer(self._socket.fileno())
        if self._retrying is None:
            self._retrying = loop.call_later(RETRY_S, self._again)

    def _again(self) -> None:
        self._retrying = None
        self._writable()

    # --- in ----------------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take everything that is there, up to a limit, and hand it over at once."""
        arrivals: list[Arrival] = []
        receive, take, told = self._socket.recvmsg, self._take, self._notes.read
        try:
            for _ in range(RECEIVED_AT_ONCE):
                data, ancillary, _, source = receive(_RECEIVED_BYTES_MAX, ANCILLARY_BYTES)
                sent_here = source[_PACKET_TYPE_AT] == socket.PACKET_OUTGOING
                take(data, sent_here, told(ancillary) if ancillary else 0, arrivals)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.counters["unreceivable"] += 1
            self._listen_again()
        if arrivals and self._heard is not None:
            self._heard(arrivals)

    def _listen_again(self) -> None:
        """uvloop looks no more at a socket that had an error, as when its interface went down."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket.fileno())
        loop.add_reader(self._socket.fileno(), self.poll)

    def _count_unread(self) -> None:
        """The kernel tells of overruns with later frames; of the last ones nobody has read such a frame."""
        dropped = dropped_frames(self._socket)
        if dropped:
            self.counters["overrun"] = dropped

    def _take(self, data: bytes, sent_here: bool, at: int, arrivals: list[Arrival]) -> None:
        """One frame of the interface; what is for this node joins the arrivals."""
        try:
            ethertype, inside = self._framing.unwrapped(data, sent_here)
        except PeerError:
            self.counters["foreign"] += 1
            return
        try:
            letter = read_letter(inside) if ethertype == ETHERTYPE else self._completed(ethertype, inside)
        except PeerError:
            self.counters["malformed"] += 1
            return
        if letter is not None and self._is_for_me(letter):
            arrivals.append(Arrival(False, letter.to, letter.frame, at))

    def _completed(self, ethertype: int, inside: bytes) -> Letter | None:
        """The letter that is whole with this piece."""
        if ethertype != PIECE_ETHERTYPE:
            self.counters["foreign"] += 1
            return None
        piece = read_piece(inside)
        if piece.token != self._token:
            self.counters["foreign"] += 1
            return None
        if piece.sender == self._me or self._cell == NOWHERE:
            return None
        whole = self._reassembly.add(piece, time.monotonic_ns())
        return None if whole is None else read_letter(whole)

    def _is_for_me(self, letter: Letter) -> bool:
        if letter.token != self._token:
            self.counters["foreign"] += 1
            return False
        if letter.sender == self._me:
            return False
        if letter.cell != self._cell:
            self.counters["out_of_range"] += 1
            return False
        return not letter.to or self._me in letter.to
