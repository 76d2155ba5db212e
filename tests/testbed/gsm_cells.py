"""Two cells on the back-end `gsm` of the air, and when things happen there.

A frame is 44 bytes longer than what is said; a block holds 20 bytes and takes 20 ms on average.
"""

from __future__ import annotations

from typing import Any

from testbed_support import MILLISECOND, Seen, cells, script, simulated

from castbed.parts.cell_channel import GsmTiming

GSM = GsmTiming()
FOUR_BLOCKS = "x" * 36
SETUP_MS, BLOCK_MS = 500, 20
S1, S2, A, B, C = range(1, 6)


def cellular(*lines: dict[str, Any], gsm: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Two cells with a, b and c as everywhere, on the cellular channel without propagation delay."""
    air: dict[str, Any] = {"backend": "gsm", "delay": "0ms", "gsm": gsm or {}}
    data = cells(duration="10s", drain="10s", workload=script(*lines))
    data["topology"]["air"] = air
    data["topology"] |= changes.pop("topology", {})
    return {**data, **changes}


def seen(*lines: dict[str, Any], **changes: Any) -> Seen:
    return simulated(cellular(*lines, **changes))


def cut(target: str, block_end: int, source: str = "S1") -> dict[str, Any]:
    """Nothing gets through in the millisecond in which this block ends."""
    start, end = block_end - MILLISECOND // 2, block_end + MILLISECOND // 2
    return {"source": source, "target": target, "start": f"{start}ns", "end": f"{end}ns"}


def frame_ends(at_ms: int, count: int, timeslot: int = 1) -> list[int]:
    """When the traffic blocks of a burst end that is asked for at this time."""
    block = GSM.start_after(GSM.agch_after(GSM.first_pch(GSM.frame_from(at_ms * MILLISECOND))))
    ends = []
    for _ in range(count):
        ends.append(GSM.block_end(block, timeslot))
        block = GSM.traffic_after(block)
    return ends
