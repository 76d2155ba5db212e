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
from castbed_testbed.explore.reported import FILE, read_reported


def findings_command(corpus: Path, out: Path, figures: Path | None, explored: Path | None) -> int:
    if not corpus.is_dir():
        raise ConfigurationError("CORPUS", f"there is no folder {corpus}")
    pictures_in = figures or out / "figures"
    record = explored or out / "explored.json"
    way = os.path.relpath(pictures_in, out).replace(os.sep, "/")
    pages, pictures = findings(
        corpus, read_explored(record), load_registry(), way, read_reported(record.with_name(FILE))
    )
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
