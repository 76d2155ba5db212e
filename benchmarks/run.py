#!/usr/bin/env python3
"""Benchmarks, each beside its peer in one run, because machines are noisy: only the ratios mean something.

    python benchmarks/run.py [NAME ...] [--rounds N] [--json]

Names: sim (simulated deliveries per second, captures off and on, against the same model in SimPy), cellular (512 hosts
in 32 cells under EOMP, captures off and on, against real time), step (cost of a step), control (size of the control
information per message), explore (schedules per second of `sb`, on two processes against one), import (start-up time
against bare Python).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

Row = dict[str, Any]
EXPLORING_S = 5.0  # long enough that starting processes hardly counts
SECONDS = 1.0  # of the cell workload per pass: 512 000 deliveries


def row(name: str, unit: str, ours: float, peer: float | None = None, peer_name: str = "", ratio: float = 0.0) -> Row:
    return {"name": name, "unit": unit, "ours": ours, "peer": peer, "peer_name": peer_name, "ratio": ratio or None}


def rate(work: Callable[[], int]) -> float:
    start = time.perf_counter()
    done = work()
    return done / (time.perf_counter() - start)


def compared(
    name: str, unit: str, ours: Callable[[], float], peer: Callable[[], float], peer_name: str, rounds: int
) -> Row:
    """Medians over interleaved passes, and the median of the ratios of each pair of passes."""
    pairs = [(ours(), peer()) for _ in range(rounds)]
    mine, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
    return row(name, unit, mine, theirs, peer_name, statistics.median(one / other for one, other in pairs))


# --- sim ------------------------------------------------------------------------------------------------------------


def planned() -> Any:
    import cells

    from castbed.registry import load_registry
    from castbed_testbed.experiment import load
    from castbed_testbed.plan import make_plan

    return make_plan(load(cells.experiment(SECONDS)).experiment, load_registry({"cells": cells}, installed=True))


def simulated(plan: Any, captures: Path | None) -> int:
    from castbed_testbed.sim.runner import run

    return run(plan, captures).delivered


def with_captures(plan: Any) -> float:
    with tempfile.TemporaryDirectory() as directory:
        return rate(lambda: simulated(plan, Path(directory)))


def sim(rounds: int) -> list[Row]:
    import cells_simpy

    plan, unit = planned(), "deliveries/s"
    assert simulated(plan, None) == cells_simpy.deliveries(SECONDS), "the two models do not do the same"

    def peer() -> float:
        return rate(lambda: cells_simpy.deliveries(SECONDS))

    return [
        compared("sim-cells512", unit, lambda: rate(lambda: simulated(plan, None)), peer, "SimPy, natural", rounds),
        compared("sim-cells512-captures", unit, lambda: with_captures(plan), peer, "SimPy, natural", rounds),
    ]


# --- cellular -------------------------------------------------------------------------------------------------------

CELLULAR_SECONDS = 2.0  # of the default point of the EOMP evaluation per pass: 256 000 deliveries


def cellular(rounds: int) -> list[Row]:
    """Virtual time over time on one core; the peer is real time itself."""
    from cellular import planned as cellular_plan
    from cellular import times_real_time

    plan, rows = cellular_plan(CELLULAR_SECONDS), []
    for name, captures in (("cellular", False), ("cellular-captures", True)):
        passes = [times_real_time(plan, captures) for _ in range(rounds)]
        ours = statistics.median(passes)
        rows.append(row(name, "virtual s/s", ours, 1.0, "real time", ours))
    return rows


# --- step -----------------------------------------------------------------------------------------------------------


def step(rounds: int) -> list[Row]:
    from castbed import Context, Mid, Received
    from castbed.topology import broadcast
    from castbed_plugins.sb import PROTOCOL
    from castbed_plugins.sb.packets import Data

    count = 20_000
    events = [Received(Data(1, Mid(2, number), b"x" * 64, None), 2) for number in range(1, count + 1)]
    rows = []
    for name, variant in PROTOCOL.variants.items():

        def steps(make: Any = variant.roles["member"]) -> float:
            machine = make(Context(1, broadcast(("A", "B")), Random(1)), PROTOCOL.options())
            taken = machine.step
            return 1e6 / rate(lambda: len([taken(event, 0) for event in events]))

        rows.append(row(f"step-sb-{name}", "us/step", statistics.median(steps() for _ in range(rounds))))
    return rows + _codec(rounds)


def _codec(rounds: int) -> list[Row]:
    from castbed import Codec, Mid
    from castbed_plugins.sb.packets import Data

    codec, packet = Codec({"sb": (Data,)}), Data(1, Mid(1, 7), b"x" * 64, Mid(2, 3))
    frame = codec.encode(packet, 1)
    count = 20_000

    def median(work: Callable[[], object]) -> float:
        return statistics.median(rate(lambda: len([work() for _ in range(count)])) for _ in range(rounds))

    encode, decode = median(lambda: codec.encode(packet, 1)), median(lambda: codec.decode(frame))
    return [row("encode-sb-data", "us/frame", 1e6 / encode), row("decode-sb-data", "us/frame", 1e6 / decode)]


# --- control --------------------------------------------------------------------------------------------------------


def control(rounds: int) -> list[Row]:  # noqa: ARG001 (sizes do not vary)
    """Control information per message as the number of members grows, against a vector clock of 4-byte entries."""
    from castbed.registry import load_registry
    from castbed_testbed.experiment import load
    from castbed_testbed.runner import run_experiment

    rows = []
    for members in (10, 50, 100):
        data = {
            "name": "control", "protocol": {"name": "sb"}, "duration": "2s", "drain": "1s",
            "topology": {"kind": "broadcast", "members": members, "air": {"rate": "100Mbit/s"}},
            "workload": {"kind": "steady", "rate": 1, "replies": 0.5},
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as directory:
            summary = run_experiment(load(data), load_registry(), Path(directory) / "run").summary
        ours, vector = summary["control_bytes"]["mean"], 4 * members
        rows.append(row(f"control-sb-{members}", "bytes/message", ours, vector, "vector clock", ours / vector))
    return rows


# --- explore --------------------------------------------------------------------------------------------------------


def explore(rounds: int) -> list[Row]:
    """Explored and judged schedules of `sb` with 3 members and 5 messages, on two processes and on one."""
    from castbed_testbed.explore.campaign import Budget, explore
    from castbed_testbed.explore.configurations import Model
    from castbed_testbed.explore.engine import Request

    def schedules_per_second(variant: str, jobs: int) -> float:
        request = Request("sb", variant, (), Model({"members": 3, "messages": 5}))
        report = explore(request, Budget(seconds=EXPLORING_S), jobs=jobs)
        assert not report.findings, f"sb ({variant}) violates {report.findings[0].property}"
        return report.schedules / report.wall_s

    def both(variant: str) -> Row:
        pair = (lambda: schedules_per_second(variant, 2)), (lambda: schedules_per_second(variant, 1))
        return compared(f"explore-sb-{variant}", "schedules/s", *pair, "one process", rounds)

    return [both("published"), both("repaired")]


# --- import ---------------------------------------------------------------------------------------------------------


def start_up(rounds: int) -> list[Row]:
    def timed(*arguments: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        return (time.perf_counter() - start) * 1000

    def bare() -> float:
        return timed("-c", "pass")

    return [
        compared("import-castbed", "ms", lambda: timed("-c", "import castbed"), bare, "bare Python", rounds),
        compared("castbed-help", "ms", lambda: timed("-m", "castbed", "--help"), bare, "bare Python", rounds),
    ]


BENCHMARKS: dict[str, Callable[[int], list[Row]]] = {
    "sim": sim,
    "cellular": cellular,
    "step": step,
    "control": control,
    "explore": explore,
    "import": start_up,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*BENCHMARKS, []], help=", ".join(BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=5, help="interleaved passes of which the median counts")
    parser.add_argument("--json", action="store_true", help="print rows as one JSON document")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for name in arguments.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += BENCHMARKS[name](arguments.rounds)
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'benchmark':26}{'ours':>14}{'peer':>14}{'ratio':>9}  unit, peer")
    for r in rows:
        peer = f"{r['peer']:14,.6g}" if r["peer"] is not None else " " * 14
        ratio = f"{r['ratio']:9.3g}" if r["ratio"] else " " * 9
        what = ", ".join(filter(None, (r["unit"], r["peer_name"])))
        print(f"{r['name']:26}{r['ours']:14,.6g}{peer}{ratio}  {what}")


if __name__ == "__main__":
    main()
