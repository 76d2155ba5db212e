"""Applications in the simulator, on the total order of `castbed-lamport` or another, open to the test."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from castbed import ApplicationPlugin, Registry, load_registry
from castbed_plugins.eomp import PROTOCOL
from castbed_testbed.playing import play

LAMPORT = Path(__file__).parents[2] / "third_party" / "castbed-lamport" / "src"
SECOND = 1_000_000_000


def registry() -> Registry:
    """What is installed, and the total order of the third-party example."""
    found = load_registry()
    if "lamport" not in found.protocols:
        sys.path.insert(0, str(LAMPORT))
        import castbed_lamport

        found.add_plugin("castbed-lamport", castbed_lamport, "castbed-lamport")
    if "eomp" not in found.protocols:
        found.protocols.add(PROTOCOL)
    return found


REGISTRY = registry()


class Ran:
    """The applications of the hosts of a run, by name."""

    def __init__(self, plugin: ApplicationPlugin, options: dict[str, Any], data: dict[str, Any]) -> None:
        played = play(data, plugin, options, REGISTRY)
        self.report = played.report
        self.applications = {
            name: program
            for name, program in played.programs.items()
            if program.setting.topology.role(program.me) in ("member", "host")
        }

    def __getitem__(self, name: str) -> Any:
        return self.applications[name]

    def all(self) -> list[Any]:
        return list(self.applications.values())


def lamport(names: str | int = "ABC", seconds: float = 2, seed: int = 1, **changes: Any) -> dict[str, Any]:
    """Members on one air on which copies overtake each other."""
    members = list(names) if isinstance(names, str) else names
    air = {"rate": "100Mbit/s", "delay": {"kind": "uniform", "low": "0ms", "high": "40ms"}}
    return {
        "name": "case-study",
        "protocol": {"name": "lamport"},
        "topology": {"kind": "broadcast", "members": members, "air": air},
        "duration": f"{seconds}s",
        "drain": "10s",
        "seed": seed,
        **changes,
    }


def eomp(hosts: int | list[str], seconds: float = 5, seed: int = 1, **changes: Any) -> dict[str, Any]:
    """Hosts in four cells of two regions, with the rates and delays of the paper."""
    topology = {
        "kind": "three_tier",
        "coordinators": 2,
        "stations": 4,
        "hosts": hosts,
        "air": {"rate": "10Mbit/s", "delay": "0ms"},
        "wire": {"rate": "100Mbit/s", "delay": "500us"},
        **changes.pop("topology", {}),
    }
    return {**lamport(1, seconds, seed), "protocol": {"name": "eomp"}, "topology": topology, **changes}
