"""Runs a function once per task on the executors of a master; results come back one by one, as they are done.

Each task is a Spark job of its own, because Spark hands out the results of a job only when all of it is done. So
whoever records results loses nothing but what is under way when the driver ends.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from castbed.errors import CastbedError
from castbed_spark.session import is_local, start_session

if TYPE_CHECKING:
    from pyspark import SparkContext

JOBS_PER_CORE = 2  # handed out ahead, so that no core waits for the driver
JOBS_MAX = 1000  # each is a thread of the driver
PATIENCE_SECONDS = 20.0  # without any result; then it is said if nobody is there to work

_RAISED = re.compile(r"Traceback \(.*?\n(?!\s)([^\n]+)", re.DOTALL)  # the line behind the traceback

Task = TypeVar("Task")
Result = TypeVar("Result")


def results_on(
    master: str, function: Callable[[Task], Result], tasks: Iterable[Task], jobs: int | None = None
) -> Generator[Result, None, None]:
    """The result of each task as soon as there is one; at most `jobs` at a time.

    `function` is found on the executors by its name. Close the generator early, and what is under way is given up.
    """
    mine = not _has_session()
    spark = start_session(master, "castbed sweep")
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PythonException

    context, waiting = spark.sparkContext, iter(tasks)
    at_once = jobs or min(JOBS_PER_CORE * context.defaultParallelism, JOBS_MAX)
    pool = ThreadPoolExecutor(at_once)
    run = partial(_on_executor, context, f"castbed-sweep-{uuid4()}", function)
    try:
        pending = {pool.submit(run, task) for task in islice(waiting, at_once)}
        while pending:
            done, pending = wait(pending, PATIENCE_SECONDS, FIRST_COMPLETED)
            if not done and not is_local(master) and _is_alone(context):
                _say(f"{master} has given no executor yet: it lacks free cores or memory; waiting")
            yield from _results(done)
            pending |= {pool.submit(run, task) for task in islice(waiting, len(done))}
    except (Py4JJavaError, PythonException) as error:
        raise CastbedError(f"{_reason(str(error))}; the same command continues") from None
    finally:
        context.cancelJobGroup(run.args[1])
        pool.shutdown(cancel_futures=True)
        if mine:
            spark.stop()


def _is_alone(context: SparkContext) -> bool:
    """Whether the driver has no executor."""
    known = context._jsc.sc().statusTracker().getExecutorInfos()  # the driver is among them
    return len(known) <= 1


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _results(done: Iterable[Future[Result]]) -> Iterable[Result]:
    return (future.result() for future in done)


def _has_session() -> bool:
    """Whether somebody else has started a session, which then stays when the results are there."""
    loaded = sys.modules.get("pyspark.sql")
    return loaded is not None and loaded.SparkSession.getActiveSession() is not None


def _reason(failure: str) -> str:
    """What Python raised in a task, where Spark's words quote it; else the worker or its executor is gone."""
    raised = _RAISED.search(failure)
    return f"a task raised {raised[1].strip()}" if raised else "an executor died, perhaps for want of memory"


def _on_executor(context: SparkContext, group: str, function: Callable[[Task], Result], task: Task) -> Result:
    context.setJobGroup(group, "castbed sweep")  # of this thread
    (result,) = context.parallelize([task], 1).map(function).collect()
    return result
