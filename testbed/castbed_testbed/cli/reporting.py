"""`report`: one page on one run or several. Spark has a room of its own: its part is found by name, when called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from castbed_testbed.cli import console
from castbed_testbed.runner import LATEST, RUNS

MAKER = "castbed_spark.report.command:report"
"""Takes what is wanted and a function that is told what it is doing; returns the document and where it left what."""


def report_command(
    paths: list[Path], out: Path | None, tables: bool | None, messages: list[str], master: str | None, as_json: bool
) -> int:
    wanted = {
        "paths": [str(path) for path in paths] or [str(Path(RUNS) / LATEST)],
        "out": out,
        "tables": tables,
        "messages": messages,
        "master": master or "",
    }
    made = _maker()(wanted, lambda doing: print(f"castbed report: {doing}", file=sys.stderr))
    if as_json:
        console.print_json(made)
    else:
        _tell(made)
    return 1 if made["violated"] else 0


def _maker() -> Callable[[dict[str, Any], Callable[[str], None]], dict[str, Any]]:
    module, _, name = MAKER.partition(":")
    maker: Callable[[dict[str, Any], Callable[[str], None]], dict[str, Any]]
    maker = getattr(importlib.import_module(module), name)
    return maker


def _tell(made: dict[str, Any]) -> None:
    screen = console.out()
    for run in made["document"]["runs"]:
        screen.print(f"[bold]{run['name']}[/bold]: {run['protocol']} ({run['variant']}) on {run['transport']}")
        for one in run["properties"]:
            screen.print(_verdict(one))
        for problem in run["problems"]:
            screen.print(f"note: {problem}", markup=False)
    screen.print(f"Report: [bold]{made['page']}[/bold]", soft_wrap=True)
    if made["tables"] is not None:
        screen.print(f"Tables: [bold]{made['tables']}[/bold]", soft_wrap=True)


def _verdict(one: dict[str, Any]) -> str:
    if one["holds"]:
        return f"[green]✓[/green] {one['name']}"
    count = one["violations"]
    return f"[red]✗[/red] [bold]{one['name']}[/bold]: {count} violation{'s' if count != 1 else ''}"
