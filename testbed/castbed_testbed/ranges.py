"""Who is out of whose range when, on a shared air with places: the distance of two members, against `range_m`.

Members stand, or pass points in straight lines; when they get in and out of range is solved for, not sampled: only
+ - * / and square roots are used, which give the same bits on every machine. Hosts take what comes out as directions in
which nothing passes for a while, so that all of them have it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from math import sqrt
from typing import NamedTuple

from castbed.errors import ConfigurationError
from castbed.topology import Topology
from castbed.values import NodeNumber
from castbed_testbed.experiment import TIME_MAX, Experiment, MobilitySpec
from castbed_testbed.networks import node_number
from castbed_testbed.traces import NUMBER_MAX, Position

RANGE = "range"  # what copies are counted as that somebody is always too far away for
SPANS_MAX = 1_000_000  # all of them are kept in memory before the run begins
KEY = "topology.air.range_m"

Path = list[tuple[int, Position]]
"""Where a member is at which times, the first of which is 0."""
Span = tuple[int, int]


class Apart(NamedTuple):
    """Two members do not hear each other from `start` to `end`; `counted` is the name for what they miss."""

    one: NodeNumber
    other: NodeNumber
    start: int
    end: int
    counted: str


def spans_apart(experiment: Experiment, topology: Topology) -> list[Apart]:
    """All times at which members are out of range; everything impossible about them is a ConfigurationError."""
    spec, model = experiment.topology, topology.model
    range_m = spec.air.range_m
    if model != "broadcast":
        if range_m is not None:
            raise ConfigurationError(KEY, f"is for a broadcast topology; in a {model} one cells say who hears whom")
        return []
    paths, movers = _paths(experiment, topology)
    if range_m is None:
        if paths:
            raise ConfigurationError(KEY, "positions mean nothing without it: how far a member is heard, in metres")
        return []
    if not 0 < range_m <= NUMBER_MAX:
        raise ConfigurationError(KEY, f"is in metres, above 0 and up to {NUMBER_MAX:g}")
    for node in topology.nodes:
        if node.number not in paths:
            raise ConfigurationError("topology.positions", f"does not say where {node.name!r} is")
    return _limited(_all_apart(paths, movers, range_m))


def _limited(spans: Iterator[Apart]) -> list[Apart]:
    kept: list[Apart] = []
    for span in spans:
        if len(kept) == SPANS_MAX:
            raise ConfigurationError(KEY, f"members get out of range more than {SPANS_MAX} times")
        kept.append(span)
    return kept


# --- where everybody is ----------------------------------------------------------------------------------------------


def _paths(experiment: Experiment, topology: Topology) -> tuple[dict[NodeNumber, Path], dict[NodeNumber, str]]:
    """The path of each member that has one, and the key of what moves it."""
    paths: dict[NodeNumber, Path] = {}
    for name, position in (experiment.topology.positions or {}).items():
        key = f"topology.positions.{name}"
        paths[node_number(topology, name, key)] = [(0, _checked(position, key))]
    movers: dict[NodeNumber, str] = {}
    for key, spec in experiment.movements():
        for number, points in _moved(topology, spec, key).items():
            if number in movers:
                raise ConfigurationError(
                    f"{key}.points", f"{topology.name(number)!r} is moved by {movers[number]} already"
                )
            movers[number] = key
            first = paths.get(number, [(0, points[0][1])])
            paths[number] = points if points[0][0] == 0 else first + points
    return paths, movers


def _moved(topology: Topology, spec: MobilitySpec, key: str) -> dict[NodeNumber, Path]:
    moved: dict[NodeNumber, Path] = {}
    for at, point in enumerate(spec.points or ()):
        path = f"{key}.points[{at}]"
        number = node_number(topology, point.node, f"{path}.node")
        if spec.hosts is not None and point.node not in spec.hosts:
            raise ConfigurationError(f"{path}.node", f"{point.node!r} is none of its hosts")
        moved.setdefault(number, []).append((int(point.at), _checked((point.x, point.y), path)))
    for number, points in moved.items():
        points.sort(key=lambda passed: passed[0])
        if any(one == other for (one, _), (other, _) in pairwise(points)):
            raise ConfigurationError(f"{key}.points", f"{topology.name(number)!r} is at two places at one time")
    return moved


def _checked(position: Position, key: str) -> Position:
    if not all(abs(metres) <= NUMBER_MAX for metres in position):
        raise ConfigurationError(key, f"is further away than {NUMBER_MAX:g} m")
    return position


# --- how far they are apart ------------------------------------------------------------------------------------------


def _all_apart(paths: dict[NodeNumber, Path], movers: dict[NodeNumber, str], range_m: float) -> Iterator[Apart]:
    for one, other in combinations(sorted(paths), 2):
        for start, end in _merged(_apart(paths[one], paths[other], range_m)):
            always = start == 0 and end == TIME_MAX
            counted = RANGE if always else movers.get(one) or movers[other]
            yield Apart(one, other, start, end, counted)


def _merged(spans: Iterator[Span]) -> Iterator[Span]:
    """Spans that touch are one; those that last less than the resolution are none."""
    open_start, open_end = 0, 0
    for start, end in spans:
        if start > open_end:
            if open_end > open_start:
                yield open_start, open_end
            open_start = start
        open_end = end
    if open_end > open_start:
        yield open_start, open_end


def _apart(one: Path, other: Path, range_m: float) -> Iterator[Span]:
    """When the two are out of range, from turn to turn of either of them."""
    turns = sorted({at for at, _ in (*one, *other)})
    for start, end in zip(turns, [*turns[1:], TIME_MAX], strict=True):
        here, there = _between(one, other, start), _between(one, other, end)
        yield from _out_of_range(here, there, range_m, start, end)


def _between(one: Path, other: Path, at: int) -> Position:
    """The way from one to the other."""
    (x, y), (other_x, other_y) = _place(one, at), _place(other, at)
    return other_x - x, other_y - y


def _place(path: Path, at: int) -> Position:
    after = bisect_right(path, at, key=lambda point: point[0])
    start, (x, y) = path[after - 1]
    if after == len(path):
        return x, y
    end, (to_x, to_y) = path[after]
    part = (at - start) / (end - start)
    return x + (to_x - x) * part, y + (to_y - y) * part


def _out_of_range(here: Position, there: Position, range_m: float, start: int, end: int) -> Iterator[Span]:
    """While the way between the two changes steadily: after a part p its square is p²·square + 2p·slope + now."""
    change = there[0] - here[0], there[1] - here[1]
    square, slope = _product(change, change), _product(here, change)
    now = _product(here, here) - range_m * range_m
    root = slope * slope - square * now
    if square == 0 or root < 0:
        if now > 0:
            yield start, end
        return
    enter, leave = ((-slope + sign * sqrt(root)) / square for sign in (-1, 1))
    length = end - start
    if enter > 0:
        yield start, start + round(min(enter, 1.0) * length)
    if leave < 1:
        yield start + round(max(leave, 0.0) * length), end


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return one[0] * other[0] + one[1] * other[1]
