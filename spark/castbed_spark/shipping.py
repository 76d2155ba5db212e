"""Castbed, what it needs and the plugins that are installed with it, as one file for executors that do not have them.

A zip file on their path is enough for what is pure Python. What is compiled, and what only Spark's side needs (numpy,
pyarrow, msgspec), has to be in the interpreter that the executors use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

PACKAGES = ("castbed", "castbed_plugins", "castbed_testbed", "castbed_adapters", "castbed_spark")
GROUP = "castbed"
_COMPILED = (".so", ".pyd", ".pyx")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_OF_AN_EXTRA = re.compile(r"\bextra\s*==")
_FAST = 1  # of zlib: code is sent once


def package_zip(directory: Path) -> Path:
    """Write all that can be shipped, and the metadata by which plugins are found, into a zip file in `directory`."""
    target = directory / "castbed.zip"
    files: dict[str, Path] = {}
    for package in PACKAGES:
        files.update(_of_module(package))
    for one in shipped():
        files.update(_of_distribution(one))
    with ZipFile(target, "w", ZIP_DEFLATED, compresslevel=_FAST) as archive:
        for name, file in sorted(files.items()):
            archive.write(file, name)
    return target


def shipped() -> list[Distribution]:
    """Castbed, every distribution with a plugin of it, and what these require, as far as that is pure Python."""
    waiting = [distribution("castbed"), *(one for one in distributions() if any(_plugin_modules(one)))]
    found: dict[str, Distribution] = {}
    while waiting:
        one = waiting.pop()
        if one.name not in found and not _is_compiled(one):
            found[one.name] = one
            waiting += _required(one)
    return list(found.values())


def _plugin_modules(one: Distribution) -> Iterator[str]:
    return (point.module for point in one.entry_points if point.group == GROUP)


def _required(one: Distribution) -> Iterator[Distribution]:
    """What it requires without extras, and is installed."""
    for requirement in one.requires or ():
        name = _NAME.match(requirement)
        if name is not None and not _OF_AN_EXTRA.search(requirement):
            try:
                yield distribution(name[0])
            except PackageNotFoundError:  # meant for other machines
                continue


def _is_compiled(one: Distribution) -> bool:
    return any(file.suffix in _COMPILED for file in one.files or ())


def _of_distribution(one: Distribution) -> Iterator[tuple[str, Path]]:
    """Its metadata and modules by their names on the path; those of plugins also where they are installed editable."""
    for file in one.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts and file.suffix != ".pth":
            place = Path(str(file.locate()))
            if place.is_file() and file.name != "RECORD":
                yield str(file), place
    for module in _plugin_modules(one):
        yield from _of_module(module.partition(".")[0])


def _of_module(name: str) -> Iterable[tuple[str, Path]]:
    spec = find_spec(name)
    if spec is None:
        return
    for root in spec.submodule_search_locations or ():
        for file in sorted(Path(root).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield str(Path(name) / file.relative_to(root)), file
    if not spec.submodule_search_locations and spec.origin is not None:
        yield f"{name}.py", Path(spec.origin)
