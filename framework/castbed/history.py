"""What happened in a run, node by node: the only thing that checks look at.

A history is read from captures (or collected in memory by a host that writes none); it is the list of local events of
all nodes. Events of one node are in the order in which they happened there. Times of different nodes may be compared
only as far as their clocks agree; checks use the order at each node and the identities of messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from typing import Any

import msgspec

from castbed.values import Group, Mid, NodeNumber, View, group_text


class Kind(IntEnum):
    """What a local event says. The numbers are part of the capture format."""

    START = 1
    CRASH = 2
    RESTART = 3
    SUBMIT = 4
    REFUSE = 5
    HOLD = 6
    DELIVER = 7
    VIEW = 8
    ATTACH = 9
    DETACH = 10
    JOIN = 11
    LEAVE = 12
    DROP = 13
    NOTE = 14
    STOP = 15
    GAUGE = 16


class LocalEvent(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened at one node.

    Which fields say something depends on the kind: SUBMIT, REFUSE, HOLD and DELIVER have a message (`group`, `mid`,
    `parent`, `size`, `digest`, for HOLD `waiting_for`, for SUBMIT `to` when it is not the whole group), VIEW has
    `group`, `number`, `members`, `stations`, `local`, ATTACH has `peer`, JOIN and LEAVE `group`, DROP and NOTE `text`,
    GAUGE `text` (what) and `number` (how much of it is in use from then on).
    RESTART has `number` 1 when the node's storage survived, else 0. A CRASH ends all memberships; after a RESTART the
    JOIN events come again. Static groups leave JOIN events at the start of each member.
    """

    node: NodeNumber
    at: int
    kind: Kind
    group: Group = 0
    mid: Mid | None = None
    parent: Mid | None = None
    number: int = 0
    peer: NodeNumber = 0
    size: int = 0
    digest: int = 0
    waiting_for: tuple[Mid, ...] = ()
    members: tuple[NodeNumber, ...] = ()
    stations: tuple[NodeNumber, ...] = ()
    to: tuple[NodeNumber, ...] | None = None
    local: bool = False
    text: str = ""

    @property
    def message(self) -> tuple[Group, Mid]:
        """The full identity of the message: numbers are unique only within a group."""
        assert self.mid is not None
        return self.group, self.mid

    @property
    def view(self) -> View:
        return View(self.group, self.number, self.members, self.stations, self.local)


class RunIdentity(msgspec.Struct, frozen=True):
    """Which run a capture belongs to; the same in the captures of all its nodes. Names are in order of node numbers."""

    run: str = "run"
    seed: int = 0
    protocol: str = ""
    variant: str = ""
    transport: str = ""
    model: str = "broadcast"
    names: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    guarantees: tuple[str, ...] = ()

    def name(self, number: NodeNumber) -> str:
        return self.names[number - 1] if 0 < number <= len(self.names) else f"#{number}"


class History:
    """The local events of a run, and ways to look at them."""

    def __init__(self, identity: RunIdentity, events: Iterable[LocalEvent]) -> None:
        self.identity = identity
        self.events: list[LocalEvent] = list(events)

    @cached_property
    def by_node(self) -> Mapping[NodeNumber, list[LocalEvent]]:
        """Each node's events, in the order in which they happened there."""
        lanes: dict[NodeNumber, list[LocalEvent]] = defaultdict(list)
        for event in self.events:
            lanes[event.node].append(event)
        return dict(sorted(lanes.items()))

    def of(self, *kinds: Kind) -> list[LocalEvent]:
        return [event for event in self.events if event.kind in kinds]

    @cached_property
    def submissions(self) -> Mapping[tuple[Group, Mid], list[LocalEvent]]:
        """SUBMIT events by message; more than one for a message is a violation in itself."""
        found: dict[tuple[Group, Mid], list[LocalEvent]] = {}
        for event in self.of(Kind.SUBMIT):
            found.setdefault(event.message, []).append(event)
        return found

    @cached_property
    def deliveries(self) -> Mapping[NodeNumber, list[LocalEvent]]:
        """DELIVER events by node, in order."""
        return {node: [event for event in lane if event.kind == Kind.DELIVER] for node, lane in self.by_node.items()}

    # --- words for people --------------------------------------------------------------------------------------------

    def name(self, node: NodeNumber) -> str:
        return self.identity.name(node)

    def mid_text(self, mid: Mid | None) -> str:
        return "ROOT" if mid is None else mid.text(self.name)

    def group_text(self, group: Group) -> str:
        return group_text(group, self.name)

    def summary_fields(self) -> dict[str, Any]:
        """What identifies the run, for summaries."""
        identity = self.identity
        return {
            "run": identity.run,
            "protocol": identity.protocol,
            "variant": identity.variant,
            "transport": identity.transport,
            "seed": identity.seed,
        }
