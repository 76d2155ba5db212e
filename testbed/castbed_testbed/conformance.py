"""The conformance kit: a protocol against its own declaration, whoever wrote it.

Trials are random experiments within what the protocol says it needs: everything that it does not need is taken away
somewhere (loss where it does not need a reliable air, crashes where it does not need their absence, ...). Each trial
is judged by the properties that the protocol guarantees. Besides, the protocol has to be deterministic, its packets
have to survive the wire, no malformed frame may disturb a machine, and a short exploration must not find a schedule
that breaks a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec

from castbed.assembly import variant_name
from castbed.declarations import Protocol
from castbed.history import History
from castbed.properties import Violation
from castbed.registry import Registry
from castbed_testbed.attack import attack, smallest
from castbed_testbed.disturbance import disturbed
from castbed_testbed.elsewhere import fingerprint, fingerprint_elsewhere
from castbed_testbed.experiment import Loaded, load
from castbed_testbed.explore.engine import Finding
from castbed_testbed.majority import RECOVERY
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import MemoryRecorder
from castbed_testbed.sim.runner import simulate

FAULTS_PER_TRIAL = 3  # of each counted kind, at most
DURATION_MS = 5_000
MILLISECOND = 1_000_000


class Trial(msgspec.Struct, frozen=True):
    """One random run and what it violated; `stumbled` says why it came to no end, if it did not."""

    loaded: Loaded
    history: History
    violations: dict[str, list[Violation]]
    stumbled: str = ""

    @property
    def failed(self) -> list[str]:
        return [name for name, found in self.violations.items() if found]

    @property
    def failure(self) -> str:
        """What is wrong, in words; empty when nothing is."""
        return self.stumbled or (f"violates {', '.join(self.failed)}" if self.failed else "")


class ConformanceReport(msgspec.Struct):
    """What the kit found: how many trials ran and schedules were explored, and the failures in words.

    Without failures the protocol conforms.
    """

    protocol: str
    variant: str
    trials: int = 0
    deliveries: int = 0
    failures: list[str] = []
    failed_trial: Trial | None = None
    schedules: int = 0
    finding: Finding | None = None


def conform(
    registry: Registry,
    name: str,
    variant: str | None = None,
    runs: int = 100,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
    schedules: int = 0,
) -> ConformanceReport:
    """Try the protocol in `runs` random experiments, then in explored `schedules`; stops at the first failure."""
    protocol = registry.protocols.get(name, "PROTOCOL")
    chosen_variant = variant_name(protocol, variant, "--variant")
    report = ConformanceReport(name, chosen_variant)
    for number in range(seed, seed + runs):
        trial = run_trial(registry, random_experiment(protocol, chosen_variant, number))
        report.trials += 1
        report.deliveries += sum(len(lane) for lane in trial.history.deliveries.values())
        if trial.failure:
            report.failed_trial = trial
            report.failures.append(f"seed {number} {trial.failure}")
            break
        if progress is not None:
            progress(report.trials)
    if not report.failures:
        loaded = random_experiment(protocol, chosen_variant, seed)
        report.failures += _determinism(registry, loaded) + disturbed(registry, loaded)
    if not report.deliveries and report.failed_trial is None:
        report.failures.append("no trial delivered anything: declare an `exercise` that makes the protocol work")
    if schedules and not report.failures:
        _explore(registry, report, schedules, seed)
    return report


def _explore(registry: Registry, report: ConformanceReport, schedules: int, seed: int) -> None:
    explored = attack(registry, report.protocol, report.variant, schedules, seed)
    report.schedules = explored.schedules
    report.finding = smallest(explored)
    if report.finding is not None:
        finding = report.finding
        report.failures.append(f"a schedule of {len(finding.script.steps)} steps violates {finding.property}")


def run_trial(registry: Registry, loaded: Loaded) -> Trial:
    """One experiment, in memory, judged by what its protocol guarantees."""
    plan = make_plan(loaded.experiment, registry)
    recorder = MemoryRecorder(plan.identity())
    try:
        simulate(plan, recorder)
    except Exception as error:  # whatever a protocol raises is what is looked for
        return Trial(loaded, recorder.history(), {}, f"raises {type(error).__name__} ({error})")
    history = recorder.history()
    guarantees = plan.chosen.variant.guarantees
    found = registry.violations(history, guarantees, "guarantees")
    return Trial(loaded, history, found)


def random_experiment(protocol: Protocol, variant: str, seed: int) -> Loaded:
    """A small experiment with every kind of trouble that the variant does not need to be spared."""
    random = Random(f"conform/{protocol.name}/{seed}")
    data: dict[str, Any] = {
        "name": f"conform-{protocol.name}",
        "protocol": {"name": protocol.name, "variant": variant},
        "transport": {"name": "sim", "options": {"decode": True}},
        "seed": seed,
        "duration": f"{DURATION_MS}ms",
        "drain": "30s",
        "topology": _topology(protocol.model, random),
        "workload": {"kind": "steady", "rate": random.choice([1, 5]), "replies": random.choice([0.0, 0.5])},
        "faults": dict(_faults(protocol, variant, random)),
    }
    _air(data, protocol.variants[variant].needs, random)
    if "core_majority" in protocol.variants[variant].needs:
        _spare_the_core(data, random)
    return load(_merged(data, protocol.exercise))


def _topology(model: str, random: Random) -> dict[str, Any]:
    if model == "broadcast":
        return {"kind": model, "members": random.randint(2, 6)}
    if model == "sites":
        return {"kind": model, "sites": random.randint(2, 6)}
    cells = {"kind": model, "stations": random.randint(2, 3), "hosts": random.randint(2, 6)}
    return cells if model == "cellular" else cells | {"coordinators": random.randint(1, 2)}


def _air(data: dict[str, Any], needs: frozenset[str], random: Random) -> None:
    if data["topology"]["kind"] == "sites":
        return
    overtaking = "fifo_air" not in needs and random.random() < 0.7
    delay: Any = {"kind": "uniform", "low": "0ms", "high": random.choice(["5ms", "100ms"])} if overtaking else "1ms"
    data["topology"]["air"] = {"delay": delay}
    if data["topology"]["kind"] in ("cellular", "three_tier") and "no_absence" not in needs:
        data["mobility"] = {"dwell": {"kind": "exponential", "mean": "1s"}}


def _faults(protocol: Protocol, variant: str, random: Random) -> Iterator[tuple[str, Any]]:
    needs = protocol.variants[variant].needs
    on_air = protocol.model != "sites"
    if on_air and "reliable_air" not in needs:
        if random.random() < 0.6:
            yield "loss", random.choice([0.01, 0.1, 0.3])
        if random.random() < 0.4:
            yield "duplication", 0.1
        if protocol.model == "broadcast" and random.random() < 0.4:
            length = {"kind": "uniform", "low": "100ms", "high": "3s"}
            yield "random_partitions", {"count": random.randint(1, FAULTS_PER_TRIAL), "length": length}
    if protocol.model == "broadcast" and "no_absence" not in needs and random.random() < 0.5:
        length = {"kind": "uniform", "low": "100ms", "high": "3s"}
        yield "random_absences", {"count": random.randint(1, FAULTS_PER_TRIAL), "length": length}
    if "no_crash" not in needs and random.random() < 0.5:
        down = {"kind": "uniform", "low": "10ms", "high": "3s"}
        storage = random.random() < 0.5
        crashes = {"count": random.randint(1, FAULTS_PER_TRIAL), "down": down, "storage": storage}
        yield "random_crashes", crashes | ({"roles": ["station"]} if {"hosts_up", "core_up"} & needs else {})


def _spare_the_core(data: dict[str, Any], random: Random) -> None:
    """Crashes of the core one by one, with time to recover, and other crashes outside; wires of any delay."""
    faults, topology = data["faults"], data["topology"]
    topology["coordinators"] = coordinators = random.randint(2, 4)
    topology["stations"] = max(topology["stations"], coordinators)
    slow = random.choice(["2ms", "20ms"])
    topology["wire"] = {"delay": random.choice(["1ms", {"kind": "uniform", "low": "100us", "high": slow}])}
    if "random_crashes" in faults:
        faults["random_crashes"]["roles"] = ["host", "station"]
    if random.random() < 0.5:
        core = ["Q", *(f"C{number}" for number in range(1, coordinators + 1))]
        node, at = random.choice(core), random.randint(0, 2000)
        again, back = random.choice(core), at + random.randint(1, 2000)
        faults["crashes"] = [{"node": node, "at": f"{at}ms"}]
        faults["restarts"] = [{"node": node, "at": f"{back}ms"}]
        later = back + RECOVERY // MILLISECOND + random.randint(1, 1000)
        if random.random() < 0.5 and later < DURATION_MS:
            faults["crashes"].append({"node": again, "at": f"{later}ms"})


def _merged(data: dict[str, Any], more: Any) -> dict[str, Any]:
    """`data` with the protocol's own `exercise` laid over it; a workload of its own replaces ours whole."""
    merged = dict(data)
    for key, value in more.items():
        whole = key in ("workload", "application") or not isinstance(value, dict)
        merged[key] = value if whole else _merged(merged.get(key, {}), value)
    return merged


# --- besides the guarantees ------------------------------------------------------------------------------------------


def _determinism(registry: Registry, loaded: Loaded) -> list[str]:
    one, other = (run_trial(registry, loaded).history.events for _ in range(2))
    if one != other:
        at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        return [f"not deterministic: two runs with seed {loaded.experiment.seed} part at event {at}"]
    elsewhere = fingerprint_elsewhere(loaded)
    if elsewhere not in (None, fingerprint(one)):
        return [
            f"not deterministic: the run with seed {loaded.experiment.seed} differs in another process, "
            "as runs do that depend on the order of a set, on hash() or on id()"
        ]
    return []
