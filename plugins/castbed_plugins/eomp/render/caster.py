"""Ray casting: one frame is the volume seen from one side, light gathered along each ray from the front to the back.

The head turns about its long axis, so all rays of one column of pixels pass through the same samples of every slice: a
ray is a list of places in a slice, used for all slices. All sums are whole numbers, so a frame is the same to the bit
on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi, sin
from operator import itemgetter

from castbed_plugins.eomp.render.volume import Volume

FRAMES, IMAGE_SIDE = 360, 256
_ONE = 1 << 16
_FULL = 1 << 12
"""The light that enters a ray."""
_DARK = _FULL >> 6
"""A ray with less light left than this ends: nobody would see the rest."""

OPACITY = bytes(0 if value < 25 else min(value // 3, 250) for value in range(256))
"""Of 256: how much of the light a sample of this value stops. Thin tissue is seen through, bone hardly."""
CLEAR = bytes(value for value in range(256) if not OPACITY[value])

Ray = Callable[[bytes], tuple[int, ...]]


def cast(volume: Volume, frame: int, frames: int = FRAMES, side: int = IMAGE_SIDE) -> bytes:
    """Frame number `frame` of a full turn, `side` x `side` pixels of one byte, row by row."""
    if not 0 <= frame < frames:
        raise ValueError(f"there is no frame {frame} in a turn of {frames}")
    rays = _rays(volume.side, 2 * pi * frame / frames, side)
    rows = [_row(volume.slice(number), rays) for number in range(volume.slices)]
    return b"".join(rows[row * volume.slices // side] for row in range(side))


def _row(samples: bytes, rays: list[Ray | None]) -> bytes:
    """One row of pixels; clear samples are left out beforehand, because most are clear."""
    return bytes(0 if ray is None else _light(bytes(ray(samples)).translate(None, CLEAR)) for ray in rays)


def _light(samples: bytes) -> int:
    """What a ray through these samples shows."""
    left, gathered = _FULL, 0
    for value in samples:
        stopped = left * OPACITY[value] >> 8
        gathered += stopped * value
        left -= stopped
        if left < _DARK:
            break
    return min(gathered >> 12, 255)


def _rays(side: int, angle: float, pixels: int) -> list[Ray | None]:
    """For each column of pixels the places in a slice that its ray passes; None for a ray that misses the volume."""
    forward, across = round(cos(angle) * _ONE), round(sin(angle) * _ONE)
    return [_ray(side, forward, across, 2 * pixel + 1 - pixels, pixels) for pixel in range(pixels)]


def _ray(side: int, forward: int, across: int, offset: int, pixels: int) -> Ray | None:
    """The ray `offset` half pixels beside the middle, sampled once per sample of the volume's side."""
    beside = offset * side // pixels
    places = []
    for step in range(-side, side):
        ahead = 2 * step + 1
        x = (ahead * forward - beside * across + _ONE * side) // (2 * _ONE)
        y = (ahead * across + beside * forward + _ONE * side) // (2 * _ONE)
        if 0 <= x < side and 0 <= y < side:
            places.append(y * side + x)
    if not places:
        return None
    return itemgetter(*places) if len(places) > 1 else lambda samples: (samples[places[0]],)
