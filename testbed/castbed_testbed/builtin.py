"""What the testbed brings, as a plugin like any other: the transport `sim` and the workloads."""

from __future__ import annotations

from castbed import NEEDS, Transport, Workload, hookimpl
from castbed.registry import Register
from castbed_testbed.sim.options import SimOptions
from castbed_testbed.workloads import WORKLOADS


@hookimpl
def castbed_transports(register: Register[Transport]) -> None:
    register.add(
        Transport(
            "sim",
            "The deterministic simulator: virtual time, every fault, no network needed",
            frozenset(NEEDS),
            "castbed_testbed.sim.runner:run",
            SimOptions,
        )
    )


@hookimpl
def castbed_workloads(register: Register[Workload]) -> None:
    for workload in WORKLOADS:
        register.add(workload)
