"""One run of an evaluation as a function: plain data and a seed in, measured figures out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from castbed.history import History
from castbed.registry import Registry
from castbed.units import Duration
from castbed_testbed.evaluation.meter import Meter
from castbed_testbed.experiment import load
from castbed_testbed.plan import make_plan
from castbed_testbed.sim.runner import simulate
from castbed_testbed.summary import report_figures


class Measuring(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to measure: nothing during the `warm_up`. `answers` gives names to packet types and their answers."""

    warm_up: Duration = Duration(2_000_000_000)
    answers: Mapping[str, Mapping[str, str]] = {}


def run_measured(data: dict[str, Any], seed: int, measuring: Measuring, registry: Registry) -> dict[str, Any]:
    """Simulate the experiment and say what its meter says."""
    plan = make_plan(load({**data, "seed": seed}).experiment, registry)
    meter = Meter(plan, int(measuring.warm_up), measuring.answers)
    start = time.perf_counter()
    report = simulate(plan, meter)
    wall_s = time.perf_counter() - start
    named = History(plan.identity(), ()).summary_fields()
    return named | meter.figures() | report_figures(report, plan.experiment, wall_s)
