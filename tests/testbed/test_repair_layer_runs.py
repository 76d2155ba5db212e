"""Protocols that need a reliable air, on one that is not: the experiment has a repair layer, all properties hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from repair_runs import random_experiment, tried

from castbed import ConfigurationError, Kind, Protocol, hookimpl, load_registry
from castbed.capture import read_captures, sent_headers
from castbed.parts import RepairOptions
from castbed.registry import Register
from castbed_plugins import sb
from castbed_testbed.cli.plugins import protocol_document
from castbed_testbed.conformance import run_trial
from castbed_testbed.disturbance import disturbed
from castbed_testbed.experiment import load
from castbed_testbed.plan import make_plan
from castbed_testbed.runner import run_experiment

REGISTRY = load_registry()
LOSSY: dict[str, Any] = {
    "name": "lossy-published",
    "protocol": {"name": "sb", "variant": "published"},
    "seed": 3,
    "duration": "5s",
    "topology": {"kind": "broadcast", "members": 6},
    "workload": {"kind": "steady", "rate": 20, "replies": 0.5},
    "faults": {"loss": 0.2},
}


def refusal(**changes: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        make_plan(load(LOSSY | changes).experiment, REGISTRY)
    return str(caught.value)


def test_without_the_layer_a_lossy_air_is_refused_and_the_layer_named() -> None:
    said = refusal()
    assert said.startswith("faults.loss: sb (published) needs an air medium that loses and duplicates nothing")
    assert said.endswith("(`repair = {}` gives it)")


def test_sb_as_published_holds_all_its_properties_over_the_layer_with_a_fifth_lost() -> None:
    trial = run_trial(REGISTRY, load(LOSSY | {"repair": {}}))
    assert trial.failure == ""
    assert sum(len(lane) for lane in trial.history.deliveries.values()) == 6 * len(trial.history.submissions) > 0


def test_the_layer_is_for_broadcast_topologies() -> None:
    cells = {"kind": "three_tier", "coordinators": 1, "stations": 2, "hosts": 2}
    said = refusal(protocol={"name": "eomp"}, topology=cells, repair={})
    assert said.startswith("repair: the repair layer is for 'broadcast' topologies")


class Sure:
    """A plugin whose variant declares that it needs the layer."""

    @hookimpl
    def castbed_protocols(self, register: Register[Protocol]) -> None:
        register.add(SURE)


DECLARED = RepairOptions(history_max=500)
SURE = replace(
    sb.PROTOCOL, name="sure", variants={"published": replace(sb.PROTOCOL.variants["published"], repair=DECLARED)}
)
WITH_SURE = load_registry({"sure": Sure()})
SURELY = LOSSY | {"protocol": {"name": "sure"}, "duration": "1s", "drain": "5s"}


@pytest.mark.parametrize("transport", ["sim", pytest.param("udp", marks=pytest.mark.udp)])
def test_a_variant_that_declares_the_layer_has_it_on_every_transport(transport: str, tmp_path: Path) -> None:
    outcome = run_experiment(load(SURELY | {"transport": {"name": transport}}), WITH_SURE, tmp_path / "run")
    assert outcome.failures == []
    assert outcome.summary["faults"]["loss"] > 0
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0


def test_what_the_experiment_says_of_the_layer_goes_before_the_declaration() -> None:
    declared = make_plan(load(SURELY).experiment, WITH_SURE).chosen
    assert declared.repair == DECLARED
    assert "reliable_air" not in declared.needs
    assert make_plan(load(SURELY | {"repair": {"fifo": True}}).experiment, WITH_SURE).chosen.repair == RepairOptions(
        fifo=True
    )


def test_the_list_of_plugins_shows_a_declared_layer() -> None:
    shown = protocol_document(WITH_SURE, SURE)["repair"]["published"]
    assert (shown["history_max"], shown["ask_delay"]) == (500, "20ms")
    assert protocol_document(WITH_SURE, sb.PROTOCOL)["repair"] == {}


def test_an_unknown_option_of_the_layer_is_refused() -> None:
    assert refusal(repair={"histroy_max": 3}).startswith("repair.histroy_max: unknown key (did you mean 'history_max'?")


def test_captures_show_the_messages_inside(tmp_path: Path) -> None:
    outcome = run_experiment(load(LOSSY | {"repair": {"fifo": True}}), REGISTRY, tmp_path / "run")
    assert outcome.failures == []
    headers = [header for capture in read_captures(tmp_path / "run") for header in sent_headers(capture)]
    seen = {(header.origin, header.seqno) for header in headers if header.flags & 1}
    submitted = {(mid.sender, mid.seqno) for _, mid in outcome.history.submissions}  # type: ignore[union-attr]
    assert seen == submitted
    assert outcome.summary["control_bytes"]["max"] < 32


def test_no_malformed_frame_disturbs_a_machine_over_the_layer() -> None:
    assert disturbed(REGISTRY, random_experiment(3)) == []


@pytest.mark.parametrize("seed", range(12))
def test_random_trouble_is_repaired(seed: int) -> None:
    assert tried(REGISTRY, seed).failure == ""


@pytest.mark.parametrize("seed", range(6))
def test_restarts_and_absences_leave_a_protocol_that_bears_them_whole(seed: int) -> None:
    """The layer must not bring a node again what an earlier life of it had, nor hide what is new."""
    spans = {"kind": "uniform", "low": "10ms", "high": "2s"}
    crashes, absences = {"count": 2, "down": spans}, {"count": 2, "length": spans}
    faults = {"loss": 0.2, "random_crashes": crashes, "random_absences": absences}
    trial = run_trial(REGISTRY, random_experiment(seed, faults=faults, protocol={"name": "sb"}))
    assert trial.failure == ""
    assert any(event.kind == Kind.RESTART for event in trial.history.events)


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_thousands_of_random_troubles_are_repaired(block: int) -> None:
    for seed in range(1_000 + 100 * block, 1_100 + 100 * block):
        failure = tried(REGISTRY, seed).failure
        assert failure == "", f"seed {seed}: {failure}"
