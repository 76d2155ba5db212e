"""Space-time diagrams for terminals: a column per node, time downwards."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from textwrap import fill

from castbed.diagram.scene import LANES_MAX, Scene, scene
from castbed.history import History, Kind, LocalEvent
from castbed.properties.base import Violation
from castbed.values import NodeNumber

WIDTH = 100
COLUMN_MIN = 8
TIME_MAX = 14  # wide enough for a day of milliseconds
_GAP = 2

_MARKS = {
    Kind.SUBMIT: ("●", "submits"),
    Kind.HOLD: ("◌", "holds"),
    Kind.DELIVER: ("▼", "delivers"),
    Kind.VIEW: ("□", ""),
    Kind.CRASH: ("✗", ""),
    Kind.RESTART: ("↻", ""),
    Kind.JOIN: ("+", ""),
    Kind.LEAVE: ("-", ""),
}
_OTHER = ("·", "")
_WRONG = " !"


def explain(history: History, violation: Violation, width: int = WIDTH) -> str:
    """A violation for people: its property, its words, and a diagram of its events."""
    kind = f" ({violation.kind})" if violation.kind else ""
    words = fill(violation.words, width)
    return f"{violation.property}{kind}\n{words}\n\n{space_time_text(history, violation.events, width=width)}"


def space_time_text(
    history: History,
    events: Iterable[LocalEvent],
    marked: Collection[LocalEvent] | None = None,
    width: int = WIDTH,
) -> str:
    """The events as text, at most `width` wide; `!` marks what is wrong."""
    lanes_max = min(LANES_MAX, max(1, (width - TIME_MAX) // (COLUMN_MIN + _GAP)))
    shown = scene(history, events, marked, lanes_max)
    rows, legend = _rows(shown, True), []
    if _needed(shown, rows) > width:
        rows, legend = _rows(shown, False), [_legend(shown)]
    first = max((len(time) for time, _ in rows), default=0)
    columns = _columns(shown, rows, width - first)
    lines = [" " * first + "".join(_cell(history.name(lane), size) for lane, size in columns.items())]
    for time, cells in rows:
        lines.append(time.rjust(first) + "".join(_cell(cells.get(lane, "│"), size) for lane, size in columns.items()))
    left_out = [f"({shown.left_out()})"] if shown.left_out() else []
    return "\n".join(line.rstrip() for line in lines + legend + left_out) + "\n"


Row = tuple[str, dict[NodeNumber, str]]


def _rows(shown: Scene, verbs: bool) -> list[Row]:
    """One row per event of a lane in a moment; the moment's first row has its time."""
    rows: list[Row] = []
    for moment in shown.moments():
        stacks: dict[NodeNumber, list[str]] = {}
        for event in moment:
            _place(stacks, event, _text(shown, event, verbs))
        height = max(map(len, stacks.values()))
        for at in range(height):
            cells = {lane: cells[at] for lane, cells in stacks.items() if at < len(cells) and cells[at]}
            rows.append((time_text(moment[0].at) if at == 0 else "", cells))
    for at, (node, message) in enumerate(shown.absent):
        rows.append(("" if at else "end", {node: f"✗ no {shown.message_text(message)}{_WRONG}"}))
    return rows


def _place(stacks: dict[NodeNumber, list[str]], event: LocalEvent, text: str) -> None:
    """Puts an event below what happened before it: a delivery below the submission, in one moment, too."""
    lowest = max(map(len, stacks.values()), default=0)
    stack = stacks.setdefault(event.node, [])
    floor = lowest if event.kind == Kind.DELIVER and not stack else len(stack)
    stack.extend([""] * (floor - len(stack)))
    stack.append(text)


def _text(shown: Scene, event: LocalEvent, verbs: bool) -> str:
    mark, verb = _MARKS.get(event.kind, _OTHER)
    words = " ".join(filter(None, (mark, verb if verbs else "", shown.label(event))))
    return words + (_WRONG if event in shown.marked else "")


def time_text(at: int) -> str:
    """A time of the run in milliseconds."""
    return f"{at / 1e6:.3f} ms"


def _wanted(shown: Scene, rows: list[Row]) -> dict[NodeNumber, int]:
    """How wide each lane would like to be."""
    return {
        lane: max([len(shown.history.name(lane)), *(len(cells[lane]) for _, cells in rows if lane in cells)])
        for lane in shown.lanes
    }


def _needed(shown: Scene, rows: list[Row]) -> int:
    return max((len(time) for time, _ in rows), default=0) + sum(n + _GAP for n in _wanted(shown, rows).values())


def _columns(shown: Scene, rows: list[Row], room: int) -> dict[NodeNumber, int]:
    """How wide each lane is: the widest ones give way until all fit."""
    wanted = _wanted(shown, rows)
    limit = max(wanted.values(), default=COLUMN_MIN)
    while limit > COLUMN_MIN and sum(min(limit, need) + _GAP for need in wanted.values()) > room:
        limit -= 1
    return {lane: min(limit, need) for lane, need in wanted.items()}


def _legend(shown: Scene) -> str:
    kinds = dict.fromkeys(event.kind for event in shown.events)
    return "   ".join(f"{_MARKS[kind][0]} {_MARKS[kind][1]}" for kind in kinds if kind in _MARKS and _MARKS[kind][1])


def _cell(text: str, width: int) -> str:
    cut = text if len(text) <= width else text[: width - 1] + "…"
    return " " * _GAP + cut.ljust(width)
