"""Frames that prove where they come from: a seal behind each, made and checked with a key that all nodes share.

A sealed frame is a frame with the flag SEALED in its header and 28 bytes behind it: the life of the sender, when it was
sealed, which grows with each frame of that life, and a code (keyed BLAKE2b) over everything before it and over its
place: the medium, the cell, and whom it is for. Who has no key can make no frame, change none, take none elsewhere, and
show none a second time:

- the code is checked before anything else is believed, and costs one hash whatever the bytes are;
- of each sender only the latest life counts, and within it each frame once, as far as the window reaches back;
- nothing counts that was sealed before its receiver listened there: before it started again, or came into the cell;
- the key of a run is made from the shared key and the run's own random bytes, so frames of other runs are foreign.

A seal hides nothing: payloads are readable by everybody. Who holds a frame up can show it later to those who missed it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from hmac import compare_digest
from struct import Struct
from typing import ClassVar

from castbed.errors import PeerError
from castbed.packets import Packet
from castbed.topology import NODES_MAX
from castbed.values import NodeNumber
from castbed.wire import (
    FLAGS_AT,
    FRAME_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    SEALED,
    VERSION,
    Codec,
    FrameTooLargeError,
)

KEY_BYTES_MIN = 16  # less can be guessed
CODE_BYTES = 16  # nobody finds a matching one in 2**127 tries
WINDOW = 1_024  # the latest frames of one sender, which are known one by one; older ones count as seen
NO_PLACE = b""
_PLACE = Struct(">?iH")  # whether on a wire, the cell, how many nodes it is for
_NUMBER = Struct(">I")
_SEALED = Struct(">IQ")  # the life of the sender, and when
SEAL_BYTES = _SEALED.size + CODE_BYTES
SEALED_BYTES_MIN = HEADER_BYTES + SEAL_BYTES


class UnsealedError(PeerError):
    """A frame that nobody with the key made for this run; `counter` is the name under which it is counted."""


class ForeignError(UnsealedError):
    """Not sealed at all, or not a frame."""

    counter: ClassVar[str] = "foreign"


class ForgedError(UnsealedError):
    """Made or changed by somebody without the key."""

    counter: ClassVar[str] = "forged"


class ReplayedError(UnsealedError):
    """Sealed with the key, and seen before, or from a time that is over."""

    counter: ClassVar[str] = "replayed"


def place(on_wire: bool, cell: int, to: Sequence[NodeNumber]) -> bytes:
    """Where a frame counts: on which medium, in which cell, and for whom (nobody: for all who hear it)."""
    return _PLACE.pack(on_wire, cell, len(to)) + b"".join(map(_NUMBER.pack, to))


class Seal:
    """What makes and checks seals: the key of one run. It never shows itself."""

    def __init__(self, key: bytes, run: bytes = b"") -> None:
        self._keyed = blake2b(key=derived_key(key, b"frames", run), digest_size=CODE_BYTES)

    def __repr__(self) -> str:
        return "Seal(...)"

    def close(self, frame: bytes, place: bytes, life: int, at: int) -> bytes:
        """The frame with its seal, for this place and no other."""
        if len(frame) + SEAL_BYTES > FRAME_BYTES_MAX:
            raise FrameTooLargeError(f"a sealed frame needs {len(frame) + SEAL_BYTES} bytes")
        flagged = frame[:FLAGS_AT] + bytes((frame[FLAGS_AT] | SEALED,)) + frame[FLAGS_AT + 1 :]
        said = flagged + _SEALED.pack(life, at)
        return said + self._code(place, said)

    def opened(self, frame: bytes | memoryview, place: bytes) -> tuple[bytes, NodeNumber, int, int]:
        """The frame as it was before it was sealed, its sender, the sender's life, and when it was sealed."""
        size = len(frame)
        if not SEALED_BYTES_MIN <= size <= FRAME_BYTES_MAX:
            raise ForeignError(f"a frame of {size} bytes")
        said = bytes(frame[: size - CODE_BYTES])
        magic, version, flags, *_, sender, _, _, _, _ = HEADER.unpack_from(said)
        if magic != MAGIC or version != VERSION or not flags & SEALED:
            raise ForeignError("not a sealed frame of this version of Castbed")
        if not compare_digest(self._code(place, said), frame[size - CODE_BYTES :]):
            raise ForgedError(f"a frame in the name of node {sender}: of another key or place, or changed")
        life, at = _SEALED.unpack_from(said, size - SEAL_BYTES)
        plain = said[:FLAGS_AT] + bytes((flags & ~SEALED,)) + said[FLAGS_AT + 1 : size - SEAL_BYTES]
        return plain, sender, life, at

    def _code(self, place: bytes, said: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(place)
        keyed.update(said)
        return keyed.digest()


class Window:
    """Which frames of one life were seen, by when they were sealed: the latest, and all before these."""

    __slots__ = ("_latest", "_over", "life")

    def __init__(self, life: int) -> None:
        self.life = life
        self._latest = array("Q")
        self._over = -1

    def admits(self, at: int) -> bool:
        """Whether it is seen for the first time; from then on it counts as seen."""
        latest = self._latest
        if not latest or at > latest[-1]:
            latest.append(at)
        else:
            behind = bisect_left(latest, at)
            if at <= self._over or latest[behind] == at:
                return False
            latest.insert(behind, at)
        if len(latest) > WINDOW:
            self._over = latest.pop(0)
        return True


class Guard:
    """Lets each sealed frame pass once; `dropped` counts the others by what was wrong with them."""

    def __init__(self, seal: Seal, senders_max: int = NODES_MAX) -> None:
        self.dropped: Counter[str] = Counter()
        self._seal = seal
        self._windows: dict[NodeNumber, Window] = {}
        self._senders_max = senders_max

    def opened(self, frame: bytes | memoryview, place: bytes = NO_PLACE, since: int = 0) -> bytes:
        """The frame without its seal if it was sealed for this place, and not before `since`; or UnsealedError."""
        try:
            plain, sender, life, at = self._seal.opened(frame, place)
            if at < since:
                raise ReplayedError(f"a frame of node {sender} from before anybody listened here")
            self._admit(sender, life, at)
        except UnsealedError as error:
            self.dropped[error.counter] += 1
            raise
        return plain

    def _admit(self, sender: NodeNumber, life: int, at: int) -> None:
        window = self._windows.get(sender)
        if window is None or life > window.life:
            if sender > self._senders_max:
                raise ForeignError(f"there is no node {sender}")
            window = self._windows[sender] = Window(life)
        if life < window.life or not window.admits(at):
            raise ReplayedError(f"frame {at} of life {life} of node {sender} again")


class SealedCodec(Codec):
    """The codec of one life of one node with a key: seals what it encodes and decodes only what is sealed.

    `now` is a clock that all nodes of the run share. Two frames are never sealed at the same time.
    """

    def __init__(
        self, families: Mapping[str, Iterable[type[Packet]]], seal: Seal, life: int, now: Callable[[], int]
    ) -> None:
        super().__init__(families)
        self.guard = Guard(seal)
        self._seal = seal
        self._life = life
        self._now = now
        self._at = 0

    def encode(self, packet: Packet, sender: NodeNumber, place: bytes = NO_PLACE) -> bytes:
        frame = super().encode(packet, sender)
        self._at = at = max(self._at + 1, self._now())
        return self._seal.close(frame, place, self._life, at)

    def decode(self, frame: bytes | memoryview, place: bytes = NO_PLACE, since: int = 0) -> tuple[Packet, NodeNumber]:
        return super().decode(self.guard.opened(frame, place, since))


def derived_key(key: bytes, purpose: bytes, *about: bytes) -> bytes:
    """A key for one purpose; who learns it learns nothing about the others."""
    if len(key) < KEY_BYTES_MIN:
        raise ValueError(f"a key has at least {KEY_BYTES_MIN} bytes")
    mixed = blake2b(key=blake2b(key).digest(), digest_size=32)
    for part in (b"castbed", purpose, *about):
        mixed.update(len(part).to_bytes(4, "big") + part)
    return mixed.digest()
