"""Network namespaces that exist only while somebody holds them: a killed run leaves none behind.

A namespace is an open descriptor. It has no name in the file system; when the processes in it and the descriptors to it
are gone, the kernel removes it together with all its interfaces.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from castbed.errors import UnavailableError
from castbed_adapters.netns.syscalls import CLONE_NEWNET, CLONE_NEWUSER, enter_namespace, unshare

HERE = "/proc/thread-self/ns/net"
T = TypeVar("T")


class Space:
    """One network namespace: a new one, or the one behind a descriptor, which is then ours to close."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = _elsewhere(_made) if descriptor is None else descriptor

    def run(self, work: Callable[[], T]) -> T:
        """Do something inside: sockets opened there stay there."""
        return _elsewhere(lambda: _within(self.descriptor, work))

    def enter(self) -> None:
        """Move this thread (in a new process: all of it) into the namespace, for good."""
        enter_namespace(self.descriptor)

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.descriptor)


def _made() -> int:
    unshare(CLONE_NEWNET)
    return os.open(HERE, os.O_RDONLY | os.O_CLOEXEC)


def _within(descriptor: int, work: Callable[[], T]) -> T:
    enter_namespace(descriptor)
    return work()


def _elsewhere(work: Callable[[], T]) -> T:
    """Run `work` in a thread of its own, whose namespaces nobody else shares, and hand on what comes of it."""
    outcome: dict[str, Any] = {}

    def guarded() -> None:
        try:
            outcome["result"] = work()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    result: T = outcome["result"]
    return result


def become_able() -> str:
    """Make sure that this process may make namespaces, entering a user namespace if it is not root.

    Returns how ("root" or "user namespace"). Has to be called before any thread is started.
    """
    if os.geteuid() == 0:
        _try_one("root")
        return "root"
    uid, gid = os.geteuid(), os.getegid()
    try:
        unshare(CLONE_NEWUSER)
        _map_identity(uid, gid)
    except OSError as error:
        raise UnavailableError(
            f"namespaces need root, or user namespaces for everybody ({error}); run as root, or allow them "
            "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
        ) from None
    _try_one("a user namespace")
    return "user namespace"


def _map_identity(uid: int, gid: int) -> None:
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")


def _try_one(who: str) -> None:
    try:
        Space().close()
    except OSError as error:
        raise UnavailableError(f"this kernel lets {who} make no network namespace ({error})") from None
