"""Runs of a sweep on many cores: worker processes that are spawned, load the plugins once, and never outlive us.

An interruption is this process's alone to handle: workers do not see it, and are ended when the results are closed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec

from castbed.errors import CastbedError
from castbed_testbed.evaluation.measured import Measuring
from castbed_testbed.sweep_run import installed, run_captured, run_metered, run_point

TASKS_PER_WORKER = 4  # handed out ahead, so that no worker waits for this process
Result = dict[str, Any]


class Task(msgspec.Struct, frozen=True):
    """One run to do; with a `directory` it leaves captures there; with `measuring` it is measured and not judged."""

    number: int
    values: dict[str, Any]
    data: dict[str, Any]
    seed: int
    directory: str | None = None
    measuring: Measuring | None = None


def carry_out(task: Task) -> Result:
    """Do the run; the result says which it was."""
    if task.measuring is not None:
        figures = run_metered(task.data, task.seed, task.measuring)
    elif task.directory is None:
        figures = run_point(task.data, task.seed)
    else:
        figures = run_captured(task.data, task.seed, Path(task.directory))
    return {"number": task.number, "point": task.values, **figures}


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def results_of(tasks: Iterable[Task], jobs: int) -> Generator[Result, None, None]:
    """The result of each task as soon as there is one. Close it early, and what is under way is given up."""
    others = set(active_children())
    waiting = iter(tasks)
    pending: set[Future[Result]] = set()
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _prepare_worker)
    finished = False
    try:
        with _interruptions_later():
            pending |= {pool.submit(carry_out, task) for task in islice(waiting, jobs * TASKS_PER_WORKER)}
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
            pending |= {pool.submit(carry_out, task) for task in islice(waiting, len(done))}
        finished = True
    except BrokenProcessPool:
        raise CastbedError("a worker process died, perhaps for want of memory; the same command continues") from None
    finally:
        if not finished:
            _end(set(active_children()) - others)
        pool.shutdown(cancel_futures=True)


def _end(workers: Iterable[Any]) -> None:
    for worker in workers:
        worker.terminate()


@contextmanager
def _interruptions_later() -> Iterator[None]:
    """Put interruptions off; processes started meanwhile inherit that for good."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare_worker() -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    installed()


def _end_with_parent() -> None:
    """A killed sweep tells its workers nothing, and they would wait for work for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
