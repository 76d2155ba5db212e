"""Cores that do not sleep: who has something to do need not wait until its core has woken up.

A core without work is put to sleep, and waking it takes longer than a small node needs for a message, above all in a
virtual machine. One process per core, of the lowest priority that there is, keeps it from that and gives way to
everybody else at once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from castbed_testbed.hosting.process import die_with_parent


@contextmanager
def cores_awake(wanted: bool = True) -> Iterator[None]:
    """As long as the context lasts, no core that this process may use sleeps, if that is wanted."""
    keepers: list[int] = []
    try:
        keepers.extend(map(_keeper, os.sched_getaffinity(0) if wanted else ()))
        yield
    finally:
        for keeper in keepers:
            with suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(keeper, 0)


def _keeper(core: int) -> int:
    child = os.fork()
    if child == 0:
        _keep_awake(core)
    return child


def _keep_awake(core: int) -> NoReturn:
    try:
        die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(0, {core})
        while True:
            pass
    finally:
        os._exit(1)  # nothing of what the parent had planned for its own end may happen here
