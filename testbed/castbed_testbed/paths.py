"""Where the members of a shared air are, in metres: read from files, as points that they pass in straight lines.

Two formats. `csv`: lines of `time_s,node,x_m,y_m`. `ns2`: what ns-2 and its tools write, as in `traces`; a point is
wherever a way begins or ends.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from castbed.errors import ConfigurationError
from castbed.units import Duration
from castbed_testbed.traces import NUMBER_MAX, SECONDS, Leg, Mistake, checked_number, end_of, ns2_paths, text_of, wrong

HEADER = ["time_s", "node", "x_m", "y_m"]
POINTS_MAX = 100_000  # the experiment that a run keeps lists them all


class Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member is here at this time, and gets here in a straight line from where it was before."""

    node: str
    at: Duration
    x: float
    y: float


def read_points(file: Path, form: str, members: Sequence[str], key: str) -> list[Point]:
    """The points in order of time; every mistake is a ConfigurationError at a key below `key`."""
    if form not in _FORMATS:
        raise ConfigurationError(f"{key}.format", f"{form!r} is none of {', '.join(_FORMATS)}")
    try:
        points = list(_limited(_FORMATS[form](text_of(file), members)))
    except OSError as error:
        raise ConfigurationError(f"{key}.file", f"{file} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{key}.file", f"{file} is not text in UTF-8") from None
    except Mistake as error:
        raise ConfigurationError(f"{key}.file", f"{file}, {error}") from None
    return sorted(points, key=lambda point: point.at)


def _limited(points: Iterator[Point]) -> Iterator[Point]:
    count = 0
    for count, point in enumerate(points, start=1):
        if count > POINTS_MAX:
            raise Mistake(f"which says more than {POINTS_MAX} points")
        yield point
    if not count:
        raise Mistake("which says nothing about anybody")


def _csv_points(text: str, members: Sequence[str]) -> Iterator[Point]:
    rows = csv.reader(text.splitlines(), strict=True)
    known, seen = frozenset(members), set[tuple[str, int]]()
    try:
        if [cell.strip() for cell in next(rows, [])] != HEADER:
            raise wrong(1, f"expected the header {','.join(HEADER)}")
        for row in rows:
            if row:
                point = _csv_point([cell.strip() for cell in row], known, rows.line_num)
                if (point.node, point.at) in seen:
                    raise wrong(rows.line_num, f"{point.node!r} has a place at this time already")
                seen.add((point.node, point.at))
                yield point
    except csv.Error as error:
        raise wrong(rows.line_num, str(error)) from None


def _csv_point(row: list[str], members: frozenset[str], line: int) -> Point:
    if len(row) != len(HEADER):
        raise wrong(line, f"expected {','.join(HEADER)}, got {len(row)} of {len(HEADER)}")
    time, node, x, y = row
    if not SECONDS.fullmatch(time):
        raise wrong(line, f"{time!r} is no time in seconds")
    if node not in members:
        raise wrong(line, f"there is no member {node!r} to move")
    return Point(node, Duration(Duration.parse(f"{time}s")), _metres(x, line), _metres(y, line))


def _metres(text: str, line: int) -> float:
    try:
        return checked_number(text, line)
    except ValueError:
        raise wrong(line, f"{text!r} is no number of metres, up to {NUMBER_MAX:g}") from None


def _ns2_points(text: str, members: Sequence[str]) -> Iterator[Point]:
    for index, legs in ns2_paths(text, len(members)):
        name, last = members[index], -1
        for at, (x, y) in (corner for leg in legs for corner in _corners(leg)):
            if at > last:
                yield Point(name, Duration(at), x, y)
                last = at


def _corners(leg: Leg) -> Iterator[tuple[int, tuple[float, float]]]:
    yield leg.at, leg.start
    if leg.length:
        yield leg.time(leg.length), end_of(leg)


_FORMATS: Mapping[str, Callable[[str, Sequence[str]], Iterator[Point]]] = {"csv": _csv_points, "ns2": _ns2_points}
