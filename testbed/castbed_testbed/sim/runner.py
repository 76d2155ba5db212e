"""Runs a plan in the simulator; what the transport `sim` names as its runner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from castbed_testbed.plan import Plan
from castbed_testbed.recorder import CaptureRecorder, NullRecorder, Recorder
from castbed_testbed.report import HostReport
from castbed_testbed.sim.simulation import Simulation


def run(plan: Plan, captures: Path | None, progress: Callable[[int], None] | None = None) -> HostReport:
    """Simulate the plan; `captures` is the directory for the captures, None to write none."""
    recorder: Recorder = NullRecorder() if captures is None else CaptureRecorder(captures, plan.identity())
    return simulate(plan, recorder, progress)


def simulate(plan: Plan, recorder: Recorder, progress: Callable[[int], None] | None = None) -> HostReport:
    """Simulate the plan into any recorder; whatever happens, the recorder is closed."""
    simulation = Simulation(plan, recorder)
    try:
        simulation.run(progress)
    finally:
        recorder.close()
    return HostReport(
        simulation.submitted,
        simulation.delivered,
        simulation.transmitter.frames,
        simulation.kernel.events,
        simulation.kernel.now,
        simulation.dropped,
        simulation.transmitter.oversize,
        dict(simulation.effects),
    )
