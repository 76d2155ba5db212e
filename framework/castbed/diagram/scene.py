"""What a diagram shows, before it is drawn: lanes, moments, marks, and how much was left out.

A scene holds the events it was asked for, the submission of each message among them, and the holds that ended with a
delivery among them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from castbed.history import History, Kind, LocalEvent
from castbed.values import Group, Mid, NodeNumber

LANES_MAX = 12
EVENTS_MAX = 48
MEMBERS_SHOWN_MAX = 4

MessageKey = tuple[Group, Mid]


class Scene(msgspec.Struct, frozen=True):
    """The events of a diagram in time order, lane by lane.

    `marked` are the events that show what is wrong, `absent` the messages that a node should have delivered and never
    did. `lanes_out` and `events_out` count what did not fit.
    """

    history: History
    lanes: tuple[NodeNumber, ...]
    events: tuple[LocalEvent, ...]
    marked: frozenset[LocalEvent]
    absent: tuple[tuple[NodeNumber, MessageKey], ...]
    lanes_out: int = 0
    events_out: int = 0

    def moments(self) -> list[list[LocalEvent]]:
        """The events of each moment together."""
        found: dict[int, list[LocalEvent]] = {}
        for event in self.events:
            found.setdefault(event.at, []).append(event)
        return list(found.values())

    def message_text(self, message: MessageKey) -> str:
        """`A1`, and the group where messages of several groups are shown."""
        group, mid = message
        groups = {event.group for event in self.events if event.mid is not None}
        text = self.history.mid_text(mid)
        return text if len(groups) < 2 else f"{text}/{self.history.group_text(group)}"

    def label(self, event: LocalEvent) -> str:
        """What the event is about, in a word or two."""
        if event.mid is not None:
            return self.message_text(event.message)
        if event.kind == Kind.VIEW:
            return f"view {event.number}: {self._members(event)}"
        if event.kind in (Kind.JOIN, Kind.LEAVE):
            return f"{event.kind.name.lower()} {self.history.group_text(event.group)}"
        return event.kind.name.lower()

    def _members(self, event: LocalEvent) -> str:
        names = [self.history.name(node) for node in event.members]
        more = len(names) - MEMBERS_SHOWN_MAX
        return " ".join(names[:MEMBERS_SHOWN_MAX]) + (f" +{more}" if more > 0 else "")

    def left_out(self) -> str:
        """`3 nodes and 12 events are left out`, or nothing."""
        parts = [
            f"{count} {what}{'s' if count > 1 else ''}"
            for count, what in ((self.lanes_out, "node"), (self.events_out, "event"))
            if count
        ]
        are = "is" if self.lanes_out + self.events_out == 1 else "are"
        return f"{' and '.join(parts)} {are} left out" if parts else ""


def scene(
    history: History,
    events: Iterable[LocalEvent],
    marked: Collection[LocalEvent] | None = None,
    lanes_max: int = LANES_MAX,
) -> Scene:
    """The scene around these events; without `marked` it is worked out what to mark."""
    asked = list(events)
    absent = _absent(history, asked)
    wrong = frozenset(_wrong(asked) if marked is None and not absent else marked or ())
    found = _in_order(history, asked)
    lanes = _lanes(found, wrong, absent, lanes_max)
    shown = [event for event in found if event.node in lanes]
    kept = _fitting(shown, wrong, set(asked))
    return Scene(
        history,
        lanes,
        tuple(kept),
        wrong,
        tuple((node, message) for node, message in absent if node in lanes),
        len({event.node for event in found}) - len(lanes),
        len(found) - len(kept),
    )


def _in_order(history: History, asked: list[LocalEvent]) -> list[LocalEvent]:
    """The events asked for and those that belong to them, as they happened."""
    wanted = set(asked)
    messages = {event.message for event in asked if event.mid is not None}
    delivered = {(event.node, event.message) for event in asked if event.kind == Kind.DELIVER}
    found = [
        event
        for event in history.events
        if event in wanted
        or (event.kind == Kind.SUBMIT and event.message in messages)
        or (event.kind == Kind.HOLD and (event.node, event.message) in delivered)
    ]
    return sorted(found, key=lambda event: event.at)


def _wrong(asked: list[LocalEvent]) -> list[LocalEvent]:
    """The deliveries that are not there to explain a later submission of the same node; if there is none, the end."""
    wrong = [
        event
        for at, event in enumerate(asked)
        if event.kind == Kind.DELIVER
        and not any(later.kind == Kind.SUBMIT and later.node == event.node for later in asked[at:])
    ]
    return wrong or asked[-1:]


def _absent(history: History, asked: list[LocalEvent]) -> list[tuple[NodeNumber, MessageKey]]:
    """Who is shown by a JOIN although it never delivered a message that is shown submitted."""
    joined = dict.fromkeys(event.node for event in asked if event.kind == Kind.JOIN)
    messages = [event.message for event in asked if event.kind == Kind.SUBMIT]
    return [
        (node, message)
        for node in joined
        for message in messages
        if all(event.message != message for event in history.deliveries.get(node, ()))
    ]


def _lanes(
    events: list[LocalEvent],
    wrong: Collection[LocalEvent],
    absent: list[tuple[NodeNumber, MessageKey]],
    lanes_max: int,
) -> tuple[NodeNumber, ...]:
    """The nodes shown, in order of their numbers; where they are too many, those with something wrong come first."""
    important = {event.node for event in wrong} | {node for node, _ in absent}
    nodes = sorted({event.node for event in events}, key=lambda node: (node not in important, node))
    return tuple(sorted(nodes[:lanes_max]))


def _fitting(
    events: list[LocalEvent], wrong: Collection[LocalEvent], asked: Collection[LocalEvent]
) -> list[LocalEvent]:
    """As many events as fit; what is wrong comes first, then what was asked for, the earlier before the later."""
    if len(events) <= EVENTS_MAX:
        return events
    ranked = sorted(range(len(events)), key=lambda at: (events[at] not in wrong, events[at] not in asked, at))
    return [events[at] for at in sorted(ranked[:EVENTS_MAX])]
