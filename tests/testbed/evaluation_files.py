"""A small evaluation that runs in a second: EOMP in four cells, along the message size."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import tomli_w

SMALL: dict[str, Any] = {
    "name": "small",
    "title": "A small one",
    "seeds": 2,
    "measure": {"warm_up": "200ms", "answers": {"handoff": {"Greet": "GreetAck"}}},
    "experiment": {
        "name": "small",
        "duration": "600ms",
        "drain": "200ms",
        "protocol": {"name": "eomp", "variant": "published", "options": {"listen_before_greetack": True}},
        "topology": {
            "kind": "three_tier",
            "coordinators": 2,
            "stations": 4,
            "hosts": 8,
            "air": {"rate": "10Mbit/s", "delay": "0ms", "shared": "uplink", "sizes": "messages"},
            "wire": {"delay": "500us", "transmitter": "node", "fanout": "multicast", "sizes": "messages"},
        },
        "workload": {"kind": "steady", "rate": 40, "senders": ["h1", "h2"]},
        "mobility": {"dwell": {"kind": "exponential", "mean": "100ms"}},
    },
    "x": {"key": "workload.size", "label": "size (B)", "unit": "B", "values": [256, 2048]},
    "series": [
        {"name": "slow", "seeds": 1, "values": [256], "set": {"topology.air.rate": "150kbit/s", "drain": "5s"}},
        {"name": "plain"},
    ],
    "quick": {"seeds": 1, "values": [256], "set": {"duration": "400ms"}},
    "paper": [{"measure": "delay_ms.mean", "series": ["plain"], "values": [2.5, 5.0]}],
    "tables": [{"title": "Delay (ms)", "measure": "delay_ms.mean"}],
    "plots": [{"file": "small", "title": "Delay", "measure": "delay_ms.mean", "label": "ms", "scale": "log"}],
    "accept": [
        {"name": "about", "kind": "within", "series": ["plain"], "at": [256], "low": 2.4, "high": 4},
        {"name": "rises", "kind": "rising", "series": ["plain"]},
    ],
}


def evaluation_data(**changes: Any) -> dict[str, Any]:
    return deepcopy(SMALL) | changes


def evaluation_file(folder: Path, **changes: Any) -> Path:
    """The evaluation as a file in `folder`, with some of its keys changed."""
    path = folder / f"{changes.get('name', 'small')}.toml"
    path.write_text(tomli_w.dumps(evaluation_data(**changes)), encoding="utf-8")
    return path
