"""Which files there are, which run each belongs to, and where large ones are cut.

A *slice* is a stretch of one capture between two block boundaries: one partition of a DataFrame. A run is named after
its directory; where two directories have the same name, as much of their paths is added as tells them apart.
"""

from __future__ import annotations

import os
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


class Slice(msgspec.Struct, frozen=True):
    """What one task reads. `whole` says that it is all of the file."""

    path: str
    run: str
    start: int
    end: int
    whole: bool


def capture_files(paths: str) -> list[Path]:
    """All captures at comma-separated paths: files, run directories, directories of runs, or globs of these."""
    found: dict[Path, None] = {}
    for path in filter(None, (part.strip() for part in paths.split(","))):
        path = path.removeprefix("file://")
        places = sorted(glob(path, recursive=True)) if has_magic(path) else [path]
        for place in places:
            found.update(dict.fromkeys(_files_at(Path(place))))
    if not found:
        raise ConfigurationError(paths, f"no captures (*{SUFFIX}) here")
    return list(found)


def _files_at(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    nearest = place / CAPTURES if (place / CAPTURES).is_dir() else place
    files = sorted(nearest.glob("*" + SUFFIX)) or sorted(place.glob(f"*/{CAPTURES}/*{SUFFIX}"))
    return [file for file in files if not file.is_symlink() and not _through_a_link(file, place)]


def _through_a_link(file: Path, place: Path) -> bool:
    """Whether the run's directory is a second name of another, as `latest` is."""
    run = run_directory(file)
    return run != place and run.is_symlink()


def run_directory(file: Path) -> Path:
    return file.parent.parent if file.parent.name == CAPTURES else file.parent


def run_names(files: list[Path]) -> dict[Path, str]:
    """A name for the run of each file: the shortest end of its directory's path that no other directory shares."""
    directories = {run_directory(file.resolve()) for file in files}
    names = {directory: _distinct(directory, directories - {directory}) for directory in directories}
    return {file: names[run_directory(file.resolve())] for file in files}


def _distinct(directory: Path, others: set[Path]) -> str:
    parts = directory.parts
    for length in range(1, len(parts) + 1):
        if all(other.parts[-length:] != parts[-length:] for other in others):
            return "/".join(parts[-length:])
    return str(directory)


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
    """The slices of one capture; none for a file that is empty or not of Castbed."""
    size = file.stat().st_size
    head = read_head(file) if size else None
    if head is None:
        return []
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
