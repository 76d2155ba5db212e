"""Space-time diagrams as SVG: a horizontal lane per node, time to the right.

The picture is self-contained: it brings its colours for light and for dark surroundings, and needs no font or script.
Moments are evenly spaced, since what matters is their order; the axis tells their times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import hypot
from textwrap import wrap

from castbed.diagram.marks import COLOURS, cut, line, opening
from castbed.diagram.marks import words as text_at
from castbed.diagram.scene import MessageKey, Scene, scene
from castbed.diagram.text import time_text
from castbed.history import History, Kind, LocalEvent
from castbed.values import NodeNumber

WIDTH_MIN = 640
LABEL_MAX = 18
NAME_MAX = 20

_MARGIN, _LANE, _SLOT_MIN, _LETTER = 28, 76, 64, 6.8

_STYLE = """
.cst .lane{stroke:var(--line);stroke-width:1.5}.cst .wrong{fill:var(--wrong);font-weight:700}
.cst .label{paint-order:stroke;stroke:var(--back);stroke-width:4px;stroke-linejoin:round}
.cst .ring{fill:none;stroke:var(--wrong);stroke-width:2}
.cst .plain{fill:var(--soft);stroke:var(--soft)}
.cst .arrow{fill:none;stroke-width:1.6;opacity:.75}.cst .hold{opacity:.22;stroke:none}
.cst .cross{stroke:var(--wrong);stroke-width:2.5;fill:none}
""".strip()


def space_time_svg(
    history: History,
    events: Iterable[LocalEvent],
    title: str = "",
    words: str = "",
    marked: Collection[LocalEvent] | None = None,
) -> str:
    """The events as a picture, under a title and the words; what is wrong is drawn in a warning colour."""
    return _Picture(scene(history, events, marked), title, words).draw()


class _Picture:
    """Places of everything, and the parts of the drawing."""

    def __init__(self, shown: Scene, title: str, words: str) -> None:
        self.scene = shown
        self.title = title
        names = [cut(shown.history.name(lane), NAME_MAX) for lane in shown.lanes]
        self.names = dict(zip(shown.lanes, names, strict=True))
        self.left = _MARGIN + 24 + max([len(name) * 8 for name in names], default=0)
        labels = [len(cut(shown.label(event), LABEL_MAX)) for event in shown.events]
        self.x = _places(shown)
        columns = max((column for column, _ in self.x.values()), default=0) + 1.5
        needed = max(_SLOT_MIN, max(labels, default=0) * _LETTER + 16)
        self.slot = max(needed, (WIDTH_MIN - self.left - _MARGIN) / columns)
        self.width = int(self.left + columns * self.slot + _MARGIN)
        self.words = wrap(words, int((self.width - 2 * _MARGIN) / 6.6))
        self.top = _MARGIN + (24 if title else 0) + 18 * len(self.words) + 22
        self.bottom = self.top + _LANE * len(shown.lanes)
        self.sources = {e.message: at for at, e in enumerate(shown.events) if e.kind == Kind.SUBMIT}
        messages = dict.fromkeys(event.message for event in shown.events if event.mid is not None)
        self.colour = {message: at % COLOURS for at, message in enumerate(messages)}

    # --- places ----------------------------------------------------------------------------------------------------

    def at(self, index: int) -> tuple[float, float]:
        """Where the event of this index is drawn."""
        return self.left + (self.x[index][0] + 0.5) * self.slot, self.height(self.scene.events[index].node)

    def height(self, lane: NodeNumber) -> float:
        return self.top + _LANE * (self.scene.lanes.index(lane) + 0.5)

    @property
    def right(self) -> float:
        return self.width - _MARGIN

    def ink(self, message: MessageKey) -> str:
        return f"var(--m{self.colour[message]})"

    # --- drawing ---------------------------------------------------------------------------------------------------

    def draw(self) -> str:
        height = int(self.bottom + 64)
        parts = [
            *opening(self.width, height, self.title or "Space-time diagram", _STYLE),
            *self._heading(),
            *self._axis(),
            *self._lanes(),
            *self._holds(),
            *self._arrows(),
            *(part for index in range(len(self.scene.events)) for part in self._event(index)),
            *self._absent(),
            *self._legend(),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _heading(self) -> list[str]:
        first = _MARGIN + 14
        parts = [text_at(_MARGIN, first, self.title, "head")] if self.title else []
        start = first + (24 if self.title else 0)
        return parts + [text_at(_MARGIN, start + 18 * row, said, "words") for row, said in enumerate(self.words)]

    def _axis(self) -> list[str]:
        """A tick at each moment; its time stands where there is room for it."""
        parts: list[str] = []
        free = 0.0
        for index, event in enumerate(self.scene.events):
            column, first = self.x[index]
            if not first:
                continue
            x = self.left + (column + 0.5) * self.slot
            parts.append(line("tick", x, self.top - 6, x, self.bottom))
            text = time_text(event.at)
            if x - len(text) * 3.2 >= free:
                parts.append(text_at(x, self.bottom + 16, text, "soft", "middle"))
                free = x + len(text) * 3.2 + 8
        return parts

    def _lanes(self) -> list[str]:
        parts: list[str] = []
        for lane in self.scene.lanes:
            y = self.height(lane)
            parts.append(text_at(self.left - 14, y + 4, self.names[lane], "name", "end"))
            parts.append(line("lane", self.left, y, self.right, y))
        return parts

    def _holds(self) -> list[str]:
        """A lighter bar from each hold to its delivery, or to the end of the lane."""
        parts = []
        for index, event in enumerate(self.scene.events):
            if event.kind == Kind.HOLD:
                x, y = self.at(index)
                released = self._next(index, event)
                end = self.at(released)[0] if released is not None else self.right
                size = f'x="{x:.1f}" y="{y - 7:.1f}" width="{end - x:.1f}" height="14" rx="7"'
                parts.append(f'<rect class="hold" {size} fill="{self.ink(event.message)}"/>')
        return parts

    def _next(self, index: int, held: LocalEvent) -> int | None:
        wanted = (held.node, Kind.DELIVER, held.message)
        events = self.scene.events
        return next(
            (at for at in range(index, len(events)) if events[at].mid is not None and _what(events[at]) == wanted), None
        )

    def _arrows(self) -> list[str]:
        """From each submission to where the message came: to its hold, if one is shown, else to its delivery."""
        reached: set[tuple[NodeNumber, int]] = set()
        parts: list[str] = []
        for index, event in enumerate(self.scene.events):
            if event.kind not in (Kind.HOLD, Kind.DELIVER):
                continue
            source = self._source(index)
            if source is None or (event.node, source) in reached:
                continue
            reached.add((event.node, source))
            if self.scene.events[source].node != event.node:
                parts.append(self._arrow(source, index, self.ink(event.message)))
        return parts

    def _source(self, index: int) -> int | None:
        """The submission that a copy came from: if an identity was used twice, the latest one of the same content."""
        events, event = self.scene.events, self.scene.events[index]
        before = [at for at in range(index) if events[at].kind == Kind.SUBMIT and events[at].message == event.message]
        return max(before, key=lambda at: (events[at].digest == event.digest, at), default=None)

    def _arrow(self, source: int, target: int, ink: str) -> str:
        """A straight arrow between the edges of two marks."""
        (x1, y1), (x2, y2) = self.at(source), self.at(target)
        length = hypot(x2 - x1, y2 - y1)
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        gap = 15 if self.scene.events[target] in self.scene.marked else 10
        x, y = x2 - gap * dx, y2 - gap * dy
        head = f"M{x - 8 * dx + 4 * dy:.1f} {y - 8 * dy - 4 * dx:.1f}L{x:.1f} {y:.1f}"
        head += f"L{x - 8 * dx - 4 * dy:.1f} {y - 8 * dy + 4 * dx:.1f}"
        shaft = f"M{x1 + 8 * dx:.1f} {y1 + 8 * dy:.1f}L{x:.1f} {y:.1f}"
        return f'<path class="arrow" stroke="{ink}" d="{shaft}{head}"/>'

    def _from_below(self, event: LocalEvent) -> bool:
        source = self.sources.get(event.message)
        return source is not None and self.height(self.scene.events[source].node) > self.height(event.node)

    def _event(self, index: int) -> list[str]:
        event = self.scene.events[index]
        x, y = self.at(index)
        wrong = event in self.scene.marked
        draw = _SHAPES.get(event.kind, _dot)
        ink = self.ink(event.message) if event.mid is not None else ""
        label = cut(self.scene.label(event), LABEL_MAX)
        above = event.kind not in (Kind.DELIVER, Kind.HOLD) or self._from_below(event)
        parts = [draw(x, y, f'fill="{ink}" stroke="{ink}"' if ink else 'class="plain"')]
        if wrong:
            parts.append(f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="12"/>')
        parts.append(text_at(x, y - 17 if above else y + 25, label, "label wrong" if wrong else "label", "middle"))
        return parts

    def _absent(self) -> list[str]:
        """A cross at the end of the lane of a node that never delivered a message."""
        parts = []
        for at, (node, message) in enumerate(self.scene.absent):
            x, y = self.right - 24 - at % 3 * 56, self.height(node)
            parts.append(f'<path class="cross" d="M{x - 6} {y - 6}l12 12m0 -12l-12 12"/>')
            parts.append(
                text_at(x, y + 25, f"no {cut(self.scene.message_text(message), LABEL_MAX)}", "label wrong", "middle")
            )
        return parts

    def _legend(self) -> list[str]:
        kinds = {event.kind for event in self.scene.events}
        parts, x, y = [], float(_MARGIN + 8), self.bottom + 44
        for kind, word in _LEGEND.items():
            if kind in kinds:
                parts += [_SHAPES[kind](x, y - 4, 'class="plain"'), text_at(x + 14, y, word, "soft")]
                x += 14 + len(word) * 6 + 22
        note = self.scene.left_out()
        return parts + ([text_at(x, y, f"({note})", "soft")] if note else [])


_LEGEND = {
    Kind.SUBMIT: "submitted",
    Kind.HOLD: "held until delivered",
    Kind.DELIVER: "delivered",
    Kind.VIEW: "view installed",
    Kind.CRASH: "crashed",
}


def _places(shown: Scene) -> dict[int, tuple[int, bool]]:
    """The column of each event, by its index, and whether it is the first of its moment.

    Within a moment a lane's events follow each other, and a message is delivered right of where it is submitted.
    """
    places: dict[int, tuple[int, bool]] = {}
    start = index = 0
    for moment in shown.moments():
        used: dict[NodeNumber, int] = {}
        submitted: dict[MessageKey, int] = {}
        for first, event in enumerate(moment):
            column = used.get(event.node, start)
            if event.mid is not None and event.kind != Kind.SUBMIT:
                column = max(column, submitted.get(event.message, start - 1) + 1)
            elif event.mid is not None:
                submitted[event.message] = column
            used[event.node] = column + 1
            places[index] = column, first == 0
            index += 1
        start = max(used.values())
    return places


def _what(event: LocalEvent) -> tuple[NodeNumber, Kind, MessageKey]:
    return event.node, event.kind, event.message


# --- shapes --------------------------------------------------------------------------------------------------------


def _disc(x: float, y: float, paint: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" {paint}/>'


def _triangle(x: float, y: float, paint: str) -> str:
    return f'<path d="M{x - 7:.1f} {y - 5:.1f}h14l-7 11z" {paint}/>'


def _hollow(x: float, y: float, paint: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" {paint} style="fill:var(--back);stroke-width:2"/>'


def _square(x: float, y: float, paint: str) -> str:
    return f'<rect x="{x - 6:.1f}" y="{y - 6:.1f}" width="12" height="12" rx="2" {paint}/>'


def _crossed(x: float, y: float, paint: str) -> str:
    return f'<path d="M{x - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12" {paint} style="stroke-width:2.5"/>'


def _dot(x: float, y: float, paint: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {paint}/>'


_SHAPES: dict[Kind, Callable[[float, float, str], str]] = {
    Kind.SUBMIT: _disc,
    Kind.HOLD: _hollow,
    Kind.DELIVER: _triangle,
    Kind.VIEW: _square,
    Kind.CRASH: _crossed,
}
