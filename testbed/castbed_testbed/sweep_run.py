"""One run of a sweep as a function: plain data and a seed in, the figures of the run out.

`run_point` has no side effects, so it can be called anywhere: in this process, in another one, on another machine.
"""

from __future__ import annotations

import shutil
import time
from functools import cache
from pathlib import Path
from typing import Any

from castbed.registry import Registry, load_registry
from castbed_testbed.evaluation.measured import Measuring, run_measured
from castbed_testbed.experiment import Loaded, load
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import MeasuringRecorder
from castbed_testbed.runner import run_experiment
from castbed_testbed.sim.runner import simulate
from castbed_testbed.summary import history_figures, property_figures, report_figures


@cache
def installed() -> Registry:
    """What is installed, read once per process: it takes longer than a small run."""
    return load_registry()


def run_point(data: dict[str, Any], seed: int, registry: Registry | None = None) -> dict[str, Any]:
    """Simulate and judge the experiment in memory: the keys of `summary.json`, or `seed` and `error` if it raised."""
    try:
        return _simulated(load({**data, "seed": seed}), registry or installed())
    except (Exception, SystemExit) as error:  # whatever a plugin raises ends this run only
        return _failed(seed, error)


def run_captured(data: dict[str, Any], seed: int, directory: Path, registry: Registry | None = None) -> dict[str, Any]:
    """The same with a run directory, which replaces what an interrupted run left there."""
    shutil.rmtree(directory, ignore_errors=True)
    try:
        return run_experiment(load({**data, "seed": seed}), registry or installed(), directory).summary
    except (Exception, SystemExit) as error:  # whatever a plugin raises ends this run only
        return _failed(seed, error)


def run_metered(data: dict[str, Any], seed: int, measuring: Measuring) -> dict[str, Any]:
    """Measure the experiment without judging it: the figures of an evaluation, or `seed` and `error` if it raised."""
    try:
        return run_measured(data, seed, measuring, installed())
    except (Exception, SystemExit) as error:  # whatever a plugin raises ends this run only
        return _failed(seed, error)


def _failed(seed: int, error: BaseException) -> dict[str, Any]:
    return {"seed": seed, "error": f"raises {type(error).__name__} ({error})"}


def _simulated(loaded: Loaded, registry: Registry) -> dict[str, Any]:
    plan = make_plan(loaded.experiment, registry)
    recorder = MeasuringRecorder(plan.identity())
    start = time.perf_counter()
    report = simulate(plan, recorder)
    wall_s = time.perf_counter() - start
    history = recorder.history()
    guarantees = plan.chosen.variant.guarantees
    found = registry.violations(history, guarantees, "guarantees")
    figures = history.summary_fields() | history_figures(history, recorder.frames)
    return figures | {"properties": property_figures(found)} | report_figures(report, plan.experiment, wall_s)


def failures(result: dict[str, Any]) -> list[str]:
    """Why the run failed, in words; empty when all is well."""
    if "error" in result:
        return [result["error"]]
    broken = [f"{name} is violated" for name, verdict in result["properties"].items() if not verdict["holds"]]
    return broken + [f"the fault {name!r} was asked for and never took effect" for name in result["vacuous"]]
