"""The temporary directory of a run on real networks, and those that dead runs left.

Each holds a lock file that all processes of its run have locked: the kernel unlocks it with the last of them. Nothing
else of a run can be left: namespaces, their interfaces and sockets are held by descriptors and vanish with processes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "castbed-run-"
LOCK = "lock"
UNLOCKED_S_MAX = 60.0  # how long a run may take from making its directory to locking it


class RunDirectory:
    """A directory that counts as in use until it is closed, or this process and all that it forks are gone."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        fresh = self.path / "unlocked"
        self._lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        fresh.rename(self.path / LOCK)  # only now, so that nobody ever sees it unlocked

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_leftovers() -> list[Path]:
    """Remove the directories of runs none of whose processes is left; returns them."""
    removed = []
    for directory in _ours():
        if _is_dead(directory):
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(directory)
    return removed


def leftovers() -> list[Path]:
    """The directories that `remove_leftovers` would remove."""
    return [directory for directory in _ours() if _is_dead(directory)]


def _ours() -> Iterator[Path]:
    for directory in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        try:
            found = directory.lstat()
        except FileNotFoundError:
            continue  # its run has just removed it
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            yield directory


def _is_dead(directory: Path) -> bool:
    try:
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return _age_s(directory) > UNLOCKED_S_MAX
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _age_s(directory: Path) -> float:
    try:
        return time.time() - directory.stat().st_mtime
    except FileNotFoundError:
        return 0.0  # its run has just removed it
