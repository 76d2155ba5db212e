"""A plan: an experiment with every plugin found, every name resolved and every need met. Hosts run plans."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from castbed.application import Application, Setting
from castbed.assembly import Chosen, variant_name
from castbed.declarations import NEEDS, ApplicationPlugin, Transport, Workload
from castbed.errors import ConfigurationError
from castbed.history import RunIdentity
from castbed.registry import Registry
from castbed.topology import Topology
from castbed.units import convert
from castbed.values import NodeNumber
from castbed_testbed.experiment import Experiment, Named
from castbed_testbed.mobility import coverage_gaps
from castbed_testbed.networks import build_topology
from castbed_testbed.schedule import Schedule, build_schedule


class Plan(msgspec.Struct, frozen=True):
    """Everything a host needs to carry an experiment out."""

    experiment: Experiment
    topology: Topology
    chosen: Chosen
    transport: Transport
    transport_options: Any
    schedule: Schedule
    programs: tuple[tuple[Workload | ApplicationPlugin, Any], ...]

    @property
    def end(self) -> int:
        return self.experiment.duration + self.experiment.drain

    def identity(self) -> RunIdentity:
        """What the captures of this run say about it."""
        experiment, chosen, nodes = self.experiment, self.chosen, self.topology.nodes
        return RunIdentity(
            experiment.name,
            experiment.seed,
            chosen.protocol.name,
            chosen.variant_name,
            self.transport.name,
            self.topology.model,
            tuple(node.name for node in nodes),
            tuple(node.role for node in nodes),
            chosen.variant.guarantees,
        )

    def random(self, purpose: str) -> Random:
        """The random source for one purpose; sources of different purposes never influence each other."""
        return Random(f"{self.experiment.seed}/{purpose}")

    def applications(self, node: NodeNumber, life: int) -> list[Application]:
        """The workload and the application of one node, anew for each of its lives."""
        made = []
        for program, options in self.programs:
            random = self.random(f"{program.name}/{node}/{life}")
            setting = Setting(node, self.topology, random, self.experiment.duration, self.chosen.commands)
            made.append(program.build(setting, options))
        return made


def make_plan(experiment: Experiment, registry: Registry) -> Plan:
    """Find every plugin and check every need; a ConfigurationError says what is missing."""
    chosen = _choose(experiment, registry)
    transport = registry.transports.get(experiment.transport.name, "transport.name")
    transport_options = convert(experiment.transport.options, transport.options, "transport.options")
    topology = build_topology(experiment.topology)
    if topology.model != chosen.protocol.model:
        problem = f"{chosen.protocol.name} runs on {chosen.protocol.model!r}, not on {topology.model!r}"
        raise ConfigurationError("topology.kind", problem)
    _check_roles(topology, chosen)
    schedule = build_schedule(experiment, topology, chosen.commands)
    _check_needs(experiment, topology, chosen, transport)
    programs = _programs(experiment, registry)
    plan = Plan(experiment, topology, chosen, transport, transport_options, schedule, programs)
    plan.applications(topology.nodes[0].number, 0)  # so that a workload's objections come before the run
    return plan


def _choose(experiment: Experiment, registry: Registry) -> Chosen:
    wanted = experiment.protocol
    protocol = registry.protocols.get(wanted.name, "protocol.name")
    variant = variant_name(protocol, wanted.variant)
    options = convert(wanted.options, protocol.options, "protocol.options")
    below = _membership(experiment, protocol.membership)
    membership = registry.memberships.get(below.name, "membership.name")
    below_options = convert(below.options, membership.options, "membership.options")
    return Chosen(protocol, variant, options, membership, below_options)


def _membership(experiment: Experiment, brought: str | None) -> Named:
    chosen = experiment.membership
    if brought is None or chosen.name == brought:
        return chosen
    if chosen != Named("static"):
        raise ConfigurationError("membership.name", f"the protocol brings its own membership, {brought!r}")
    return Named(brought)


def _check_roles(topology: Topology, chosen: Chosen) -> None:
    for node in topology.nodes:
        if node.role not in chosen.variant.roles:
            known = ", ".join(sorted(chosen.variant.roles))
            problem = f"{chosen.protocol.name} has no role {node.role!r} for {node.name} (it has: {known})"
            raise ConfigurationError("topology.kind", problem)


def _check_needs(experiment: Experiment, topology: Topology, chosen: Chosen, transport: Transport) -> None:
    taken = _taken_away(experiment, topology)
    needs = chosen.variant.needs | (chosen.membership.needs if chosen.membership and chosen.stacked else frozenset())
    who = f"{chosen.protocol.name} ({chosen.variant_name})"
    for need in sorted(needs):
        if need in taken:
            raise ConfigurationError(taken[need], f"{who} needs {NEEDS[need]}, and this takes that away")
        if need not in transport.offers:
            problem = f"{who} needs {NEEDS[need]}, which {transport.name} does not offer"
            raise ConfigurationError("transport.name", problem)


def _taken_away(experiment: Experiment, topology: Topology) -> dict[str, str]:
    """Which needs this experiment makes impossible, and the key that does."""
    faults, spec = experiment.faults, experiment.topology
    candidates = [
        ("air", "topology.kind", topology.model == "sites"),
        ("own_copy", "topology.kind", topology.model == "sites"),
        ("wire", "topology.kind", topology.model == "broadcast"),
        ("fifo_wire", "topology.wire.fifo", not spec.wire.fifo),
        ("fifo_air", "topology.air.delay", spec.air.delay.constant is None),
        ("fifo_air", "faults.reordering", faults.reordering is not None),
        ("reliable_air", "faults.loss", faults.loss > 0),
        ("reliable_air", "faults.duplication", faults.duplication > 0),
        ("reliable_air", "faults.cuts", bool(faults.cuts)),
        ("reliable_air", "faults.partitions", bool(faults.partitions)),
        ("reliable_air", "faults.random_partitions", faults.random_partitions is not None),
        ("no_crash", "faults.crashes", bool(faults.crashes)),
        ("no_crash", "faults.random_crashes", faults.random_crashes is not None),
        ("no_absence", "faults.absences", bool(faults.absences)),
        ("no_absence", "faults.random_absences", faults.random_absences is not None),
        ("no_absence", "faults.handoffs", any(not handoff.to for handoff in faults.handoffs)),
        *(("no_absence", key, True) for key in coverage_gaps(experiment)),
    ]
    return {need: key for need, key, taken in reversed(candidates) if taken}


def _programs(experiment: Experiment, registry: Registry) -> tuple[tuple[Workload | ApplicationPlugin, Any], ...]:
    programs: list[tuple[Workload | ApplicationPlugin, Any]] = []
    if experiment.application is not None:
        chosen = experiment.application
        application = registry.applications.get(chosen.name, "application.name")
        programs.append((application, convert(chosen.options, application.options, "application.options")))
    if experiment.workload:
        keys = dict(experiment.workload)
        kind = keys.pop("kind", None)
        if not isinstance(kind, str):
            raise ConfigurationError("workload.kind", "this key is required")
        workload = registry.workloads.get(kind, "workload.kind")
        programs.append((workload, convert(keys, workload.options, "workload")))
    return tuple(programs)
