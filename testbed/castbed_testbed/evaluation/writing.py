"""Leaves what an evaluation found: a CSV and a Parquet file with a row per figure, and Markdown tables to read."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from castbed_testbed.evaluation.accepting import Verdict
from castbed_testbed.evaluation.outcomes import Figure, Outcomes

CSV, PARQUET, MARKDOWN = "figures.csv", "figures.parquet", "figures.md"
HEADS = ("series", "ours", "median", "min to max", "runs", "paper", "deviation", "")
PARQUET_NEEDS = "no Parquet file: pyarrow is not installed (pip install 'castbed[spark]')"


def write_figures(directory: Path, figures: Sequence[Figure]) -> str:
    """Both files; returns what is missing on this machine, in words, or nothing."""
    rows = [_row(figure) for figure in figures]
    with (directory / CSV).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(_row(figures[0])) if figures else [])
        writer.writeheader()
        writer.writerows(rows)
    return _write_parquet(directory / PARQUET, rows)


def _row(figure: Figure) -> dict[str, Any]:
    return {
        "series": figure.series,
        "x": float(figure.x),
        "measure": figure.measure,
        "mean": figure.mean,
        "ci95": figure.ci95,
        "median": figure.median,
        "min": figure.low,
        "max": figure.high,
        "paper": figure.paper,
        "deviation": figure.deviation,
        "runs": figure.runs,
        "overloaded": figure.overloaded,
        "note": figure.note,
    }


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> str:
    try:
        pa = import_module("pyarrow")
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        return PARQUET_NEEDS
    texts, counts = ("series", "measure", "note"), ("runs", "overloaded")
    kinds = {name: pa.string() if name in texts else pa.int64() if name in counts else pa.float64() for name in rows[0]}
    parquet.write_table(pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items()))), path)
    return ""


# --- Markdown --------------------------------------------------------------------------------------------------------


def markdown(outcomes: Outcomes, judged: Sequence[Verdict]) -> str:
    """All tables, with what the paper prints beside, and the verdicts; places without runs are left out."""
    written = outcomes.evaluation.written
    parts = [f"### {written.title}", *filter(None, [written.about])]
    for table in written.tables:
        parts += [f"**{table.title}**", _table(outcomes, table.measure, outcomes.evaluation.names(table.series))]
    if judged:
        parts.append("\n".join(f"- {'holds' if v.holds else '**fails**'}: {v.name}: {v.said}" for v in judged))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def put_into(page: Path, name: str, text: str) -> None:
    """Replace what the page says between the comments for this evaluation; a page without them is left alone."""
    said = page.read_text(encoding="utf-8")
    before, begin, rest = said.partition(f"<!-- evaluation: {name} -->\n")
    _, end, after = rest.partition("<!-- end of evaluation -->\n")
    if end:
        page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def _table(outcomes: Outcomes, measure: str, names: Sequence[str]) -> str:
    label = outcomes.evaluation.written.x.label
    figures = [figure for name in names for figure in outcomes.figures(measure, name) if figure.runs]
    heads = [label, *HEADS]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---:|---|" + "---:|" * 6 + "---|"]
    lines += ["| " + " | ".join(cells(figure)) + " |" for figure in sorted(figures, key=lambda figure: figure.x)]
    return "\n".join(lines)


def cells(figure: Figure) -> tuple[str, ...]:
    """One figure as the columns of a table: where, ours, what the seeds said, what is printed."""
    ours = number(figure.mean) + (f" ± {number(figure.ci95)}" if figure.ci95 is not None else "")
    spread = f"{number(figure.low)} to {number(figure.high)}"
    deviation = "" if figure.deviation is None else f"{figure.deviation:+.0%}"
    paper = "" if figure.paper is None else f"{figure.paper:g}"
    where, seeds = (f"{figure.x:g}", figure.series), (number(figure.median), spread, str(figure.runs))
    return *where, ours, *seeds, paper, deviation, figure.note


def number(value: float | None) -> str:
    """Three digits, and all that are before the point."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
