"""What the tests of RelM share: the network of the vectors, transcripts, moves as on a real air, and the checks."""

from __future__ import annotations

from typing import Any

from castbed import topology as shapes
from castbed.properties import CHECKS
from castbed.testing import Bench
from castbed.testing.bench import Copy
from castbed_plugins import relm
from castbed_plugins.relm.packets import Key

MILLISECOND = 10**6
SECOND = 10**9
VIOLATIONS = {check.name: check.violations for check in CHECKS}
VARIANTS = ("published", "repaired")
TWO_DOMAINS = {"SH1": ("M1",), "SH2": ("M2",)}
THREE_DOMAINS = {"SH1": ("M1",), "SH2": ("M2",), "SH3": ("M3",)}


def relm_bench(
    domains: dict[str, tuple[str, ...]] = TWO_DOMAINS,
    hosts: dict[str, str] | None = None,
    variant: str = "published",
    **options: Any,
) -> Bench:
    """By default the network of the vectors: two supervisors with one station each, a in M1, c in M2."""
    topology = shapes.three_tier(domains, hosts or {"a": "M1", "c": "M2"}, "Q")
    return Bench(relm.PROTOCOL, topology, variant, options=relm.Options(**options))


def line(bench: Bench, copy: Copy) -> str:
    """`SH1>M1 Downward 1`: who sent what to whom, and the number of the message; `~` in front of who is on the air."""
    air = "~" if not bench.topology.wired(bench.topology.number(copy.sender), bench.topology.number(copy.to)) else ""
    mid = getattr(copy.packet, "mid", None)
    return f"{copy.sender}>{air}{copy.to} {type(copy.packet).__name__}" + (f" {mid.seqno}" if mid else "")


def play(bench: Bench) -> list[str]:
    """Let everything arrive in order; returns what did."""
    lines = []
    while bench.in_flight:
        lines.append(line(bench, bench.in_flight[0]))
        bench.arrive(bench.in_flight[0])
    return lines


def is_on_air(bench: Bench, copy: Copy) -> bool:
    return not bench.topology.wired(bench.topology.number(copy.sender), bench.topology.number(copy.to))


def move(bench: Bench, host: str, station: str | None) -> None:
    """What is between the host and its old cell is lost."""
    bench.lose(lambda copy: host in (copy.sender, copy.to))
    bench.move(host, station)


def key(bench: Bench, text: str, group: int = 1) -> Key:
    return group, bench.mid(text)


def expire(bench: Bench, station: str, host: str, text: str) -> None:
    """T_ARQ of one message for one host."""
    bench.expire(station, (bench.topology.number(host), key(bench, text)))


def number(bench: Bench, name: str) -> int:
    return bench.topology.number(name)


def leftovers(bench: Bench) -> dict[str, int]:
    """What supervisors, sources and stations still keep, by name of the state; empty when all is released."""
    counts: dict[str, int] = {}
    for machine in bench.machines.values():
        for name in ("buffer", "pending", "handed_in", "awaiting", "arrivals"):
            counts[name] = counts.get(name, 0) + len(getattr(machine, name, ()))
        counts["queue"] = counts.get("queue", 0) + sum(map(len, getattr(machine, "queue", {}).values()))
    return {name: count for name, count in counts.items() if count}


def broken(bench: Bench) -> dict[str, list[str]]:
    """What the history breaks of all that RelM guarantees, in words."""
    history = bench.history()
    found = {name: VIOLATIONS[name](history) for name in bench.chosen.variant.guarantees}
    return {name: [violation.words for violation in violations] for name, violations in found.items() if violations}
