"""Experiments with the back-end `gsm` of the air: what captures show, which protocols run, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gsm_cells import FOUR_BLOCKS, S1, S2, A, B, C, cellular, cut, frame_ends
from testbed_command import EXAMPLES, captures
from testbed_support import cells, changed, planned, probe, refusal, registry, say

from castbed.capture import read_captures
from castbed.parts.cell_channel import FAMILY, PACKETS
from castbed.wire import ETHERNET_BYTES, Codec
from castbed_testbed.experiment import load, load_file
from castbed_testbed.recorder import CaptureRecorder, MeasuringRecorder
from castbed_testbed.runner import run_experiment
from castbed_testbed.sim.runner import simulate

# --- captures --------------------------------------------------------------------------------------------------------


def test_captures_show_the_protocols_frames_and_the_blocks_that_carry_them(tmp_path: Path) -> None:
    """A host's capture has the blocks that it was tuned to, and the frame when it is complete."""
    faults = {"cuts": [cut("b", frame_ends(0, 2)[1])]}
    plan = planned(cellular(say("S1", "0ms", FOUR_BLOCKS), gsm={"hold_frames": 0}, faults=faults))
    report = simulate(plan, CaptureRecorder(tmp_path, plan.identity()))
    codec = Codec({FAMILY: PACKETS, "cells": plan.chosen.protocol.packets})
    shown = {}
    sent = 0
    for capture in read_captures(tmp_path):
        sent += sum(frame.outgoing for frame in capture.frames)
        frames = [frame for frame in capture.frames if frame.medium == "air"]
        shown[capture.node] = [type(codec.decode(frame.data[ETHERNET_BYTES:])[0]).__name__ for frame in frames]
    burst = ["Page", "Assign", "Frame", "Frame", "Frame", "Frame"]
    assert shown[S1] == ["Said", *burst, "Release"]
    assert shown[A] == [*burst, "Said", "Release"]
    assert shown[B] == ["Page", "Assign", "Frame"]
    assert shown[S2] == shown[C] == []
    assert report.frames == sent == 8


def test_who_measures_frames_counts_those_of_captures() -> None:
    plan = planned(cellular(say("S1", "0ms", FOUR_BLOCKS), gsm={"hold_frames": 0}))
    recorder = MeasuringRecorder(plan.identity())
    report = simulate(plan, recorder)
    assert recorder.frames.frames == report.frames == 8
    assert recorder.frames.message_frames == 1


@pytest.mark.parametrize("decode", [False, True])
def test_the_same_seed_leaves_the_same_bytes(tmp_path: Path, decode: bool) -> None:
    example = load_file(EXAMPLES / "eomp-gsm.toml").data
    data = {**example, "duration": "30s", "drain": "60s", "faults": {"loss": 0.02}}
    left = []
    for name, options in (("one", {}), ("two", {"decode": decode})):
        run_experiment(load({**data, "transport": {"name": "sim", "options": options}}), registry(), tmp_path / name)
        left.append(captures(tmp_path / name))
    assert left[0] == left[1]
    other = load({**data, "seed": 2})
    run_experiment(other, registry(), tmp_path / "other")
    assert captures(tmp_path / "other") != left[0]


# --- protocols and experiments ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 6))
def test_eomp_keeps_its_promises_on_it(tmp_path: Path, seed: int) -> None:
    outcome = run_experiment(load_file(EXAMPLES / "eomp-gsm.toml", seed=seed), registry(), tmp_path / "run")
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 100


def test_relm_runs_on_it_unchanged(tmp_path: Path) -> None:
    data = load_file(EXAMPLES / "relm-plain.toml").data
    data["protocol"]["options"] = {"arq": "10s", "request_retry": "5s"}
    data["topology"]["air"] = {"backend": "gsm"}
    data["workload"]["rate"] = 0.1
    data["mobility"]["dwell"] = "15s"
    outcome = run_experiment(load({**data, "duration": "1min", "drain": "3min"}), registry(), tmp_path / "run")
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 30


@pytest.mark.parametrize("need", ["fifo_air", "reliable_air"])
def test_a_protocol_that_needs_a_better_air_is_refused(need: str) -> None:
    data = {**cellular(), "protocol": {"name": "cells", "variant": f"needs-{need}"}}
    assert refusal(data).startswith("topology.air.backend: cells (needs-")


GSM_AIR = {"backend": "gsm"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (changed("topology.air.backend", "smoke", cells()), "topology.air.backend: invalid enum value 'smoke'"),
        (changed("topology.air.gsm", {}, cells()), "topology.air.gsm: is for the back-end 'gsm'"),
        (changed("topology.air", GSM_AIR, probe()), "topology.air.backend: gsm needs stations"),
        (changed("topology.air", GSM_AIR | {"rate": "1Mbit/s"}, cells()), "topology.air.rate: is for the back-end"),
        (changed("topology.air", GSM_AIR | {"shared": "cell"}, cells()), "topology.air.shared: is for the back-end"),
        (changed("topology.air.gsm", {"chanels": 1}, cellular()), "topology.air.gsm.chanels: unknown key"),
        (changed("topology.air.gsm.channels", 0, cellular()), "topology.air.gsm: `channels` must be from 1"),
        (changed("topology.air.gsm.max_burst", 5, cellular()), "topology.air.gsm.max_burst: expected a duration"),
        (changed("topology.air.gsm.timing", {"agch_blocks": 9}, cellular()), "topology.air.gsm.timing: `agch_blocks`"),
        (changed("topology.air.gsm.timing", {"fast": 1}, cellular()), "topology.air.gsm.timing.fast: unknown key"),
        (changed("transport.name", "udp", cellular()), "topology.air.backend: only the transport 'sim'"),
    ],
)
def test_an_impossible_channel_is_refused_with_its_key(data: dict[str, Any], said: str) -> None:
    assert refusal(data).startswith(said)
