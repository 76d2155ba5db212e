"""One directory for all that Spark and Java leave on the disk while a process uses them.

It goes when the Java process ends (the wrapper in `java` sees to that), because until then something may still be
written there; so it goes however Python ended. If Java never came, it goes with Python. What is left over when both
were killed at once is swept by the next process that needs such a directory: nobody holds its lock.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "castbed-spark-"
JAVA_RUNS = "java-runs"  # a file that is there while a Java process will remove the directory
_OWNER = "owner"
_owned: dict[Path, int] = {}  # files that stay open, and so locked, for as long as this process lives


def scratch() -> Path:
    """The directory of this process; a new one after a Java process took the last one with it."""
    last = next(reversed(_owned), None)
    if last is not None and last.is_dir():
        return last
    sweep(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    _owned[directory] = _locked(directory / _OWNER, os.O_CREAT)
    atexit.register(_leave, directory)
    return directory


def sweep(place: Path) -> None:
    """Remove the directories at `place` whose processes are gone."""
    for directory in place.glob(PREFIX + "*"):
        with suppress(OSError):  # it is in use, of another user, not ready yet, or gone
            os.close(_locked(directory / _OWNER))
            shutil.rmtree(directory, ignore_errors=True)


def _locked(file: Path, how: int = 0) -> int:
    """The file, opened and locked; OSError when another process has locked it."""
    opened = os.open(file, os.O_RDWR | how, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise
    return opened


def _leave(directory: Path) -> None:
    if not (directory / JAVA_RUNS).exists():
        shutil.rmtree(directory, ignore_errors=True)
