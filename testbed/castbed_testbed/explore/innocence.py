"""A quick look that can only acquit: of a history in which plainly nothing is wrong, no check finds a violation.

Most explored histories are like that, and reading them once costs a tenth of what all checks cost. What is not plain (a
crash, a departure, a view, a message that somebody lacks, a wait that did not end with its parent) is left to the
checks, and so is every property that this page does not know. A test compares both on many histories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from castbed.history import Kind, LocalEvent
from castbed.properties import CHECKS
from castbed.values import Group, NodeNumber

_KNOWN = frozenset(
    {
        "integrity", "no_duplication", "agreement", "validity", "exactly_once", "liveness", "recovery", "semantic",
        "no_needless_wait", "fifo", "total",
    }
)  # fmt: skip
_OURS: Mapping[str, Callable[..., Any]] = {check.name: check.violations for check in CHECKS}
_SILENT = frozenset({Kind.NOTE, Kind.DROP, Kind.REFUSE})
_AT_START = frozenset({Kind.START, Kind.JOIN, Kind.VIEW, Kind.ATTACH})


def can_judge(checks: Mapping[str, Callable[..., Any]], guarantees: tuple[str, ...]) -> bool:
    """Whether this page knows all of these checks; waits are judged only where they are for parents."""
    ours = all(name in _KNOWN and _OURS[name] is check for name, check in checks.items())
    return ours and ("no_needless_wait" not in checks or ("semantic" in guarantees and "semantic" in checks))


class Innocence:
    """The quick look for worlds of one arena: all members of its groups from the start to the end.

    `start` is what happens in each of its worlds before anything is chosen. Groups have nothing to do with each other
    here, so that `total` is known for one group only.
    """

    def __init__(
        self,
        checks: Mapping[str, Callable[..., Any]],
        groups: Mapping[Group, tuple[NodeNumber, ...]],
        start: list[LocalEvent],
    ) -> None:
        self.groups = groups
        self.start = start
        self.plain = all(event.kind in _AT_START for event in start) and ("total" not in checks or len(groups) == 1)
        self.semantic = "semantic" in checks
        self.fifo = "fifo" in checks
        self.total = "total" in checks

    def acquits(self, events: list[LocalEvent]) -> bool:
        """Whether plainly nothing is wrong."""
        begun = len(self.start)
        if not self.plain or events[:begun] != self.start:
            return False
        accounts = {group: _Account(members) for group, members in self.groups.items()}
        for event in events[begun:]:
            kind = event.kind
            if kind in _SILENT:
                continue
            account = accounts.get(event.group)
            if account is None:
                return False
            if kind == Kind.DELIVER:
                if not account.delivered(event, self.semantic):
                    return False
            elif kind == Kind.SUBMIT:
                if not account.is_new(event):
                    return False
            elif kind != Kind.HOLD or not account.waits(event):
                return False
        return all(account.is_settled(self.total, self.fifo) for account in accounts.values())


class _Account:
    """What the members of one group did."""

    __slots__ = ("held", "lanes", "submitted")

    def __init__(self, members: tuple[NodeNumber, ...]) -> None:
        self.submitted: dict[Any, LocalEvent] = {}
        self.lanes: dict[NodeNumber, dict[Any, int]] = {node: {} for node in members}
        self.held: dict[tuple[NodeNumber, Any], Any] = {}

    def is_new(self, event: LocalEvent) -> bool:
        """A member submits to all, for the first time."""
        if event.node not in self.lanes or event.to is not None or event.mid in self.submitted:
            return False
        self.submitted[event.mid] = event
        return True

    def waits(self, event: LocalEvent) -> bool:
        """A member lacks the parent."""
        if event.parent is None or event.node not in self.lanes or event.parent in self.lanes[event.node]:
            return False
        self.held[event.node, event.mid] = event.parent
        return True

    def delivered(self, event: LocalEvent, semantic: bool) -> bool:
        """A member delivers what was submitted, for the first time, after its parent; at once, if it waited."""
        mid, parent = event.mid, event.parent
        sent, lane = self.submitted.get(mid), self.lanes.get(event.node)
        if sent is None or lane is None or mid in lane:
            return False
        if sent.parent != parent or sent.digest != event.digest or sent.size != event.size:
            return False
        if semantic and parent is not None and parent not in lane:
            return False
        if self.held and (event.node, mid) in self.held and lane.get(parent) != event.at:
            return False
        lane[mid] = event.at
        return True

    def is_settled(self, total: bool, fifo: bool) -> bool:
        """Every member has everything, in the orders that are asked for."""
        if any(len(lane) != len(self.submitted) for lane in self.lanes.values()):
            return False
        if not (total or fifo):
            return True
        orders = [list(lane) for lane in self.lanes.values()]
        if total and any(order != orders[0] for order in orders):
            return False
        sent: dict[NodeNumber, list[Any]] = {}
        for mid, event in self.submitted.items() if fifo else ():
            sent.setdefault(event.node, []).append(mid)
        return all([mid for mid in order if mid in set(own)] == own for order in orders for own in sent.values())
