"""Who begins a replicated application with its first state; everybody else has to ask for the state of the others."""

from __future__ import annotations

from collections.abc import Sequence

from castbed import Group, NodeNumber, Setting


def founders(setting: Setting, named: Sequence[str] | None, group: Group) -> tuple[NodeNumber, ...]:
    """The named nodes, or whom the topology lists in the group, in order of their numbers."""
    if named is None:
        return tuple(sorted(setting.topology.groups.get(group, ())))
    return tuple(sorted(setting.topology.number(name) for name in named))


def is_founder(setting: Setting, named: Sequence[str] | None, group: Group, now: int) -> bool:
    """Only who is there when the run begins founds: a node that starts later has missed something."""
    return now == 0 and setting.me in founders(setting, named, group)
