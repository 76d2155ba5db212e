"""`findings`: writes a page per protocol about what the scripts of a corpus show."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from castbed.errors import ConfigurationError
from castbed.registry import load_registry
from castbed_testbed.cli import console
from castbed_testbed.explore.explored import read_explored
from castbed_testbed.explore.findings import findings


def findings_command(corpus: Path, out: Path, figures: Path | None, explored: Path | None) -> int:
    if not corpus.is_dir():
        raise ConfigurationError("CORPUS", f"there is no folder {corpus}")
    pictures_in = figures or out / "figures"
    record = read_explored(explored or out / "explored.json")
    way = os.path.relpath(pictures_in, out).replace(os.sep, "/")
    pages, pictures = findings(corpus, record, load_registry(), way)
    _write(out, pages)
    _write(pictures_in, pictures)
    for name in pages:
        console.out().print(str(out / name), markup=False)
    return 0


def _write(folder: Path, files: Mapping[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(str(folder), f"cannot be written ({error.strerror})") from None
