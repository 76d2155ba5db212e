"""The relation of two clocks, from frames in both directions. Plain numpy, no Spark.

Let theta(t) be what the clock of B shows minus what that of A shows when A shows t; it is a straight line. A frame
takes time, so a frame from A to B shows a difference above the line and one from B to A the negative of a difference
below it. All lines between the two sets of points are possible. The one taken has the widest room around it, and the
error is the distance to the farthest possible line. If theta = 0 is possible, the clocks are taken to be one.

A clock that was set, or slewed, in between is on no such line. Then the line is taken that the points violate least;
its error is that violation and the distance to the closest points of the stretch of time in which they are farthest.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

DRIFT_MAX = 1e-3  # a clock that is off by more is broken; crystals are within 1e-4
STEPS = 80  # of a search by thirds: far below a nanosecond over any run
ROUNDING_NS = 1.0
STRETCHES = 16  # of a bent clock: in each, the closest points of either side bound it

Points = NDArray[np.float64]


class Relation(msgspec.Struct, frozen=True):
    """theta(t) = offset_ns + drift * t, wrong by at most `error_ns` while frames were exchanged.

    `straight` says that such a line explains the frames.
    """

    offset_ns: float
    drift: float
    error_ns: float
    straight: bool = True


class _Envelope:
    """Points above the line and points below it, as (time, difference)."""

    def __init__(self, above: Points, below: Points) -> None:
        self.origin = float(min(above[:, 0].min(), below[:, 0].min()))
        self.end = float(max(above[:, 0].max(), below[:, 0].max())) - self.origin
        self.above = above - [self.origin, 0.0]
        self.below = below - [self.origin, 0.0]

    def highest(self, drift: float) -> float:
        """The largest offset that a line of this drift may have."""
        return float((self.above[:, 1] - drift * self.above[:, 0]).min())

    def lowest(self, drift: float) -> float:
        return float((self.below[:, 1] - drift * self.below[:, 0]).max())

    def room(self, drift: float) -> float:
        return self.highest(drift) - self.lowest(drift)


def relation(above: Points, below: Points) -> Relation:
    """How two clocks relate."""
    envelope = _Envelope(above, below)
    drift = _peak(envelope.room, -DRIFT_MAX, DRIFT_MAX)
    if envelope.room(drift) < -ROUNDING_NS:
        return _bent(envelope, drift)
    low, high = _edge(envelope, drift, -DRIFT_MAX), _edge(envelope, drift, DRIFT_MAX)
    if envelope.lowest(0.0) <= 0.0 <= envelope.highest(0.0):
        return Relation(0.0, 0.0, _error(envelope, 0.0, 0.0, low, high))
    offset = (envelope.highest(drift) + envelope.lowest(drift)) / 2
    return Relation(offset - drift * envelope.origin, drift, _error(envelope, offset, drift, low, high))


def _bent(envelope: _Envelope, drift: float) -> Relation:
    """The line that the points violate least, where there is none that they allow."""
    offset = (envelope.highest(drift) + envelope.lowest(drift)) / 2
    over = envelope.above[:, 1] - offset - drift * envelope.above[:, 0]
    under = offset + drift * envelope.below[:, 0] - envelope.below[:, 1]
    violation = max(-over.min(), -under.min())
    far = max(_farthest(envelope.above[:, 0], over, envelope.end), _farthest(envelope.below[:, 0], under, envelope.end))
    return Relation(offset - drift * envelope.origin, drift, float(violation + far), straight=False)


def _farthest(times: NDArray[np.float64], distances: NDArray[np.float64], end: float) -> float:
    """How far the closest point of a stretch is from the line, in the stretch where it is farthest."""
    stretch = np.minimum(times * STRETCHES // max(end, 1.0), STRETCHES - 1)
    return max(float(distances[stretch == one].min()) for one in np.unique(stretch))


def _peak(function: object, low: float, high: float) -> float:
    """Where a concave function is largest."""
    for _ in range(STEPS):
        third = (high - low) / 3
        if function(low + third) < function(high - third):  # type: ignore[operator]
            low += third
        else:
            high -= third
    return (low + high) / 2


def _edge(envelope: _Envelope, inside: float, outside: float) -> float:
    """The last possible drift between one that is possible and one that may not be."""
    for _ in range(STEPS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if envelope.room(middle) >= 0 else (inside, middle)
    return inside


def _error(envelope: _Envelope, offset: float, drift: float, low: float, high: float) -> float:
    """The distance to the farthest possible line, at the beginning or at the end."""
    worst = 0.0
    for at in (0.0, envelope.end):
        top = _peak(lambda d, at=at: envelope.highest(d) + d * at, low, high)
        bottom = _peak(lambda d, at=at: -envelope.lowest(d) - d * at, low, high)
        shown = offset + drift * at
        worst = max(worst, envelope.highest(top) + top * at - shown, shown - envelope.lowest(bottom) - bottom * at)
    return worst
