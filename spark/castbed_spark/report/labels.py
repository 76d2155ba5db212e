"""How the report names messages, groups and nodes: as everywhere in Castbed, `B3` or `h7.3`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from castbed.history import Kind
from castbed.values import Mid, group_text
from castbed_spark.report.timeline import Cast

MEMBERS_SHOWN_MAX = 8
MessageKey = tuple[int, int, int, int]
"""Group, writer, number, and life of the writer."""

_NUMBER = re.compile(r"\.?(\d+)(?:~(\d+))?(?:/.*)?")
_WORDS = {
    Kind.SUBMIT: "submits",
    Kind.HOLD: "holds back",
    Kind.DELIVER: "delivers",
    Kind.REFUSE: "refuses",
    Kind.VIEW: "installs",
    Kind.ATTACH: "attaches to",
    Kind.DETACH: "detaches",
    Kind.JOIN: "joins",
    Kind.LEAVE: "leaves",
    Kind.CRASH: "crashes",
    Kind.RESTART: "restarts",
    Kind.START: "starts",
    Kind.STOP: "stops",
    Kind.DROP: "drops a packet:",
    Kind.NOTE: "notes",
    Kind.GAUGE: "gauges",
}


def words(kind: Kind) -> str:
    """What a node does when such an event happens."""
    return _WORDS[kind]


class Labels(msgspec.Struct, frozen=True):
    """Names for the things of one run; messages name their group where the run has several."""

    cast: Cast
    several_groups: bool = False

    def node(self, number: int) -> str:
        return self.cast.name(number)

    def group(self, group: int) -> str:
        return group_text(group, self.node)

    def message(self, key: MessageKey) -> str:
        group, origin, seqno, incarnation = key
        text = Mid(origin, seqno, incarnation).text(self.node)
        return f"{text}/{self.group(group)}" if self.several_groups else text

    def identities(self, label: str) -> list[tuple[int, int, int]]:
        """Writer, number and life of all messages that may be called so: of `h11`, the writer may be h or h1."""
        found = []
        for number, node in enumerate(self.cast.nodes, 1):
            rest = _NUMBER.fullmatch(label.removeprefix(node.name)) if label.startswith(node.name) else None
            if rest is not None:
                found.append((number, int(rest[1]), int(rest[2] or 0)))
        return found

    def view(self, number: int, members: Sequence[int]) -> str:
        """`view 3: A B C`, with the first members."""
        names = [self.node(member) for member in members[:MEMBERS_SHOWN_MAX]]
        more = f" +{len(members) - len(names)}" if len(members) > len(names) else ""
        return f"view {number}: {' '.join(names)}{more}"
