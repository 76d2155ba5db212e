"""Writes the project of a new plugin: a small protocol that works, with tests that pass, to be changed from there.

A project is there completely or not at all: it is written beside its place and then renamed.
"""

from __future__ import annotations

import keyword
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from castbed.errors import ConfigurationError

NAME_CHARACTERS_MAX = 40  # so that no generated line grows too long
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_PLACEHOLDER = re.compile(r"{{(\w+)}}")
_DIRECTORY_MODE = 0o755
_OURS = frozenset({"castbed", "castbed_plugins", "castbed_testbed", "castbed_adapters", "castbed_spark"})

_FILES: Mapping[str, str] = {
    "pyproject.toml.in": "pyproject.toml",
    "init.py.in": "src/{{package}}/__init__.py",
    "py.typed.in": "src/{{package}}/py.typed",
    "test.py.in": "tests/test_{{package}}.py",
    "experiment.toml.in": "experiment.toml",
    "tox.ini.in": "tox.ini",
    "README.md.in": "README.md",
    "gitignore.in": ".gitignore",
}
"""Each template, and where the project has it."""


def write_plugin(name: str, directory: Path) -> list[Path]:
    """Write the project of plugin `name` as `directory`, which is new or empty; returns the files."""
    _check_name(name)
    place = directory.absolute()
    _check_free(place, directory)
    contents = _contents({"name": name, "package": _package(name)})
    try:
        _write_all(place, contents)
    except OSError as error:
        raise ConfigurationError(str(directory), f"cannot be written ({error.strerror})") from error
    return [directory / path for path in contents]


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > NAME_CHARACTERS_MAX:
        rule = f"use up to {NAME_CHARACTERS_MAX} lower-case letters, digits and single hyphens, a letter first"
        raise ConfigurationError("NAME", f"{name!r} cannot name a plugin: {rule}")
    package = _package(name)
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or package in _OURS:
        raise ConfigurationError("NAME", f"{name!r} cannot name a plugin: Python would import another {package!r}")


def _package(name: str) -> str:
    return name.replace("-", "_")


def _check_free(place: Path, directory: Path) -> None:
    if place.is_dir():
        if any(place.iterdir()):
            raise ConfigurationError(str(directory), "this directory is not empty")
    elif place.exists():
        raise ConfigurationError(str(directory), "this is a file")
    elif not place.parent.is_dir():
        raise ConfigurationError(str(directory), "there is no directory to put it in")


def _contents(values: Mapping[str, str]) -> dict[str, str]:
    """The text of each file of the project, by its path."""
    templates = files("castbed_testbed") / "templates" / "plugin"
    return {
        _filled(path, values): _filled((templates / template).read_text(encoding="utf-8"), values)
        for template, path in _FILES.items()
    }


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def _write_all(place: Path, contents: Mapping[str, str]) -> None:
    beside = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    try:
        beside.chmod(_DIRECTORY_MODE)
        for path, text in contents.items():
            (beside / path).parent.mkdir(parents=True, exist_ok=True)
            (beside / path).write_text(text, encoding="utf-8")
        beside.replace(place)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
