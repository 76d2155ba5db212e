"""Frames that prove where they come from: a seal behind each, made and checked with a key that all nodes share.

A sealed frame is a frame with the flag SEALED in its header and 28 bytes behind it: the life of the sender, a counter
that grows with each frame of that life, and a code (keyed BLAKE2b) over everything before it. Who has no key can make
no frame, change none, and show none a second time:

- the code is checked before anything else is believed, and costs one hash whatever the bytes are;
- of each sender only the latest life counts, and within it each counter once, as far as the window reaches back;
- the key of a run is made from the shared key and the run's own random bytes, so frames of other runs are foreign.

A receiver that restarts has forgotten the counters: until it has heard a sender again, it takes that sender's frames of
the same run once more. A seal hides nothing: payloads are readable by everybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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
WINDOW = 1_024  # frames of one sender that may overtake each other; more than any medium here reorders
_COUNTED = Struct(">IQ")
SEAL_BYTES = _COUNTED.size + CODE_BYTES
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
    """Sealed with the key, and seen before or from an earlier life."""

    counter: ClassVar[str] = "replayed"


class Seal:
    """What makes and checks seals: the key of one run. It never shows itself."""

    def __init__(self, key: bytes, run: bytes = b"") -> None:
        self._keyed = blake2b(key=derived_key(key, b"frames", run), digest_size=CODE_BYTES)

    def __repr__(self) -> str:
        return "Seal(...)"

    def close(self, frame: bytes, life: int, counter: int) -> bytes:
        """The frame with its seal."""
        if len(frame) + SEAL_BYTES > FRAME_BYTES_MAX:
            raise FrameTooLargeError(f"a sealed frame needs {len(frame) + SEAL_BYTES} bytes")
        flagged = frame[:FLAGS_AT] + bytes((frame[FLAGS_AT] | SEALED,)) + frame[FLAGS_AT + 1 :]
        said = flagged + _COUNTED.pack(life, counter)
        return said + self._code(said)

    def opened(self, frame: bytes | memoryview) -> tuple[bytes, NodeNumber, int, int]:
        """The frame as it was before it was sealed, its sender, the sender's life and the counter."""
        size = len(frame)
        if not SEALED_BYTES_MIN <= size <= FRAME_BYTES_MAX:
            raise ForeignError(f"a frame of {size} bytes")
        said = bytes(frame[: size - CODE_BYTES])
        magic, version, flags, *_, sender, _, _, _, _ = HEADER.unpack_from(said)
        if magic != MAGIC or version != VERSION or not flags & SEALED:
            raise ForeignError("not a sealed frame of this version of Castbed")
        if not compare_digest(self._code(said), frame[size - CODE_BYTES :]):
            raise ForgedError(f"a frame in the name of node {sender}, sealed with another key or changed")
        life, counter = _COUNTED.unpack_from(said, size - SEAL_BYTES)
        plain = said[:FLAGS_AT] + bytes((flags & ~SEALED,)) + said[FLAGS_AT + 1 : size - SEAL_BYTES]
        return plain, sender, life, counter

    def _code(self, said: bytes) -> bytes:
        keyed = self._keyed.copy()
        keyed.update(said)
        return keyed.digest()


class Window:
    """Which counters of one life were seen: all below the window count as seen."""

    __slots__ = ("_seen", "highest", "life")

    def __init__(self, life: int) -> None:
        self.life = life
        self.highest = -1
        self._seen = 0

    def admits(self, counter: int) -> bool:
        """Whether it is seen for the first time; from then on it counts as seen."""
        ahead = counter - self.highest
        if ahead > 0:
            self._seen = (self._seen << ahead | 1) & (1 << WINDOW) - 1 if ahead < WINDOW else 1
            self.highest = counter
            return True
        if -ahead >= WINDOW or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True


class Guard:
    """Lets each sealed frame pass once; `dropped` counts the others by what was wrong with them."""

    def __init__(self, seal: Seal, senders_max: int = NODES_MAX) -> None:
        self.dropped: Counter[str] = Counter()
        self._seal = seal
        self._windows: dict[NodeNumber, Window] = {}
        self._senders_max = senders_max

    def opened(self, frame: bytes | memoryview) -> bytes:
        """The frame without its seal, or UnsealedError."""
        try:
            plain, sender, life, counter = self._seal.opened(frame)
            self._admit(sender, life, counter)
        except UnsealedError as error:
            self.dropped[error.counter] += 1
            raise
        return plain

    def _admit(self, sender: NodeNumber, life: int, counter: int) -> None:
        window = self._windows.get(sender)
        if window is None or life > window.life:
            if sender > self._senders_max:
                raise ForeignError(f"there is no node {sender}")
            window = self._windows[sender] = Window(life)
        if life < window.life or not window.admits(counter):
            raise ReplayedError(f"frame {counter} of life {life} of node {sender} again")


class SealedCodec(Codec):
    """The codec of one life of one node with a key: seals what it encodes and decodes only what is sealed."""

    def __init__(self, families: Mapping[str, Iterable[type[Packet]]], seal: Seal, life: int) -> None:
        super().__init__(families)
        self.guard = Guard(seal)
        self._seal = seal
        self._life = life
        self._counter = 0

    def encode(self, packet: Packet, sender: NodeNumber) -> bytes:
        frame = super().encode(packet, sender)
        self._counter += 1
        return self._seal.close(frame, self._life, self._counter)

    def decode(self, frame: bytes | memoryview) -> tuple[Packet, NodeNumber]:
        return super().decode(self.guard.opened(frame))


def derived_key(key: bytes, purpose: bytes, *about: bytes) -> bytes:
    """A key for one purpose; who learns it learns nothing about the others."""
    if len(key) < KEY_BYTES_MIN:
        raise ValueError(f"a key has at least {KEY_BYTES_MIN} bytes")
    mixed = blake2b(key=blake2b(key).digest(), digest_size=32)
    for part in (b"castbed", purpose, *about):
        mixed.update(len(part).to_bytes(4, "big") + part)
    return mixed.digest()
