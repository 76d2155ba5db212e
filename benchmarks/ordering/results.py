"""Figures of all rounds as rows and as a table: medians, quartiles, and ratios formed within each round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ordering.cases import Case, Outcome

Rounds = Mapping[Case, Mapping[str, Sequence[Outcome]]]
"""For each case and each system, by name, what came of each round."""

Row = dict[str, Any]
OURS, BETTER = "castbed", "the better peer"
THROUGHPUT = {"messages/s": "messages_per_s", "CPU us/message": "cpu_us_per_message"}
LATENCY = {"p50 us": "p50_us", "p90 us": "p90_us", "p99 us": "p99_us", "CPU us/message": "cpu_us_per_message"}
BEST: Mapping[str, Callable[[Sequence[float]], float]] = {"messages/s": max, "p50 us": min}


def rows(rounds: Rounds) -> list[Row]:
    """Per case, figure and peer: both sides, and how many times the peer's figure ours is."""
    return [row for case, systems in rounds.items() for row in _case_rows(case, systems)]


def _case_rows(case: Case, systems: Mapping[str, Sequence[Outcome]]) -> Iterator[Row]:
    for unit, field in (LATENCY if case.rate else THROUGHPUT).items():
        values = {name: [getattr(one, field) for one in outcomes] for name, outcomes in systems.items()}
        ours = values.pop(OURS, None)
        if len(values) > 1 and unit in BEST:
            values[BETTER] = [BEST[unit](row) for row in zip(*values.values(), strict=True)]
        for peer, theirs in values.items() if values else [("", None)]:
            yield _row(case, unit, ours, peer, theirs)


def _row(case: Case, unit: str, ours: Sequence[float] | None, peer: str, theirs: Sequence[float] | None) -> Row:
    row: Row = {"name": case.name, "unit": unit, "peer_name": peer}
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)] if ours and theirs else None
    for key, values in (("ours", ours), ("peer", theirs), ("ratio", ratios)):
        row[key] = statistics.median(values) if values else None
        row[f"{key}_quartiles"] = quartiles(values) if values else None
    return row


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third; of a single value, that value."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, method="inclusive")
    return first, third


def table(found: Sequence[Row]) -> Iterator[str]:
    """The rows for people: a line per case and system, with quartiles of the figure that counts."""
    for figures, header in ((THROUGHPUT, _header(THROUGHPUT)), (LATENCY, _header(LATENCY))):
        main = next(iter(figures))
        counted = [row for row in found if row["unit"] == main]
        if counted:
            yield from ("", header)
        before = ""
        for row in counted:
            others = [_same(found, row, unit) for unit in figures if unit != main]
            if row["ours"] is not None and row["name"] != before:
                yield _line(row, others, "ours", OURS)
            if row["peer"] is not None:
                yield _line(row, others, "peer", row["peer_name"])
            before = row["name"]


def _header(figures: Mapping[str, str]) -> str:
    main, *others = figures
    columns = "".join(f"{unit:>16}" for unit in others)
    return f"{'case':26}{'system':17}{f'{main} (quartiles)':>27}  {'castbed to this':20}{columns}"


def _same(found: Sequence[Row], row: Row, unit: str) -> Row | None:
    """Another figure of the same case and peer."""
    same = (one for one in found if one["unit"] == unit and all(one[key] == row[key] for key in ("name", "peer_name")))
    return next(same, None)


def _line(row: Row, others: Sequence[Row | None], side: str, system: str) -> str:
    ratio = _figure(row, "ratio", "{:.2f}".format) if side == "peer" and row["ratio"] is not None else ""
    columns = "".join(f"{_number(one[side]) if one else '':>16}" for one in others)
    return f"{row['name']:26}{system:17}{_figure(row, side, _number):>27}  {ratio:20}{columns}".rstrip()


def _figure(row: Row, key: str, write: Callable[[float], str]) -> str:
    first, third = row[f"{key}_quartiles"]
    return f"{write(row[key])} ({write(first)}-{write(third)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
