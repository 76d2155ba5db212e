"""The installed Castbed as one file, for executors that do not have it.

Everything here is pure Python, so a zip file on their path is enough. What is compiled (numpy, pyarrow, msgspec) has to
be in the interpreter that the executors use.
"""

from __future__ import annotations

from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

PACKAGES = ("castbed", "castbed_plugins", "castbed_testbed", "castbed_adapters", "castbed_spark")


def package_zip(directory: Path) -> Path:
    """Write the packages, and the metadata by which plugins are found, into a zip file in `directory`."""
    target = directory / "castbed.zip"
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            _add_package(archive, package)
        for file in distribution("castbed").files or ():
            if file.parts[0].endswith(".dist-info") and file.name != "RECORD":
                archive.write(str(file.locate()), str(file))
    return target


def _add_package(archive: ZipFile, package: str) -> None:
    spec = find_spec(package)
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        for file in sorted(Path(root).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, Path(package) / file.relative_to(root))
