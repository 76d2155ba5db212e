"""Which runs a report is about, and where their captures are."""

from __future__ import annotations

from pathlib import Path

import msgspec

from castbed.errors import ConfigurationError
from castbed_spark.slices import capture_files, run_directory, run_names

RUNS_MAX = 12  # side by side: more curves cannot be told apart


class Source(msgspec.Struct, frozen=True):
    """Where a run is: its name in the tables, its directory, and its captures."""

    name: str
    directory: Path
    captures: list[Path]


def find_sources(paths: list[str]) -> list[Source]:
    """The runs at these paths, in their order."""
    files = list({file.resolve(): file for path in paths for file in capture_files(path)}.values())
    found: dict[Path, list[Path]] = {}
    for file in files:
        found.setdefault(run_directory(file), []).append(file)
    if len(found) > RUNS_MAX:
        raise ConfigurationError(
            " ".join(paths), f"{len(found)} runs; a page compares at most {RUNS_MAX} (see docs/spark.md for tables)"
        )
    names = run_names(files)
    return [Source(names[captures[0]], directory, captures) for directory, captures in found.items()]
