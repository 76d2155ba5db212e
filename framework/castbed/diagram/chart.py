"""Charts as SVG: curves over numbers, with the spread of each point, on linear or logarithmic axes.

The picture is self-contained: it brings its colours for light and for dark surroundings, and needs no font or script.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor, log10
from textwrap import wrap
from typing import Literal

import msgspec

from castbed.diagram import marks

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, BOTTOM = 78, 24, 58
TICKS = 6
LETTER = 6.4  # the width of a letter of the legend, about

Scale = Literal["linear", "log"]

_STYLE = """
.cst .curve{fill:none;stroke-width:2.2}.cst .dashed{stroke-dasharray:6 5}.cst .bar{stroke-width:1.6;opacity:.6}
.cst .hollow{fill:var(--back);stroke-width:2}.cst .axis{stroke:var(--soft)}
""".strip()


class Spot(msgspec.Struct, frozen=True):
    """A point of a curve, the spread around it, and whether it is to be read with a caveat (drawn hollow)."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    hollow: bool = False


class Curve(msgspec.Struct, frozen=True):
    """`colour` is a number; curves that belong together have the same. Dashed curves have square marks."""

    name: str
    spots: tuple[Spot, ...]
    colour: int = 0
    dashed: bool = False


class Chart(msgspec.Struct, frozen=True):
    """What a chart shows."""

    title: str
    curves: tuple[Curve, ...]
    across: str
    up: str
    note: str = ""
    across_scale: Scale = "linear"
    up_scale: Scale = "linear"


def chart_svg(chart: Chart) -> str:
    """The chart as a picture."""
    return _Drawing(chart).draw()


class _Axis:
    """Maps numbers to a stretch of the picture."""

    def __init__(self, values: Sequence[float], scale: Scale, start: float, end: float, from_zero: bool) -> None:
        self.log = scale == "log" and min(values) > 0
        self.start, self.end = start, end
        placed = [self._placed(value) for value in values]
        self.low, self.high = min(placed), max(placed)
        if from_zero and not self.log:
            self.low = min(0.0, self.low)
        margin = (self.high - self.low or 1.0) * 0.05
        self.high += margin
        if not from_zero or self.log:
            self.low -= margin

    def _placed(self, value: float) -> float:
        return log10(value) if self.log else value

    def at(self, value: float) -> float:
        return self.start + (self._placed(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round numbers within the axis: powers of ten with what is between where there are few, or even steps."""
        if self.log:
            decades = range(floor(self.low), ceil(self.high) + 1)
            steps = (1, 2, 5) if self.high - self.low < 3.5 else (1,)
            return [step * 10.0**n for n in decades for step in steps if self.low <= log10(step) + n <= self.high]
        step = _round_step((self.high - self.low) / TICKS)
        return [n * step for n in range(ceil(self.low / step), floor(self.high / step) + 1)]


def _round_step(least: float) -> float:
    power = 10.0 ** floor(log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


class _Drawing:
    """Places of everything, and the parts of the drawing."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.note = wrap(chart.note, 120)
        self.legend = _rows(chart.curves)
        self.top = 52 + 17 * len(self.note) + 20 * len(self.legend)
        spots = [spot for curve in chart.curves for spot in curve.spots]
        ups = [value for spot in spots for value in (spot.y, spot.low, spot.high) if value is not None]
        self.x = _Axis([spot.x for spot in spots] or [1], chart.across_scale, LEFT, WIDTH - RIGHT, False)
        self.y = _Axis(ups or [1], chart.up_scale, HEIGHT - BOTTOM, self.top, True)

    def draw(self) -> str:
        chart = self.chart
        parts = [
            *marks.opening(WIDTH, HEIGHT, chart.title, _STYLE),
            marks.words(LEFT - 50, 32, chart.title, "head"),
            *(marks.words(LEFT - 50, 53 + 17 * at, said, "words") for at, said in enumerate(self.note)),
            *self._legend(),
            *self._axes(),
            *(part for curve in chart.curves for part in self._curve(curve)),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def _legend(self) -> list[str]:
        parts = []
        for row, curves in enumerate(self.legend):
            x, y = LEFT - 50.0, 56 + 17 * len(self.note) + 20 * row
            for curve in curves:
                parts += [self._stroke(curve, f"M{x:.1f} {y - 4:.1f}h26"), _mark(curve, x + 13, y - 4, False)]
                parts.append(marks.words(x + 34, y, curve.name, "words"))
                x += _legend_width(curve)
        return parts

    def _axes(self) -> list[str]:
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        parts = []
        for value in self.y.ticks():
            parts.append(marks.line("tick", LEFT, self.y.at(value), right, self.y.at(value)))
            parts.append(marks.words(LEFT - 8, self.y.at(value) + 4, _number(value), "soft", "end"))
        for value in self._across():
            parts.append(marks.line("tick", self.x.at(value), self.top, self.x.at(value), bottom))
            parts.append(marks.words(self.x.at(value), bottom + 18, _number(value), "soft", "middle"))
        parts.append(marks.line("axis", LEFT, bottom, right, bottom))
        parts.append(marks.words((LEFT + right) / 2, HEIGHT - 14, self.chart.across, "words", "middle"))
        turned = f'<g transform="translate(18 {(self.top + bottom) / 2:.1f}) rotate(-90)">'
        return [*parts, turned + marks.words(0, 0, self.chart.up, "words", "middle") + "</g>"]

    def _across(self) -> list[float]:
        """A tick at each value, where they are few and apart; else round numbers."""
        values = sorted({spot.x for curve in self.chart.curves for spot in curve.spots})
        places = [self.x.at(value) for value in values]
        apart = all(after - before > 30 for before, after in pairwise(places))
        return values if apart else self.x.ticks()

    def _curve(self, curve: Curve) -> list[str]:
        places = [(self.x.at(spot.x), self.y.at(spot.y)) for spot in curve.spots]
        parts = [self._stroke(curve, "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places))] if places else []
        for spot, (x, y) in zip(curve.spots, places, strict=True):
            if spot.low is not None and spot.high is not None:
                bar = f"M{x:.1f} {self.y.at(spot.low):.1f}V{self.y.at(spot.high):.1f}"
                parts.append(f'<path class="bar" d="{bar}" stroke="{_ink(curve)}"/>')
            parts.append(_mark(curve, x, y, spot.hollow))
        return parts

    def _stroke(self, curve: Curve, path: str) -> str:
        style = "curve dashed" if curve.dashed else "curve"
        return f'<path class="{style}" d="{path}" stroke="{_ink(curve)}"/>'


def _rows(curves: Sequence[Curve]) -> list[list[Curve]]:
    """The legend, in as many rows as it needs."""
    rows: list[list[Curve]] = [[]]
    for curve in curves:
        if sum(map(_legend_width, [*rows[-1], curve])) > WIDTH - LEFT and rows[-1]:
            rows.append([])
        rows[-1].append(curve)
    return rows


def _legend_width(curve: Curve) -> float:
    return 34 + len(curve.name) * LETTER + 26


def _ink(curve: Curve) -> str:
    return f"var(--m{curve.colour % marks.COLOURS})"


def _mark(curve: Curve, x: float, y: float, hollow: bool) -> str:
    paint = f'class="hollow" stroke="{_ink(curve)}"' if hollow else f'fill="{_ink(curve)}"'
    if curve.dashed:
        return f'<rect x="{x - 3.6:.1f}" y="{y - 3.6:.1f}" width="7.2" height="7.2" {paint}/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {paint}/>'


def _number(value: float) -> str:
    return f"{round(value, 10):g}" if abs(value) < 10_000 else f"{value:,.0f}".replace(",", " ")
