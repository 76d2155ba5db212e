"""What the repair layer costs: frames, bytes on the air and latency of `sb`, with the layer and without, by loss.

    python benchmarks/repair_cost.py [--members 6] [--rate 20] [--seconds 10] [--json]

`sb` as published needs an air that loses nothing; the first row is what it costs there, without the layer. The last
rows are `sb` as repaired, which brings a repair of its own (digests). All in the simulator: equal on every machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from castbed import Registry, load_registry
from castbed_testbed.experiment import load
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import MeasuringRecorder
from castbed_testbed.sim.runner import simulate
from castbed_testbed.summary import history_figures

LOSSES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3)
ETHERNET_BYTES = 14


class BytesRecorder(MeasuringRecorder):
    """Also counts bytes on the air."""

    bytes_sent = 0

    def _measured(self, frame: bytes) -> None:
        super()._measured(frame)
        self.bytes_sent += len(frame) + ETHERNET_BYTES


def measured(
    registry: Registry, arguments: argparse.Namespace, variant: str, loss: float, repair: dict[str, Any] | None
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": "repair-cost",
        "protocol": {"name": "sb", "variant": variant},
        "seed": 1,
        "duration": f"{arguments.seconds}s",
        "drain": "10s",
        "topology": {"kind": "broadcast", "members": arguments.members, "air": {"rate": "11Mbit/s", "delay": "1ms"}},
        "workload": {"kind": "steady", "rate": arguments.rate, "size": "100B", "replies": 0.5},
    }
    data |= ({"faults": {"loss": loss}} if loss else {}) | ({"repair": repair} if repair is not None else {})
    plan = make_plan(load(data).experiment, registry)
    recorder = BytesRecorder(plan.identity())
    simulate(plan, recorder)
    history = recorder.history()
    figures = history_figures(history, recorder.frames)
    broken = registry.violations(history, plan.chosen.variant.guarantees, "guarantees")
    return {
        "variant": variant,
        "layer": "none" if repair is None else "fifo" if repair else "yes",
        "loss": loss,
        "messages": figures["submitted"],
        "lost_deliveries": figures["expected"] - figures["delivered"],
        "violated": sum(1 for found in broken.values() if found),
        "frames_per_message": round(figures["frames"] / figures["submitted"], 2),
        "bytes_per_message": round(recorder.bytes_sent / figures["submitted"]),
        "control_bytes": figures["control_bytes"]["mean"],
        "p50_ms": round(figures["latency_ms"]["p50"], 1),
        "p99_ms": round(figures["latency_ms"]["p99"], 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, default=6)
    parser.add_argument("--rate", type=int, default=20, help="messages per second and member")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    registry = load_registry()
    wanted: list[tuple[str, float, dict[str, Any] | None]] = [("published", 0.0, None)]
    wanted += [("published", loss, {}) for loss in LOSSES]
    wanted += [("published", 0.2, {"fifo": True})]
    wanted += [("repaired", loss, None) for loss in (0.0, 0.05, 0.2)]
    rows = [measured(registry, arguments, variant, loss, repair) for variant, loss, repair in wanted]
    if arguments.json:
        print(json.dumps(rows))
    else:
        print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
        for row in rows:
            print("| " + " | ".join(str(value) for value in row.values()) + " |")
    return 1 if any(row["violated"] or row["lost_deliveries"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
