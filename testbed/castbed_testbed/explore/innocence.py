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
from castbed.values import NodeNumber

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
    """The quick look for worlds of one arena: all members of one group from the start to the end.

    `start` is what happens in each of its worlds before anything is chosen.
    """

    def __init__(
        self,
        checks: Mapping[str, Callable[..., Any]],
        groups: Mapping[int, tuple[NodeNumber, ...]],
        start: list[LocalEvent],
    ) -> None:
        self.group, self.members = next(iter(groups.items()))
        self.start = start
        self.plain = all(event.kind in _AT_START for event in start)
        self.semantic = "semantic" in checks
        self.fifo = "fifo" in checks
        self.total = "total" in checks

    def acquits(self, events: list[LocalEvent]) -> bool:
        """Whether plainly nothing is wrong."""
        begun = len(self.start)
        if not self.plain or events[:begun] != self.start:
            return False
        submitted: dict[Any, LocalEvent] = {}
        lanes: dict[NodeNumber, dict[Any, int]] = {node: {} for node in self.members}
        held: dict[tuple[NodeNumber, Any], Any] = {}
        for event in events[begun:]:
            kind = event.kind
            if kind == Kind.DELIVER:
                if not self._delivered(event, submitted, lanes, held):
                    return False
            elif kind == Kind.SUBMIT:
                if not self._is_new(event, submitted):
                    return False
                submitted[event.mid] = event
            elif kind == Kind.HOLD:
                if event.parent is None or event.node not in lanes or event.parent in lanes[event.node]:
                    return False
                held[event.node, event.mid] = event.parent
            elif kind not in _SILENT:
                return False
        return all(len(lane) == len(submitted) for lane in lanes.values()) and self._in_order(submitted, lanes)

    def _is_new(self, event: LocalEvent, submitted: dict[Any, LocalEvent]) -> bool:
        member = event.node in self.members and event.group == self.group
        return member and event.to is None and event.mid not in submitted

    def _delivered(
        self,
        event: LocalEvent,
        submitted: dict[Any, LocalEvent],
        lanes: dict[NodeNumber, dict[Any, int]],
        held: dict[tuple[NodeNumber, Any], Any],
    ) -> bool:
        """A member delivers what was submitted, for the first time, after its parent; at once, if it waited."""
        mid, parent = event.mid, event.parent
        sent, lane = submitted.get(mid), lanes.get(event.node)
        if sent is None or lane is None or mid in lane or event.group != self.group:
            return False
        if sent.parent != parent or sent.digest != event.digest or sent.size != event.size:
            return False
        if self.semantic and parent is not None and parent not in lane:
            return False
        if held and (event.node, mid) in held and lane.get(parent) != event.at:
            return False
        lane[mid] = event.at
        return True

    def _in_order(self, submitted: dict[Any, LocalEvent], lanes: dict[NodeNumber, dict[Any, int]]) -> bool:
        orders = [list(lane) for lane in lanes.values()]
        if self.total and any(order != orders[0] for order in orders):
            return False
        if not self.fifo:
            return True
        sent: dict[NodeNumber, list[Any]] = {}
        for mid, event in submitted.items():
            sent.setdefault(event.node, []).append(mid)
        return all([mid for mid in order if mid in set(own)] == own for order in orders for own in sent.values())
