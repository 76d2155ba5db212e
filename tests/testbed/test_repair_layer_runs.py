"""Protocols that need a reliable air, on one that is not: the experiment has a repair layer, all properties hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from repair_runs import random_experiment, tried

from castbed import ConfigurationError, Kind, load_registry
from castbed.capture import read_captures, sent_headers
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
