"""The two ends of a task: what a worker gathers before it computes, and what its client gathers afterwards."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from castbed import PeerError
from castbed_plugins.eomp.render.packets import Announce, Fragment, Result, TaskId
from castbed_plugins.eomp.render.schedule import Entity
from castbed_plugins.eomp.render.volume import SAMPLES_MAX, Volume

FRAMES_MAX = 100_000
IMAGE_SIDE_MAX = 4096
FRAGMENTS_MAX = 1 << 20


class Order:
    """A task as a worker sees it: it may be computed when its announcement and all fragments are here, in any order.

    `present` are the entities that were in the roster when the first part was delivered; they can have every part.
    """

    def __init__(self, present: Collection[Entity]) -> None:
        self.present = frozenset(present)
        self.announce: Announce | None = None
        self.volume: Volume | None = None
        self._fragments: dict[int, bytes] = {}

    def take(self, part: Announce | Fragment) -> bool:
        """Take a part; True when it is the last one and the volume is whole."""
        if self.volume is not None:
            return False
        if isinstance(part, Fragment):
            self._fragments.setdefault(part.index, part.data)
        elif _is_possible(part):
            self.announce = part
        return self._is_whole()

    def _is_whole(self) -> bool:
        announce = self.announce
        if announce is None or len(self._fragments) < announce.fragments:
            return False
        samples = b"".join(self._fragments.get(index, b"") for index in range(announce.fragments))
        try:
            volume = Volume(announce.slices, announce.side, samples)
        except PeerError:
            return False
        if volume.digest() != announce.digest:
            return False
        self.volume, self._fragments = volume, {}
        return True


def _is_possible(announce: Announce) -> bool:
    return (
        0 < announce.frames <= FRAMES_MAX
        and 0 < announce.image_side <= IMAGE_SIDE_MAX
        and 0 < announce.fragments <= FRAGMENTS_MAX
        and 0 < announce.slices * announce.side * announce.side <= SAMPLES_MAX
    )


class Job:
    """A task as its client sees it: each frame is taken once, whoever computes it how often."""

    def __init__(self, task: TaskId, frames: int, now: int) -> None:
        self.task = task
        self.frames = frames
        self.begun = now
        self.finished: int | None = None
        self.images: dict[int, bytes] = {}
        self._pieces: dict[int, dict[int, bytes]] = {}
        self.duplicates = 0
        self.reassigned = 0
        self.heard = now

    def take(self, result: Result, now: int) -> None:
        """Keep a piece of a frame, unless it is here already; equal frames have equal pieces, whoever computed them."""
        if not (0 <= result.frame < self.frames and 0 <= result.index < result.count <= FRAGMENTS_MAX):
            return
        self.heard = now
        pieces = self._pieces.setdefault(result.frame, {})
        if result.frame in self.images or result.index in pieces:
            self.duplicates += 1
            return
        pieces[result.index] = result.data
        if len(pieces) == result.count:
            self.keep(result.frame, b"".join(pieces[index] for index in range(result.count)), now)

    def keep(self, frame: int, image: bytes, now: int) -> None:
        """Take a whole frame, the first time it comes."""
        self.heard = now
        if frame in self.images:
            self.duplicates += 1
            return
        self.images[frame] = image
        self._pieces.pop(frame, None)
        if len(self.images) == self.frames:
            self.finished = now

    def missing(self) -> Sequence[int]:
        return [frame for frame in range(self.frames) if frame not in self.images]
