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
from pathlib import Path
from time import perf_counter_ns

import msgspec

from castbed import Message, Mid
from castbed.diagram import Chart, Curve, Spot, chart_svg
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


def plot(rows: Sequence[Row]) -> str:
    """A self-contained SVG of the times and of the claim, scaled to the measured time of one row visit."""
    note = "S_B ordering: time of the one step that delivers them all"
    chart = Chart("Releasing a chain of q held messages", _curves(rows), "held messages, q", "microseconds", note,
                  across_scale="log", up_scale="log")  # fmt: skip
    return chart_svg(chart)


def _curves(rows: Sequence[Row]) -> tuple[Curve, ...]:
    literal = tuple(Spot(row.q, row.literal_us) for row in rows if row.literal_us is not None)
    curves = [Curve("indexed by parent", tuple(Spot(row.q, row.indexed_us) for row in rows), colour=1)]
    if literal:
        each = literal[-1].y / claim(int(literal[-1].x))
        claimed = tuple(Spot(spot.x, claim(int(spot.x)) * each) for spot in literal)
        curves.append(Curve(f"claim, {each * 1000:.0f} ns a visit", claimed, colour=3, dashed=True))
        curves.append(Curve("the paper's table", literal, colour=5))
    return tuple(curves)


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
