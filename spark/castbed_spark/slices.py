"""Which files there are, which run each belongs to, and where large ones are cut.

A *slice* is a stretch of one capture between two block boundaries: one partition of a DataFrame. A run is named after
its directory; where two directories have the same name, as much of their paths is added as tells them apart.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from glob import glob, has_magic
from itertools import pairwise
from pathlib import Path

import msgspec

from castbed.capture import SUFFIX
from castbed.errors import ConfigurationError
from castbed_spark.chains import CUT_BYTES, Chains
from castbed_spark.heads import Head, read_head

SLICE_BYTES = 128 * 2**20  # at most; memory does not depend on it, but a lost task is read again
SLICE_BYTES_MIN = 16 * 2**20  # a partition costs some 50 ms to start, so smaller ones gain nothing
BUNDLE_FILES_MAX = 1000
SEARCH_BYTES = 2 * 2**20
CAPTURES = "captures"
Paths = str | Sequence[str]


class Slice(msgspec.Struct, frozen=True):
    """What one task reads. `whole` says that it is all of the file, `ignored` that this is not a capture of Castbed."""

    path: str
    run: str
    start: int
    end: int
    whole: bool
    ignored: bool = False


def capture_files(paths: Paths) -> list[Path]:
    """All captures at these paths: files, run directories, directories of runs, sweeps, or globs of these.

    A string may hold several, separated by commas. What exists under a name is meant by it, whatever is in the name.
    """
    found: dict[Path, None] = {}
    for path in [paths] if isinstance(paths, str) else paths:
        for place in _places(path):
            found.update(dict.fromkeys(_files_at(place)))
    if not found:
        raise ConfigurationError(paths if isinstance(paths, str) else ", ".join(paths), f"no captures (*{SUFFIX}) here")
    return list(found)


def _places(path: str) -> list[Path]:
    path = path.strip().removeprefix("file://")
    if os.path.exists(path):
        return [Path(path)]
    if "," in path:
        return [place for part in path.split(",") if part.strip() for place in _places(part)]
    return [Path(place) for place in sorted(glob(path, recursive=True))] if has_magic(path) else []


def _files_at(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    nearest = place / CAPTURES if (place / CAPTURES).is_dir() else place
    for where, pattern in ((nearest, ""), (place, f"*/{CAPTURES}/"), (place, f"*/*/{CAPTURES}/")):
        files = sorted(where.glob(f"{pattern}*{SUFFIX}"))
        if files:
            return [file for file in files if not file.is_symlink() and not _through_a_link(file, place)]
    return []


def _through_a_link(file: Path, place: Path) -> bool:
    """Whether the run's directory, or that of its sweep, is a second name of another, as `latest` is."""
    run = run_directory(file)
    return any(one.is_symlink() for one in (run, *run.parents) if place in one.parents)


def run_directory(file: Path) -> Path:
    return file.parent.parent if file.parent.name == CAPTURES else file.parent


def run_names(files: list[Path]) -> dict[Path, str]:
    """A name for the run of each file: the shortest end of its directory's path that no other directory shares."""
    directories = {file: run_directory(file.resolve()) for file in files}
    names = _distinct(set(directories.values()))
    return {file: names[directory] for file, directory in directories.items()}


def _distinct(directories: set[Path]) -> dict[Path, str]:
    names: dict[Path, str] = {}
    left, length = directories, 1
    while left:
        ends = Counter(directory.parts[-length:] for directory in left)
        alone = {one for one in left if ends[one.parts[-length:]] == 1 or len(one.parts) < length}
        names |= {one: "/".join(one.parts[-length:]) for one in alone}
        left, length = left - alone, length + 1
    return names


def slice_bytes_for(files: list[Path]) -> int:
    """A size of slices that gives every core something to do."""
    total = sum(file.stat().st_size for file in files)
    return min(max(total // (os.cpu_count() or 1) + 1, SLICE_BYTES_MIN), SLICE_BYTES)


def bundled(slices: list[Slice], slice_bytes: int) -> list[list[Slice]]:
    """Small captures are read together: a sweep leaves thousands of them."""
    bundles: list[list[Slice]] = []
    room = 0
    for one in slices:
        size = one.end - one.start
        if size > room or len(bundles[-1]) >= BUNDLE_FILES_MAX:
            bundles.append([])
            room = slice_bytes
        bundles[-1].append(one)
        room -= size
    return bundles


def slices_of(file: Path, run: str, slice_bytes: int) -> list[Slice]:
    """The slices of one capture; one that is ignored for a file that is empty or not of Castbed."""
    size = file.stat().st_size
    head = read_head(file) if size else None
    if head is None:
        return [Slice(str(file), run, 0, size, whole=True, ignored=True)]
    cuts = [0, *(_cuts(file, size, head, slice_bytes) if size > slice_bytes else []), size]
    whole = len(cuts) == 2
    return [Slice(str(file), run, start, end, whole) for start, end in pairwise(cuts)]


def _cuts(file: Path, size: int, head: Head, slice_bytes: int) -> list[int]:
    chains = Chains(head.mark, len(head.interfaces))
    cuts: list[int] = []
    parts = -(-size // slice_bytes)
    for part in range(1, parts):
        cut = _cut(file, max(part * size // parts, cuts[-1] + 1 if cuts else 0), size, chains)
        if cut is None:
            break
        cuts.append(cut)
    return cuts


def _cut(file: Path, at: int, size: int, chains: Chains) -> int | None:
    """The first sound block boundary from `at` on; None when none can be proven."""
    with file.open("rb") as opened:
        while at < size - CUT_BYTES:
            opened.seek(at)
            found = chains.cut_after(opened.read(SEARCH_BYTES + CUT_BYTES), 0)
            if found is not None:
                return at + found
            at += SEARCH_BYTES
    return None
