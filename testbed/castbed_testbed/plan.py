"""A plan: an experiment with every plugin found, every name resolved and every need met. Hosts run plans."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from castbed.application import Application, Setting
from castbed.assembly import Chosen, variant_name
from castbed.declarations import NEEDS, ApplicationPlugin, Transport, Workload
from castbed.errors import ConfigurationError
from castbed.history import RunIdentity
from castbed.parts import RepairOptions
from castbed.registry import Registry
from castbed.topology import Topology
from castbed.units import convert
from castbed.values import NodeNumber
from castbed.wire import Codec
from castbed_testbed.experiment import Experiment, Named
from castbed_testbed.keys import Secret, read_key
from castbed_testbed.majority import core_of, majority_breaker
from castbed_testbed.mobility import coverage_gaps
from castbed_testbed.networks import build_topology
from castbed_testbed.schedule import CrashNode, Schedule, build_schedule

REPAIRABLE_MODEL = "broadcast"


class Plan(msgspec.Struct, frozen=True):
    """Everything a host needs to carry an experiment out."""

    experiment: Experiment
    topology: Topology
    chosen: Chosen
    transport: Transport
    transport_options: Any
    schedule: Schedule
    programs: tuple[tuple[Workload | ApplicationPlugin, Any], ...]
    secret: Secret | None = None

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

    def codec(self, life: int, now: Callable[[], int]) -> Codec:
        """The codec of one life of one node on a real network; with a key it takes only sealed frames."""
        if self.secret is None:
            return self.chosen.codec()
        return self.chosen.sealed_codec(self.secret.seal(), life, now)

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
    _check_spared(experiment, chosen)
    schedule = build_schedule(experiment, topology, chosen.commands)
    _check_repair(chosen, topology)
    _check_needs(experiment, topology, schedule, chosen, transport)
    programs = _programs(experiment, registry)
    secret = read_key(experiment.key) if experiment.key is not None else None
    plan = Plan(experiment, topology, chosen, transport, transport_options, schedule, programs, secret)
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
    return Chosen(protocol, variant, options, membership, below_options, experiment.repair)


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


def _check_spared(experiment: Experiment, chosen: Chosen) -> None:
    names = {packet.__name__ for packet in chosen.protocol.packets}
    for name in experiment.faults.loss_spares:
        if name not in names:
            problem = f"{chosen.protocol.name} has no packet {name!r} (it has: {', '.join(sorted(names))})"
            raise ConfigurationError("faults.loss_spares", problem)


def _check_needs(
    experiment: Experiment, topology: Topology, schedule: Schedule, chosen: Chosen, transport: Transport
) -> None:
    taken = _taken_away(experiment, topology)
    if schedule.apart:
        taken.setdefault("reliable_air", "topology.air.range_m")
    breaker = majority_breaker(schedule, topology)
    if breaker is not None:
        taken["core_majority"] = f"faults.{breaker.fault}"
    taken |= _crashing(schedule, topology)
    who = f"{chosen.protocol.name} ({chosen.variant_name})"
    for need in sorted(chosen.needs):
        if need in taken:
            problem = f"{who} needs {NEEDS[need]}, and this takes that away{_remedy(need, topology)}"
            raise ConfigurationError(taken[need], problem)
        if need not in transport.offers:
            problem = f"{who} needs {NEEDS[need]}, which {transport.name} does not offer{_remedy(need, topology)}"
            raise ConfigurationError("transport.name", problem)


def _crashing(schedule: Schedule, topology: Topology) -> dict[str, str]:
    """Which needs the crashes of some nodes take away, and the key that does."""
    needed = {"hosts_up": topology.numbers("host"), "core_up": core_of(topology)}
    crashes = [happening for happening in schedule.happenings if isinstance(happening, CrashNode)]
    return {
        need: f"faults.{crash.fault}"
        for need, nodes in needed.items()
        for crash in reversed(crashes)
        if crash.node in nodes
    }


def _remedy(need: str, topology: Topology) -> str:
    """What the repair layer could do about it."""
    if topology.model != REPAIRABLE_MODEL or need not in RepairOptions(fifo=True).gives:
        return ""
    return " (`repair.fifo = true` gives it)" if need == "fifo_air" else " (`repair = {}` gives it)"


def _check_repair(chosen: Chosen, topology: Topology) -> None:
    if chosen.repair is not None and topology.model != REPAIRABLE_MODEL:
        problem = f"the repair layer is for {REPAIRABLE_MODEL!r} topologies: in cells and on sites, who hears changes"
        raise ConfigurationError("repair", problem)


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
        ("fifo_air", "topology.air.backend", spec.air.backend == "gsm"),
        ("reliable_air", "topology.air.backend", spec.air.backend == "gsm"),
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
