"""How commands speak: words to stdout, progress to stderr, colour only where a terminal is."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


def out() -> Console:
    """For data; honours NO_COLOR and, away from a terminal, prints plain text without wrapping."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200, soft_wrap=True)
    return console


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=2))


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr while something long runs; nothing where stderr is no terminal.

    It appears with the first progress: its thread must not be there while a run forks and makes namespaces.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=total)

    def show(done: int) -> None:
        if not bar.live.is_started:
            bar.start()
        bar.update(task, completed=done)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()
