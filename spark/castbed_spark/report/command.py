"""`castbed report`: from run directories to one page. The command line finds `report` here by its name.

Tables are made first and everything else is computed from them; they stay beside the run, or go when the page is made.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from castbed.errors import ConfigurationError
from castbed.registry import load_registry
from castbed_spark.report.document import Document, Run
from castbed_spark.report.page import page
from castbed_spark.report.sources import Source, find_sources

PAGE = "report.html"
TABLES = "tables"
APPLICATION = "castbed report"
SMALL_BYTES = 64 * 2**20
SMALL = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""For captures up to SMALL_BYTES: compiling code for so few rows takes longer than running it uncompiled."""

Progress = Callable[[str], None]


class Wanted(msgspec.Struct, frozen=True):
    """What to report on, and where to. `tables` None: beside a single run, and nowhere for several."""

    paths: list[str]
    out: Path | None = None
    tables: bool | None = None
    messages: list[str] = []
    master: str = ""


class Made(msgspec.Struct, frozen=True):
    """What came of it."""

    document: Document
    page: Path
    tables: Path | None

    @property
    def violated(self) -> bool:
        return any(not one.holds for run in self.document.runs for one in run.properties)


def report(wanted: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Make a report; takes the fields of `Wanted` and returns those of `Made`, as plain values."""
    made = make_report(msgspec.convert(wanted, Wanted), progress)
    return {**msgspec.to_builtins(made, enc_hook=str), "violated": made.violated}


def make_report(wanted: Wanted, progress: Progress) -> Made:
    """Make the tables and the page."""
    sources = find_sources(wanted.paths)
    target = _page_path(wanted, sources)
    keep = len(sources) == 1 if wanted.tables is None else wanted.tables
    kept = _tables_path(target, sources) if keep else None
    with _session(wanted.master, sources, progress) as spark, _folder(kept) as folder:
        runs = _filled(spark, sources, folder, wanted.messages, progress)
    document = Document(_title(runs), f"castbed {version('castbed')}", time.strftime("%Y-%m-%d"), runs)
    _write(target, page(document))
    return Made(document, target, kept)


def _page_path(wanted: Wanted, sources: list[Source]) -> Path:
    if wanted.out is not None:
        return wanted.out / PAGE if wanted.out.is_dir() else wanted.out
    return sources[0].directory / PAGE if len(sources) == 1 else Path(PAGE)


def _tables_path(target: Path, sources: list[Source]) -> Path:
    return (sources[0].directory if len(sources) == 1 else target.parent) / TABLES


@contextmanager
def _session(master: str, sources: list[Source], progress: Progress) -> Iterator[Any]:
    """A session, which ends with the report unless it was there before."""
    from castbed_spark.session import LOCAL, start_session

    progress("starting Spark")
    size = sum(file.stat().st_size for source in sources for file in source.captures)
    spark = start_session(master or LOCAL, APPLICATION, {} if master or size > SMALL_BYTES else SMALL)
    try:
        yield spark
    finally:
        if spark.sparkContext.appName == APPLICATION:
            spark.stop()


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """Where the tables go; a folder that nobody wants to keep is removed."""
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="castbed-tables-") as folder:
        yield Path(folder)


def _filled(spark: Any, sources: list[Source], folder: Path, messages: list[str], progress: Progress) -> list[Run]:
    from castbed_spark.report.filling import filled
    from castbed_spark.store import read_stored, write_tables

    progress("reading captures, writing tables")
    paths = [str(file) for source in sources for file in source.captures]
    write_tables(spark, paths, folder)
    return filled(lambda name: read_stored(spark, folder, name), sources, messages, load_registry(), progress)


def _title(runs: list[Run]) -> str:
    if len(runs) == 1:
        return runs[0].name
    protocols = dict.fromkeys(f"{run.protocol} ({run.variant})" for run in runs)
    return " beside ".join(protocols)


def _write(target: Path, html: str) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(html, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(str(target), f"cannot be written ({error.strerror})") from None
