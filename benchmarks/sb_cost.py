"""What it costs to release a chain of q held messages under S_B ordering, against what the paper claims.

    python benchmarks/sb_cost.py [--json] [--svg FILE] [--literal-max Q] [--indexed-max Q]

The paper's table is searched from the top for each released message: 3q(q+1)/2 row visits for q rows, whatever the
shape of the thread. Visits are counted, times are measured on this machine; the indexed store has no rows to visit.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Sequence
from html import escape
from math import log10
from pathlib import Path
from time import perf_counter_ns

import msgspec

from castbed import Message, Mid
from castbed_plugins.sb import LiteralOrdering, Ordering
from castbed_plugins.sb.ordering import OrderingSteps

SMALLEST = 50
REPEATS = 5
REPEATED_BELOW_NS = 200_000_000  # longer measurements are not repeated


class Row(msgspec.Struct, frozen=True):
    """The cost of one release of q rows; literal figures are missing above --literal-max."""

    q: int
    claim_visits: int
    literal_visits: int | None
    literal_us: float | None
    indexed_us: float


def claim(q: int) -> int:
    """Row visits of the paper's table (spec, section 6)."""
    return 3 * q * (q + 1) // 2


def released(make: Callable[[], OrderingSteps], q: int) -> tuple[OrderingSteps, int]:
    """Hold a chain of q messages, then let its first one arrive: the ordering after it, and the nanoseconds it took."""
    ordering = make()
    for number in range(2, q + 2):
        ordering.receive(Message(Mid(1, number), parent=Mid(1, number - 1)))
    first = Message(Mid(1, 1))
    gc.collect()
    start = perf_counter_ns()
    deliverable = ordering.receive(first)
    took = perf_counter_ns() - start
    assert len(deliverable) == q + 1
    return ordering, took


def fastest(make: Callable[[], OrderingSteps], q: int) -> tuple[OrderingSteps, float]:
    """The fastest of a few runs, in microseconds: what disturbs a run only makes it longer."""
    ordering, best = released(make, q)
    for _ in range(REPEATS - 1 if best < REPEATED_BELOW_NS else 0):
        best = min(best, released(make, q)[1])
    return ordering, best / 1000


def measure(q: int, literal_max: int) -> Row:
    visits = literal_us = None
    if q <= literal_max:
        literal, literal_us = fastest(LiteralOrdering, q)
        assert isinstance(literal, LiteralOrdering)
        visits = literal.row_visits
    return Row(q, claim(q), visits, literal_us, fastest(Ordering, q)[1])


def table(rows: Sequence[Row]) -> str:
    """The rows for people: one release, and its cost per released message."""
    lines = [
        f"{'':>7} {'row visits':^25} {'one release (us)':^25} {'per message (us)':^21}",
        f"{'q':>7} {'claimed':>12} {'literal':>12} {'literal':>12} {'indexed':>12} {'literal':>10} {'indexed':>10}",
    ]
    for row in rows:
        visits = "-" if row.literal_visits is None else str(row.literal_visits)
        literal, each = (
            ("-", "-") if row.literal_us is None else (f"{row.literal_us:.0f}", _each(row.literal_us, row.q))
        )
        lines.append(
            f"{row.q:>7} {row.claim_visits:>12} {visits:>12} {literal:>12} {row.indexed_us:>12.0f} "
            f"{each:>10} {_each(row.indexed_us, row.q):>10}"
        )
    return "\n".join(lines)


def _each(microseconds: float, q: int) -> str:
    return f"{microseconds / (q + 1):.2f}"


# --- the plot --------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 860, 540
LEFT, RIGHT, TOP, BOTTOM = 84, 190, 84, 64
INK, FAINT, GRID = "#1f2933", "#616e7c", "#e4e7eb"
Points = list[tuple[float, float]]


class Curve(msgspec.Struct, frozen=True):
    name: str
    colour: str
    points: Points
    dashed: bool = False


class Axes:
    """Logarithmic axes around the points of all curves."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        xs, ys = zip(*(point for curve in curves for point in curve.points), strict=True)
        self.x = (log10(min(xs)), log10(max(xs)))
        self.y = (log10(min(ys)) - 0.15, log10(max(ys)) + 0.15)

    def across(self, value: float) -> float:
        return LEFT + (log10(value) - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT)

    def down(self, value: float) -> float:
        return HEIGHT - BOTTOM - (log10(value) - self.y[0]) / (self.y[1] - self.y[0]) * (HEIGHT - TOP - BOTTOM)

    def decades(self, span: tuple[float, float]) -> list[int]:
        return [10**n for n in range(-3, 12) if span[0] <= n <= span[1]]


def plot(rows: Sequence[Row]) -> str:
    """A self-contained SVG of the times and of the claim, scaled to the measured time of one row visit."""
    curves = _curves(rows)
    axes = Axes(curves)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 34, "Releasing a chain of q held messages", INK, size=19, weight=600),
        _text(LEFT, 57, "S_B ordering: time of the one step that delivers them all", FAINT),
        *_grid(axes),
        *(part for curve in curves for part in _drawn(axes, curve)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _curves(rows: Sequence[Row]) -> list[Curve]:
    literal: Points = [(row.q, row.literal_us) for row in rows if row.literal_us is not None]
    indexed: Points = [(row.q, row.indexed_us) for row in rows]
    curves = [Curve("indexed by parent", "#0b7285", indexed)]
    if literal:
        last_q, last_us = literal[-1]
        each = last_us / claim(int(last_q))
        claimed: Points = [(q, claim(int(q)) * each) for q, _ in literal]
        curves.append(Curve(f"claim, {each * 1000:.0f} ns a visit", "#868e96", claimed, dashed=True))
        curves.append(Curve("the paper's table", "#c92a2a", literal))
    return curves


def _grid(axes: Axes) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for value in axes.decades(axes.y):
        at = axes.down(value)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="{GRID}"/>')
        parts.append(_text(LEFT - 10, at + 4, _time(value), FAINT, anchor="end"))
    for value in axes.decades(axes.x):
        at = axes.across(value)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}" stroke="{GRID}"/>')
        parts.append(_text(at, bottom + 22, f"{value:,}".replace(",", " "), FAINT, anchor="middle"))
    parts.append(f'<line x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}" stroke="{FAINT}"/>')
    parts.append(_text((LEFT + right) / 2, HEIGHT - 16, "held messages, q", INK, anchor="middle"))
    return parts


def _drawn(axes: Axes, curve: Curve) -> list[str]:
    places = [(axes.across(x), axes.down(y)) for x, y in curve.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dash = ' stroke-dasharray="6 5"' if curve.dashed else ""
    parts = [f'<polyline points="{line}" fill="none" stroke="{curve.colour}" stroke-width="2.2"{dash}/>']
    if not curve.dashed:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" fill="{curve.colour}"/>' for x, y in places]
    x, y = places[-1]
    # The claim ends where the table does: its name goes below, so that neither covers the other.
    parts.append(_text(x + 12, y + (24 if curve.dashed else 4), curve.name, curve.colour, weight=600))
    return parts


def _text(x: float, y: float, text: str, colour: str, anchor: str = "start", size: int = 13, weight: int = 400) -> str:
    style = f'fill="{colour}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _time(microseconds: float) -> str:
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= scale:
            return f"{microseconds / scale:g} {unit}"
    return f"{microseconds:g} µs"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also draw the curves")
    parser.add_argument("--literal-max", type=int, default=3200, metavar="Q", help="the table is measured up to this q")
    parser.add_argument("--indexed-max", type=int, default=51200, metavar="Q", help="the index is measured up to this")
    chosen = parser.parse_args(arguments)
    if chosen.indexed_max < 2 * SMALLEST:
        parser.error(f"--indexed-max must be at least {2 * SMALLEST}")
    rows = []
    q = SMALLEST
    while q <= chosen.indexed_max:
        print(f"q = {q}", file=sys.stderr)
        rows.append(measure(q, chosen.literal_max))
        q *= 2
    print(json.dumps(msgspec.to_builtins(rows), indent=2) if chosen.json else table(rows))
    if chosen.svg:
        chosen.svg.write_text(plot(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
