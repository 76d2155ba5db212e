"""The volume: a head-like body of nested ellipsoids, part of the skull removed, made by the program, the same anywhere.

It stands in for the scan of the paper, in its size: 84 slices of 128 x 128 samples of one byte. Only whole numbers are
used, so the samples do not depend on the machine.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from castbed import PeerError

SLICES, SIDE = 84, 128
SAMPLES_MAX = 512**3  # 128 MiB, more than any task here needs: refuse before memory is taken
NOISE = 5
"""Samples of tissue vary by up to this much to either side."""

AIR, SKIN, SKULL, BRAIN, HOLLOW = 0, 70, 220, 130, 30
_SCALE = 1000
_SHELLS = ((940, AIR), (870, SKIN), (760, SKULL), (300, BRAIN))
"""What lies beyond each radius, in thousandths of the head's, from outside to inside; the rest is hollow."""


class Volume(msgspec.Struct, frozen=True):
    """Samples slice by slice, in each row by row."""

    slices: int
    side: int
    samples: bytes

    def __post_init__(self) -> None:
        if len(self.samples) != self.slices * self.side * self.side:
            raise PeerError(f"{len(self.samples)} samples are not {self.slices} slices of {self.side} x {self.side}")

    def slice(self, number: int) -> bytes:
        size = self.side * self.side
        return self.samples[number * size : (number + 1) * size]

    def digest(self) -> bytes:
        return sha256(self.samples).digest()


def head(slices: int = SLICES, side: int = SIDE, seed: int = 1) -> Volume:
    """The head; `seed` decides the noise of its tissue."""
    if min(slices, side) <= 0 or slices * side * side > SAMPLES_MAX:
        raise ValueError(f"a volume has from 1 to {SAMPLES_MAX} samples")
    across = [_distance(at, side) for at in range(side)]
    made = bytearray()
    state = seed & 0xFFFFFFFF
    for z in range(slices):
        up = _distance(z, slices)
        for y in range(side):
            for x in range(side):
                tissue = _tissue(across[x] * 5 // 4 + across[y] + up, _is_opened(x, y, z, side, slices))
                state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
                made.append(tissue and tissue + (state >> 16) % (2 * NOISE + 1) - NOISE)
    return Volume(slices, side, bytes(made))


def _distance(at: int, size: int) -> int:
    """The square of how far a sample is from the middle, in millionths of the head's radius."""
    doubled = 2 * at + 1 - size
    return doubled * doubled * _SCALE * _SCALE // (size * size)


def _tissue(distance: int, opened: bool) -> int:
    """What is at this distance (squared) from the middle; where the head is opened, skin and skull are gone."""
    for radius, beyond in _SHELLS:
        if distance > radius * radius:
            return AIR if opened and beyond in (SKIN, SKULL) else beyond
    return HOLLOW


def _is_opened(x: int, y: int, z: int, side: int, slices: int) -> bool:
    """The quarter at the top, in front, through which the brain is seen."""
    return 2 * z < slices and 2 * y < side and 2 * x > side // 2
