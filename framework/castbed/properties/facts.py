"""What the properties know of a history. `castbed.properties.reading` reads it from the events, in one pass.

The words that the properties use:

- *Member.* A node is a member of a group from its JOIN to its LEAVE; a CRASH ends all memberships of the node. A node
  that joins nothing (a station, a coordinator) is a member of nothing.
- *Away.* A node is away after a DETACH, until the next ATTACH; a crash does not move it.
- *Present.* A node is present in a group if it is a member at the end and not away then.
- *Stays.* A node stays in a group if it is present and, since it first joined, never left it nor crashed.
- *Memory.* A RESTART whose storage was lost begins a new memory: what the node did before is forgotten, by it and by
  the properties. A RESTART whose storage survived goes on in the old one.
- *Addressed.* A message addresses the nodes in `to`; without that, the members of the agreed view in which it was
  submitted; without that, everybody who is a member of its group at that moment.
- *Before*, between nodes, is time, and in one moment the order of the list of events. The groups that a node is in from
  its START on precede everything else of that moment: all nodes of a run start together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

import msgspec

from castbed.history import LocalEvent, RunIdentity
from castbed.values import Group, Mid, NodeNumber, group_text

Moment = tuple[int, int]
"""A time, and the place in the list of events, which decides when times are equal."""

ViewKey = tuple[int, frozenset[NodeNumber]]


class Membership(msgspec.Struct):
    """One unbroken stay of a node in a group; `end` is None if it lasts to the end of the run."""

    joined: LocalEvent
    start: Moment
    end: Moment | None = None

    def covers(self, moment: Moment) -> bool:
        return self.start <= moment and (self.end is None or moment < self.end)


class Installed(msgspec.Struct, frozen=True):
    """A view at one node, at its place in the list of events.

    Equal views have the same key, at all nodes; `life` counts the starts of the node.
    """

    event: LocalEvent
    place: int
    key: ViewKey
    life: int


class Submission(msgspec.Struct, frozen=True):
    """A SUBMIT. `addressed` is None when the message is for everybody who is a member at that moment."""

    event: LocalEvent
    number: int
    moment: Moment
    memory: int
    member: bool
    view: Installed | None
    addressed: frozenset[NodeNumber] | None


class Delivery(msgspec.Struct, frozen=True):
    """A DELIVER. `member` says whether the node was a member of the group, `view` is the one in force there."""

    event: LocalEvent
    number: int
    moment: Moment
    memory: int
    member: bool
    view: Installed | None


class Held(msgspec.Struct, frozen=True):
    """A HOLD, and the DELIVER that ended it in the same life of the node, if one did."""

    event: LocalEvent
    number: int
    moment: Moment
    release: Delivery | None = None


class Facts:
    """A history, read. Messages are numbered in the order in which the list of events first names them."""

    def __init__(self, identity: RunIdentity) -> None:
        self.identity = identity
        self.numbers: dict[tuple[Group, Mid], int] = {}
        self.messages: list[tuple[Group, Mid]] = []
        self.submissions: dict[int, Submission] = {}
        self.reused: list[tuple[Submission, LocalEvent]] = []
        self.steps: dict[NodeNumber, list[Submission | Delivery]] = defaultdict(list)
        self.deliveries: dict[NodeNumber, list[Delivery]] = defaultdict(list)
        self.delivered_by: dict[int, set[NodeNumber]] = defaultdict(set)
        self.holds: dict[NodeNumber, list[Held]] = defaultdict(list)
        self.views: dict[NodeNumber, list[Installed]] = defaultdict(list)
        self.last_views: dict[tuple[NodeNumber, Group], Installed] = {}
        self.local_groups: set[Group] = set()
        self.memberships: dict[tuple[NodeNumber, Group], list[Membership]] = defaultdict(list)
        self.not_left: dict[Group, set[NodeNumber]] = defaultdict(set)
        self.joiners: set[NodeNumber] = set()
        self.away: set[NodeNumber] = set()
        self.crashes: dict[NodeNumber, list[Moment]] = defaultdict(list)
        self.memory: dict[NodeNumber, int] = defaultdict(int)

    # --- membership ------------------------------------------------------------------------------------------------

    def is_member(self, node: NodeNumber, group: Group, moment: Moment) -> bool:
        return any(stay.covers(moment) for stay in self.memberships.get((node, group), ()))

    def crashed_after(self, node: NodeNumber, moment: Moment) -> bool:
        return bool(self.crashes.get(node)) and self.crashes[node][-1] > moment

    def crashed_between(self, node: NodeNumber, start: Moment, end: Moment) -> bool:
        return any(start < crash < end for crash in self.crashes.get(node, ()))

    @cached_property
    def present(self) -> dict[Group, set[NodeNumber]]:
        """By group, who is a member at the end and not away."""
        found: dict[Group, set[NodeNumber]] = defaultdict(set)
        for (node, group), stays in self.memberships.items():
            if stays[-1].end is None and node not in self.away:
                found[group].add(node)
        return found

    @cached_property
    def _staying(self) -> dict[Group, tuple[list[Moment], list[NodeNumber]]]:
        """By group, since when which nodes stay, the longest first."""
        found: dict[Group, list[tuple[Moment, NodeNumber]]] = defaultdict(list)
        for (node, group), stays in self.memberships.items():
            if len(stays) == 1 and node in self.present[group]:
                found[group].append((stays[0].start, node))
        return {
            group: ([start for start, _ in rows], [node for _, node in rows])
            for group, rows in ((group, sorted(rows)) for group, rows in found.items())
        }

    def stays(self, node: NodeNumber, group: Group) -> bool:
        return node in self.staying(group)

    def staying(self, group: Group, before: Moment | None = None) -> frozenset[NodeNumber]:
        """Who stays in the group and joined it before this moment."""
        starts, nodes = self._staying.get(group, ([], []))
        return self._first_staying(group, len(nodes) if before is None else bisect_left(starts, before))

    def _first_staying(self, group: Group, count: int) -> frozenset[NodeNumber]:
        cached = self._prefixes.get((group, count))
        if cached is None:
            cached = self._prefixes[group, count] = frozenset(self._staying.get(group, ([], []))[1][:count])
        return cached

    @cached_property
    def _prefixes(self) -> dict[tuple[Group, int], frozenset[NodeNumber]]:
        return {}

    # --- messages --------------------------------------------------------------------------------------------------

    def owed(self, submission: Submission) -> frozenset[NodeNumber]:
        """Who has to deliver the message, if anybody has to: those addressed who stay and joined before."""
        staying = self.staying(submission.event.group, submission.moment)
        return staying if submission.addressed is None else staying & submission.addressed

    def is_for(self, submission: Submission, node: NodeNumber) -> bool:
        """Whether the message addresses the node."""
        if submission.addressed is not None:
            return node in submission.addressed
        return self.is_member(node, submission.event.group, submission.moment)

    def is_bound(self, submission: Submission, node: NodeNumber, until: Moment) -> bool:
        """Whether the message addresses the node and the node neither left its group nor crashed until then."""
        if not self.is_for(submission, node):
            return False
        stays = self.memberships.get((node, submission.event.group))
        if not stays:
            return not self.crashed_between(node, submission.moment, until)
        return any(stay.covers(submission.moment) and stay.covers(until) for stay in stays)

    def vouched(self, submission: Submission) -> bool:
        """Whether the submitter was able to see to its message: it did not crash later and is not away at the end."""
        node = submission.event.node
        return node not in self.away and not self.crashed_after(node, submission.moment)

    def first_deliveries(self, node: NodeNumber) -> Iterator[dict[int, Delivery]]:
        """What the node delivered, by message, in order; repetitions apart, one dictionary per memory."""
        memories: dict[int, dict[int, Delivery]] = {}
        for delivery in self.deliveries.get(node, ()):
            memories.setdefault(delivery.memory, {}).setdefault(delivery.number, delivery)
        yield from memories.values()

    def delivery(self, number: int, node: NodeNumber) -> Delivery:
        """The first delivery of the message at the node; only for nodes in `delivered_by`."""
        return next(delivery for delivery in self.deliveries[node] if delivery.number == number)

    # --- words for people ------------------------------------------------------------------------------------------

    def name(self, node: NodeNumber) -> str:
        return self.identity.name(node)

    def text(self, number: int) -> str:
        """`A1`, and its group where another group has an A1 too."""
        group, mid = self.messages[number]
        text = mid.text(self.name)
        return f"{text} of group {self.group_text(group)}" if mid in self._ambiguous else text

    def group_text(self, group: Group) -> str:
        return group_text(group, self.name)

    @cached_property
    def _ambiguous(self) -> set[Mid]:
        seen: set[Mid] = set()
        return {mid for _, mid in self.messages if mid in seen or seen.add(mid)}  # type: ignore[func-returns-value]
