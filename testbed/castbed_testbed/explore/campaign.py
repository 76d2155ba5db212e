"""A whole exploration: batches until the budget is used up, on one core or many, and one report.

Every process explores batches and shrinks what they found. A budget in seconds includes the shrinking; it begins when
the processes are ready.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import count
from multiprocessing import get_context, parent_process
from threading import Thread

import msgspec

from castbed.errors import ConfigurationError
from castbed.registry import Registry, load_registry
from castbed.units import Duration, convert
from castbed_testbed.explore.collecting import Collected
from castbed_testbed.explore.engine import (
    BatchResult,
    Finding,
    Found,
    Request,
    batch_size,
    explore_batch,
    may_end_early,
    shrink_found,
)

AHEAD = 3  # batches per process that are under way or wait, so that none is idle
EXPLORING = 0.75  # of a budget in seconds; the rest is for shrinking
SECOND = 10**9

Progress = Callable[[int, int], None]
"""Told how many schedules were explored and how many kinds found."""


class Budget(msgspec.Struct, frozen=True):
    """How much to explore: so many schedules, or so many seconds; `first` is the batch to begin with."""

    schedules: int = 0
    seconds: float = 0.0
    first: int = 0

    def sizes(self, strategy: str) -> Iterator[tuple[int, int]]:
        """Number and size of each batch; where a batch may have fewer, there is no last one."""
        size = batch_size(strategy)
        if not self.schedules or may_end_early(strategy):
            size = min(size, self.schedules or size)
            yield from ((number, size) for number in count(self.first))
            return
        for number in range((self.schedules + size - 1) // size):
            yield self.first + number, min(size, self.schedules - number * size)


class Report(msgspec.Struct, frozen=True):
    """What an exploration found, on so many networks; of the `exhausted` ones no schedule is left."""

    request: Request
    schedules: int
    wall_s: float
    findings: tuple[Finding, ...]
    networks: int = 0
    exhausted: int = 0


def parse_budget(text: str) -> Budget:
    """`20000` schedules, or `300s`."""
    if text.isascii() and text.isdigit() and int(text):
        return Budget(schedules=int(text))
    try:
        seconds = convert(text, Duration, "--budget") / SECOND
    except ConfigurationError:
        seconds = 0.0
    if seconds <= 0:
        raise ConfigurationError("--budget", f"{text!r} is neither a number of schedules nor a time like 300s")
    return Budget(seconds=seconds)


def explore(
    request: Request,
    budget: Budget,
    registry: Registry | None = None,
    jobs: int = 1,
    progress: Progress = lambda schedules, kinds: None,
    stop_at_first: bool = False,
) -> Report:
    """Explore until the budget is used up (or something is found, if that is enough).

    More than one process can use only what is installed; with a registry of one's own there is one.
    """
    collected = Collected()
    with _workers(request, registry, jobs) as workers:
        start = time.monotonic()
        ends = start + budget.seconds if budget.seconds else float("inf")
        pending = workers.batches(budget, start + budget.seconds * EXPLORING if budget.seconds else ends)
        for result in pending:
            for found in collected.take(result):
                workers.shrink(found, ends)
            for findings in workers.shrunk(wait=False):
                collected.add(findings)
            progress(collected.schedules, len(collected.findings))
            if stop_at_first and collected.findings:
                break
            if 0 < budget.schedules <= collected.schedules:
                break
        pending.close()
        for findings in workers.shrunk(wait=True):
            collected.add(findings)
        wall_s = time.monotonic() - start
    smallest = tuple(collected.sorted())
    return Report(request, collected.schedules, wall_s, smallest, collected.networks, collected.exhausted)


class _Alone:
    """Everything in this process, one after the other."""

    def __init__(self, request: Request, registry: Registry) -> None:
        self.request = request
        self.registry = registry
        self.ready: list[tuple[Finding, ...]] = []

    def batches(self, budget: Budget, ends: float) -> Generator[BatchResult, None, None]:
        for number, size in budget.sizes(self.request.strategy):
            if time.monotonic() >= ends:
                return
            yield explore_batch(self.registry, self.request, number, size, ends)

    def shrink(self, found: Found, ends: float) -> None:
        self.ready.append(shrink_found(self.registry, self.request, found, ends))

    def shrunk(self, wait: bool) -> list[tuple[Finding, ...]]:  # noqa: ARG002 (as the other one)
        ready, self.ready = self.ready, []
        return ready


class _Together:
    """Batches and shrinking in processes of their own; results in the order of asking."""

    def __init__(self, request: Request, pool: ProcessPoolExecutor, jobs: int) -> None:
        self.request = request
        self.pool = pool
        self.jobs = jobs
        self.shrinking: list[Future[tuple[Finding, ...]]] = []

    def batches(self, budget: Budget, ends: float) -> Generator[BatchResult, None, None]:
        sizes = budget.sizes(self.request.strategy)
        pending: list[Future[BatchResult]] = []
        try:
            while True:
                while len(pending) < self.jobs * AHEAD and time.monotonic() < ends:
                    following = next(sizes, None)
                    if following is None:
                        break
                    pending.append(self.pool.submit(_explore, self.request, *following, ends))
                if not pending:
                    return
                yield pending.pop(0).result()
        finally:  # nobody wants the others
            for future in pending:
                future.cancel()

    def shrink(self, found: Found, ends: float) -> None:
        self.shrinking.append(self.pool.submit(_shrink, self.request, found, ends))

    def shrunk(self, wait: bool) -> list[tuple[Finding, ...]]:
        ready: list[tuple[Finding, ...]] = []
        while self.shrinking and (wait or self.shrinking[0].done()):
            ready.append(self.shrinking.pop(0).result())
        return ready


@contextmanager
def _workers(request: Request, registry: Registry | None, jobs: int) -> Iterator[_Alone | _Together]:
    if jobs == 1 or registry is not None:
        yield _Alone(request, registry or load_registry())
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _prepare_worker)
    try:
        for ready in [pool.submit(_is_ready) for _ in range(jobs)]:
            ready.result()
        yield _Together(request, pool, jobs)
    finally:
        pool.shutdown(cancel_futures=True)


_registry: list[Registry] = []


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interruption is the parent's to handle
    Thread(target=_end_with_parent, daemon=True).start()
    _registry.append(load_registry())


def _is_ready() -> bool:
    return bool(_registry)


def _end_with_parent() -> None:
    """A killed exploration tells its workers nothing, and they would wait for work for ever."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _explore(request: Request, number: int, size: int, ends: float) -> BatchResult:
    return explore_batch(_registry[0], request, number, size, ends)


def _shrink(request: Request, found: Found, ends: float) -> tuple[Finding, ...]:
    return shrink_found(_registry[0], request, found, ends)
