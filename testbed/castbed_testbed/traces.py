"""Reads traces of mobility from files: which host enters the cell of which station when.

Two formats. `csv`: lines of `time_s,host,station`. `ns2`: nodes that go to places in straight lines, as ns-2 and its
tools write them; here a host is in the cell of the nearest station within range, and changes are solved for, not
sampled: only + - * / and square roots are used, which give the same bits on every machine.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path

import msgspec

from castbed.errors import ConfigurationError
from castbed.units import Duration
from castbed_testbed.faults import Handoff

TRACE_BYTES_MAX = 64 << 20  # a million lines of ns-2
TRACE_MOVES_MAX = 100_000  # the experiment that a run keeps lists them all
NUMBER_MAX = 1e9  # metres, metres per second and seconds: their squares are far from what a float cannot hold
SECOND = 1_000_000_000  # nanoseconds, which is the resolution of all times

HEADER = ["time_s", "host", "station"]
NOWHERE = ""

Position = tuple[float, float]


class Mistake(Exception):
    """What is wrong with a file, in words."""


class Cells(msgspec.Struct, frozen=True):
    """What a trace moves hosts in. A position says where a station stands."""

    hosts: Sequence[str]
    stations: Sequence[str]
    positions: Mapping[str, Position] = {}
    range_m: float | None = None


def read_trace(file: Path, form: str, cells: Cells, key: str) -> list[Handoff]:
    """The moves in order of time; every mistake is a ConfigurationError at a key below `key`."""
    if form not in _FORMATS:
        raise ConfigurationError(f"{key}.format", f"{form!r} is none of {', '.join(_FORMATS)}")
    _check_positions(form, cells, key)
    try:
        moves = _limited(_FORMATS[form](text_of(file), cells))
    except OSError as error:
        raise ConfigurationError(f"{key}.file", f"{file} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{key}.file", f"{file} is not text in UTF-8") from None
    except Mistake as error:
        raise ConfigurationError(f"{key}.file", f"{file}, {error}") from None
    return sorted(moves, key=lambda move: move.at)


def _check_positions(form: str, cells: Cells, key: str) -> None:
    if form != "ns2":
        if cells.range_m is not None:
            raise ConfigurationError(f"{key}.range_m", f"a trace in {form} names stations, not places")
        return
    if cells.range_m is None or not 0 < cells.range_m <= NUMBER_MAX:
        raise ConfigurationError(f"{key}.range_m", f"a trace in ns2 needs it: metres, above 0 and up to {NUMBER_MAX:g}")
    if not cells.positions:
        raise ConfigurationError("topology.positions", "a trace in ns2 needs to know where the stations stand")
    for name, position in cells.positions.items():
        if not all(abs(metres) <= NUMBER_MAX for metres in position):
            raise ConfigurationError(f"topology.positions.{name}", f"is further away than {NUMBER_MAX:g} m")


def text_of(file: Path) -> str:
    """What the file says, if it is not too long for a trace."""
    if file.stat().st_size > TRACE_BYTES_MAX:
        raise Mistake(f"which is longer than {TRACE_BYTES_MAX} bytes")
    return file.read_text(encoding="utf-8-sig")


def _limited(moves: Iterable[Handoff]) -> list[Handoff]:
    kept: list[Handoff] = []
    for move in moves:
        if len(kept) == TRACE_MOVES_MAX:
            raise Mistake(f"which says more than {TRACE_MOVES_MAX} moves")
        kept.append(move)
    if not kept:
        raise Mistake("which says nothing about anybody")
    return kept


def wrong(line: int, problem: str) -> Mistake:
    """The mistake on this line."""
    return Mistake(f"line {line}: {problem}")


# --- csv -------------------------------------------------------------------------------------------------------------

SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,18})?")


def _csv_moves(text: str, cells: Cells) -> Iterator[Handoff]:
    rows = csv.reader(text.splitlines(), strict=True)
    hosts, stations = frozenset(cells.hosts), frozenset(cells.stations)
    seen: set[tuple[str, int]] = set()
    try:
        header = [cell.strip() for cell in next(rows, [])]
        if header != HEADER:
            raise wrong(1, f"expected the header {','.join(HEADER)}")
        for row in rows:
            if row:
                move = _csv_move([cell.strip() for cell in row], hosts, stations, rows.line_num)
                if (move.host, move.at) in seen:
                    raise wrong(rows.line_num, f"{move.host!r} has a place at this time already")
                seen.add((move.host, move.at))
                yield move
    except csv.Error as error:
        raise wrong(rows.line_num, str(error)) from None


def _csv_move(row: list[str], hosts: frozenset[str], stations: frozenset[str], line: int) -> Handoff:
    if len(row) != len(HEADER):
        raise wrong(line, f"expected {','.join(HEADER)}, got {len(row)} of {len(HEADER)}")
    time, host, station = row
    if not SECONDS.fullmatch(time):
        raise wrong(line, f"{time!r} is no time in seconds")
    if host not in hosts:
        raise wrong(line, f"there is no host {host!r} to move")
    if station and station not in stations:
        raise wrong(line, f"there is no station {station!r}")
    return Handoff(host, Duration(Duration.parse(f"{time}s")), station)


# --- ns-2 ------------------------------------------------------------------------------------------------------------

_NUMBER = r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
_NODE = r"\$\w+\(([0-9]{1,9})\)"
_PLACED = re.compile(rf"{_NODE}\s+set\s+([XYZ])_\s+{_NUMBER}\s*;?")
_SENT = re.compile(rf'\$\w+\s+at\s+{_NUMBER}\s+"{_NODE}\s+setdest\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}"\s*;?')
_SKIPPED = re.compile(r'#.*|\$god_\s.*|\$\w+\s+at\s+\S+\s+"\$god_\s.*')  # what ns-2 notes for itself


class _Order(msgspec.Struct, frozen=True):
    """Go there at this speed, from now on."""

    line: int
    at: int
    to: Position
    speed: float


class Leg(msgspec.Struct, frozen=True):
    """A straight line that a node goes at one speed; of no length where it stands."""

    at: int
    start: Position
    direction: Position = (0.0, 0.0)
    length: float = 0.0
    speed: float = 1.0

    def time(self, metres: float) -> int:
        """When the node has gone this far."""
        return self.at + round(metres / self.speed * SECOND)


class _Node:
    """Where a node starts, and where it is sent."""

    def __init__(self) -> None:
        self.start: dict[str, float] = {}
        self.orders: list[_Order] = []

    def legs(self) -> Iterator[Leg]:
        """The way of the node; an order that comes on the way to another takes its place."""
        here = (self.start["X"], self.start["Y"])
        yield Leg(0, here)
        orders = sorted(self.orders, key=lambda order: order.at)
        ends = [*(order.at for order in orders), int(NUMBER_MAX) * SECOND][1:]
        for order, end in zip(orders, ends, strict=True):
            east, north = order.to[0] - here[0], order.to[1] - here[1]
            distance = sqrt(east * east + north * north)
            length = min(distance, order.speed * ((end - order.at) / SECOND))
            if length > 0:
                leg = Leg(order.at, here, (east / distance, north / distance), length, order.speed)
                yield leg
                here = order.to if length == distance else end_of(leg)


def end_of(leg: Leg) -> Position:
    """Where it ends."""
    return leg.start[0] + leg.direction[0] * leg.length, leg.start[1] + leg.direction[1] * leg.length


def _ns2_moves(text: str, cells: Cells) -> Iterator[Handoff]:
    for index, legs in ns2_paths(text, len(cells.hosts)):
        for at, station in _cell_changes(legs, cells):
            yield Handoff(cells.hosts[index], Duration(at), station)


def ns2_paths(text: str, count: int) -> Iterator[tuple[int, Iterator[Leg]]]:
    """The ways of the nodes 0 to `count` - 1, as far as the text has them."""
    for index, node in sorted(_ns2_nodes(text, count).items()):
        if not node.start.keys() >= {"X", "Y"}:
            line = f"line {node.orders[0].line}: " if node.orders else ""
            raise Mistake(f"{line}node {index} has no place to start from, X_ and Y_")
        yield index, node.legs()


def _ns2_nodes(text: str, count: int) -> dict[int, _Node]:
    nodes: dict[int, _Node] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.strip()
        if placed := _PLACED.fullmatch(said):
            node = _ns2_node(nodes, placed[1], count, number)
            node.start[placed[2]] = checked_number(placed[3], number)
        elif sent := _SENT.fullmatch(said):
            node = _ns2_node(nodes, sent[2], count, number)
            at, speed = (checked_number(sent[group], number, least=0) for group in (1, 5))
            to = (checked_number(sent[3], number), checked_number(sent[4], number))
            node.orders.append(_Order(number, round(at * SECOND), to, speed))
        elif said and not _SKIPPED.fullmatch(said):
            raise wrong(number, "is neither a place ($node_(0) set X_ 1.0) nor a setdest at a time")
    return nodes


def _ns2_node(nodes: dict[int, _Node], index: str, count: int, line: int) -> _Node:
    if int(index) >= count:
        raise wrong(line, f"there is no host for node {index}, which would be number {int(index) + 1} of {count}")
    return nodes.setdefault(int(index), _Node())


def checked_number(text: str, line: int, least: float = -NUMBER_MAX) -> float:
    """The number, if it is in bounds."""
    value = float(text)
    if not least <= value <= NUMBER_MAX:
        raise wrong(line, f"{text} is not from {least:g} to {NUMBER_MAX:g}")
    return value


# --- who is in which cell --------------------------------------------------------------------------------------------


def _cell_changes(legs: Iterable[Leg], cells: Cells) -> list[tuple[int, str]]:
    """When the node enters which cell, from time 0; what lasts less than the resolution is left out."""
    changes: list[tuple[int, str]] = []
    for leg in legs:
        for metres, station in _cellsend_of(leg, cells):
            at = leg.time(metres)
            while changes and changes[-1][0] >= at:
                changes.pop()
            if not changes or changes[-1][1] != station:
                changes.append((at, station))
    return changes


def _cellsend_of(leg: Leg, cells: Cells) -> Iterator[tuple[float, str]]:
    """The cells on the way, each with the metres after which it begins.

    After s metres the square of the distance from a station is s² + 2·slope·s + square.
    """
    assert cells.range_m is not None
    names = list(cells.positions)
    lines = [_line(leg, position) for position in cells.positions.values()]
    pieces = list(_nearest(lines, leg.length))
    ends = [start for start, _ in pieces[1:]] + [leg.length]
    for (start, at), end in zip(pieces, ends, strict=True):
        slope, square = lines[at]
        within = slope * slope - square + cells.range_m * cells.range_m
        if within < 0:
            yield start, NOWHERE
            continue
        enter, leave = -slope - sqrt(within), -slope + sqrt(within)
        yield start, names[at] if enter <= start <= leave else NOWHERE
        if start < enter <= end:
            yield enter, names[at]
        if start <= leave < end:
            yield leave, NOWHERE


def _line(leg: Leg, station: Position) -> tuple[float, float]:
    east, north = leg.start[0] - station[0], leg.start[1] - station[1]
    return leg.direction[0] * east + leg.direction[1] * north, east * east + north * north


def _nearest(lines: Sequence[tuple[float, float]], length: float) -> Iterator[tuple[float, int]]:
    """The nearest stations on the way, each with the metres after which it is: the lower envelope of lines."""
    metres, here = 0.0, min(range(len(lines)), key=lambda at: (lines[at][1], lines[at][0], at))
    while True:
        yield metres, here
        slope, square = lines[here]
        rivals = [
            ((other[1] - square) / (2 * (slope - other[0])), other[0], at)
            for at, other in enumerate(lines)
            if other[0] < slope
        ]
        crossing, _, rival = min(rivals, default=(length + 1, 0.0, here))
        if crossing >= length:
            return
        metres, here = max(metres, crossing), rival


_FORMATS: Mapping[str, Callable[[str, Cells], Iterator[Handoff]]] = {"csv": _csv_moves, "ns2": _ns2_moves}
