"""What the tests of M2MC share: a bench without declared groups, ways to look into it, and the checks by name."""

from __future__ import annotations

from castbed import History
from castbed import topology as shapes
from castbed.history import Kind
from castbed.properties import CHECKS, Violation
from castbed.testing import Bench
from castbed.values import Group, created_group
from castbed_plugins import m2mc
from castbed_plugins.m2mc.packets import GroupInfo, SyncId

SECOND = 10**9
VIOLATIONS = {check.name: check.violations for check in CHECKS}


def m2mc_bench(names: str, variant: str, start: str | None = None, seed: int = 0) -> Bench:
    """One node per letter; those in `start` (by default all) are up."""
    topology = shapes.broadcast(tuple(names), groups={})
    bench = Bench(m2mc.PROTOCOL, topology, variant, seed=seed, start=False)
    for name in names if start is None else start:
        bench.start(name)
    return bench


def gid(bench: Bench, text: str) -> Group:
    """`1.C` as a number."""
    counter, _, creator = text.partition(".")
    return created_group(int(counter), bench.topology.number(creator))


def create(bench: Bench, node: str, desc: str = "chat") -> Group:
    """Create a group and return its number."""
    bench.ask(node, m2mc.CreateGroup(desc))
    return bench.notices[node][-1].group


def join(bench: Bench, group: str, *nodes: str) -> None:
    for node in nodes:
        bench.ask(node, m2mc.JoinGroup(group))


def members(bench: Bench, group: str, *nodes: str) -> Group:
    """The first node creates the group, the others join, and everything settles."""
    number = create(bench, nodes[0])
    bench.settle()
    join(bench, group, *nodes[1:])
    bench.run(2 * SECOND)
    return number


def numbers(bench: Bench, names: str) -> tuple[int, ...]:
    return tuple(bench.topology.number(name) for name in names)


def row(bench: Bench, node: str, group: str) -> tuple[str, str]:
    """`current` and `departed` of the node's row, as letters in the order of the alphabet."""
    info: GroupInfo = bench.machines[node].gjlp.groups[gid(bench, group)].info()
    return letters(bench, info.current), letters(bench, info.departed)


def letters(bench: Bench, pids: tuple[int, ...]) -> str:
    return "".join(sorted(bench.topology.name(pid) for pid in pids))


def last_view(bench: Bench, node: str) -> str:
    """The members in the last view that the node installed, as letters."""
    number = bench.topology.number(node)
    views = [event for event in bench.events if event.kind == Kind.VIEW and event.node == number]
    return letters(bench, views[-1].members)


def sync_timer(bench: Bench, group: str, requester: str, number: int) -> tuple[str, tuple[str, SyncId]]:
    """The name of the timer before a response."""
    return f"msp {gid(bench, group)}", ("sync", SyncId(bench.topology.number(requester), number))


def broken(where: Bench | History, check: str) -> list[Violation]:
    history = where.history() if isinstance(where, Bench) else where
    return VIOLATIONS[check](history)


def all_broken(bench: Bench) -> dict[str, list[str]]:
    """What the history breaks of all that the variant guarantees, in words."""
    history = bench.history()
    found = {name: VIOLATIONS[name](history) for name in bench.chosen.variant.guarantees}
    return {name: [violation.words for violation in violations] for name, violations in found.items() if violations}
