"""Repaired EOMP in the simulator: fast movement under loss, catching up, large messages, limits, and small storms."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from castbed import Kind
from castbed.registry import Registry, load_registry
from castbed_plugins.eomp.host import RADIO_DUPLICATE
from castbed_testbed.experiment import load
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import MemoryRecorder, NullRecorder
from castbed_testbed.sim.simulation import Simulation
from eomp_storms import random_run, violations

REGIONS = {"C1": ["S1", "S2"], "C2": ["S3"]}
MILLISECOND = 10**6


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def experiment(**changes: Any) -> dict[str, Any]:
    topology = {
        "kind": "three_tier",
        "coordinators": REGIONS,
        "hosts": {"a": "S1", "b": "S2", "c": "S3"},
        **changes.pop("topology", {}),
    }
    options = changes.pop("options", {})
    return {
        "name": "repaired",
        "protocol": {"name": "eomp", "variant": "repaired", "options": options},
        "duration": "3s",
        "drain": "5s",
        "topology": topology,
        "workload": {"kind": "steady", "rate": 10},
        **changes,
    }


class Ran:
    """A finished simulation and what can be asked of it."""

    def __init__(self, registry: Registry, data: dict[str, Any]) -> None:
        plan = make_plan(load(data).experiment, registry)
        recorder = MemoryRecorder(plan.identity())
        self.simulation = Simulation(plan, recorder)
        self.simulation.run()
        self.history = recorder.history()
        found = registry.violations(self.history, plan.chosen.variant.guarantees, "guarantees")
        self.broken = {name: [violation.words for violation in them] for name, them in found.items() if them}

    def machine(self, name: str) -> Any:
        return next(node.machine for node in self.simulation.nodes if node.name == name)

    def times(self, name: str, kind: Kind) -> list[int]:
        number = self.history.identity.names.index(name) + 1
        return [event.at for event in self.history.by_node[number] if event.kind is kind]


def test_a_host_that_changes_its_cell_every_100_ms_under_heavy_loss_gets_everything_once_in_order(
    registry: Registry,
) -> None:
    """The bar of the issue; E1 to E4, E9."""
    moving = {"dwell": "100ms", "hosts": ["a"]}
    ran = Ran(registry, experiment(mobility=moving, faults={"loss": 0.2}, drain="8s"))
    assert ran.broken == {}
    assert len(ran.times("a", Kind.DETACH)) > 25
    assert ran.times("a", Kind.DELIVER)
    assert len(ran.times("a", Kind.DELIVER)) == len(ran.times("b", Kind.DELIVER))


def test_a_hundred_missed_messages_come_well_within_a_second(registry: Registry) -> None:
    """Published needs a second for each."""
    away = {"absences": [{"node": "a", "start": "100ms", "end": "4s"}]}
    load_ = {"kind": "steady", "rate": 40, "senders": ["b", "c"], "count": 60}
    ran = Ran(registry, experiment(duration="5s", workload=load_, faults=away))
    missed = [at for at in ran.times("a", Kind.DELIVER) if at > 4_000 * MILLISECOND]
    assert len(missed) > 100
    assert missed[-1] < 4_400 * MILLISECOND
    assert ran.broken == {}


def test_a_batch_that_takes_long_on_the_air_is_not_asked_for_again_meanwhile(registry: Registry) -> None:
    """E5: sixty messages of 4 KiB need a second on this radio."""
    away = {"absences": [{"node": "a", "start": "100ms", "end": "15s"}]}
    load_ = {"kind": "steady", "rate": 3, "size": "4KiB", "senders": ["b", "c"], "count": 30}
    ran = Ran(registry, experiment(duration="16s", workload=load_, faults=away))
    again = [event for event in ran.history.events if event.text == RADIO_DUPLICATE]
    assert len([at for at in ran.times("a", Kind.DELIVER) if at > 15_000 * MILLISECOND]) > 50
    assert len(again) < 5
    assert ran.broken == {}


def test_large_messages_do_not_drown_in_their_own_repetitions(registry: Registry) -> None:
    """16 KiB need 66 ms on this radio; a request timer of 25 ms has to learn that."""
    hosts = {"hosts": 8, "air": {"rate": "2Mbit/s"}}
    load_ = {"kind": "steady", "rate": 1, "size": "16KiB", "senders": ["h1", "h2", "h3"]}
    ran = Ran(registry, experiment(topology=hosts, workload=load_, duration="10s", drain="10s"))
    assert ran.broken == {}
    sent = len(ran.times("h1", Kind.SUBMIT)) + len(ran.times("h2", Kind.SUBMIT)) + len(ran.times("h3", Kind.SUBMIT))
    assert sent > 15
    assert ran.simulation.transmitter.frames < 100 * sent


def test_a_member_that_keeps_the_buffers_full_and_is_silent_is_expelled_and_told(registry: Registry) -> None:
    """A5 is not needed any more: buffers are bounded, whoever stays away."""
    away = {"absences": [{"node": "a", "start": "200ms", "end": "8s"}]}
    options = {"buffer_max": 30, "silence": "1s"}
    load_ = {"kind": "steady", "rate": 8, "senders": ["b", "c"]}
    ran = Ran(registry, experiment(duration="7s", drain="15s", workload=load_, faults=away, options=options))
    assert ran.broken == {}
    assert len(ran.times("a", Kind.LEAVE)) == 1
    assert ran.machine("a").inbox.last == {}
    delivered = ran.times("b", Kind.DELIVER)
    assert len(delivered) == len(ran.times("b", Kind.SUBMIT)) + len(ran.times("c", Kind.SUBMIT))


def test_nothing_is_numbered_while_the_buffers_are_full(registry: Registry) -> None:
    away = {"absences": [{"node": "a", "start": "200ms", "end": "4s"}]}
    load_ = {"kind": "steady", "rate": 20, "senders": ["b", "c"]}
    ran = Ran(registry, experiment(drain="20s", workload=load_, faults=away, options={"buffer_max": 30}))
    delivered = ran.times("b", Kind.DELIVER)
    during = [at for at in delivered if 200 * MILLISECOND < at < 4_000 * MILLISECOND]
    assert 20 <= len(during) <= 30 + 10
    assert len(delivered) > 100
    assert ran.broken == {}
    assert ran.times("a", Kind.LEAVE) == []


def test_a_host_out_of_range_refuses_what_its_queue_does_not_hold(registry: Registry) -> None:
    away = {"absences": [{"node": "a", "start": "100ms", "end": "3s"}]}
    ran = Ran(registry, experiment(faults=away, options={"queue_max": 5}))
    assert len(ran.times("a", Kind.REFUSE)) > 5
    assert ran.broken == {}


def test_a_station_turns_to_another_coordinator_and_back_to_its_own(registry: Registry) -> None:
    crash = {"crashes": [{"node": "C1", "at": "1s"}]}
    ran = Ran(registry, experiment(faults=crash))
    own, other = (ran.history.identity.names.index(name) + 1 for name in ("C1", "C2"))
    assert {ran.machine(station).coordinator for station in ("S1", "S2", "S3")} == {other}
    assert ran.broken == {}
    back = {**crash, "restarts": [{"node": "C1", "at": "4s"}]}
    ran = Ran(registry, experiment(faults=back))
    assert [ran.machine(station).coordinator for station in ("S1", "S2", "S3")] == [own, own, other]
    assert len(ran.machine("C2").stations) == 1
    assert ran.broken == {}


def test_a_station_may_crash_while_its_coordinator_is_down(registry: Registry) -> None:
    """E8."""
    crashes = [{"node": "C1", "at": "1s"}, {"node": "S1", "at": "1100ms"}]
    restarts = [{"node": "S1", "at": "1200ms"}, {"node": "C1", "at": "5s"}]
    ran = Ran(registry, experiment(faults={"crashes": crashes, "restarts": restarts}))
    assert ran.broken == {}


@pytest.mark.parametrize("seed", range(12))
def test_every_declared_property_holds_in_a_storm(registry: Registry, seed: int) -> None:
    assert violations(registry, random_run(seed)) == {}


def sizes(simulation: Simulation) -> dict[str, int]:
    """How much everything holds, by node and attribute."""
    found: dict[str, int] = {}
    for node in simulation.nodes:
        assert node.machine is not None
        found[f"{node.name}.timers"] = len(node.timers)
        found[f"{node.name}.stored"] = len(node.stored)
        found |= {f"{node.name}.{name}": size for name, size in _sizes(vars(node.machine), 4)}
    return found


def _sizes(attributes: Mapping[Any, Any], depth: int) -> Iterator[tuple[str, int]]:
    for name, value in attributes.items():
        if isinstance(value, dict | list | tuple | set | deque):
            yield str(name), len(value)
        inside = value if isinstance(value, dict) else getattr(value, "__dict__", None)
        if inside is not None and depth and name not in ("context", "options", "_owner", "_handlers"):
            yield from ((f"{name}.{inner}", size) for inner, size in _sizes(inside, depth - 1))


def test_nothing_grows_in_ten_minutes(registry: Registry) -> None:
    """Sampled after five minutes and after ten; what is in use at the moment may differ, a little."""
    data = experiment(
        duration="600s",
        drain="5s",
        workload={"kind": "steady", "rate": 2},
        mobility={"dwell": {"kind": "exponential", "mean": "10s"}},
        options={"retained": 50},
        faults={"loss": 0.02},
    )
    simulation = Simulation(make_plan(load(data).experiment, registry), NullRecorder())
    halfway: dict[str, int] = {}
    simulation.kernel.at(300_000 * MILLISECOND, lambda _: halfway.update(sizes(simulation)), None)
    simulation.run()
    end = sizes(simulation)
    grown = {name: (halfway.get(name, 0), size) for name, size in end.items() if size > halfway.get(name, 0) + 20}
    assert grown == {}
    assert simulation.delivered > 9_000
