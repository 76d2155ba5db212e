"""Reads a history into facts: one pass over its events, in the order of the list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from weakref import WeakKeyDictionary

import msgspec

from castbed.history import History, Kind, LocalEvent
from castbed.properties.facts import Delivery, Facts, Held, Installed, Membership, Moment, Submission, ViewKey
from castbed.values import Group, NodeNumber

_FROM_THE_START = -1
OF_THE_START = (Kind.JOIN, Kind.VIEW, Kind.ATTACH, Kind.DETACH, Kind.NOTE, Kind.GAUGE)


class Reader:
    """Fills the facts, event by event."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.keys: dict[ViewKey, ViewKey] = {}
        self.lives: dict[NodeNumber, int] = defaultdict(int)
        self.open: dict[NodeNumber, dict[Group, Membership]] = defaultdict(dict)
        self.in_force: dict[NodeNumber, dict[Group, Installed]] = defaultdict(dict)
        self.held: dict[NodeNumber, dict[int, Held]] = defaultdict(dict)
        self.starting: tuple[NodeNumber, int] | None = None
        self.read_by: dict[Kind, Callable[[LocalEvent, Moment], None]] = {
            Kind.START: self.started,
            Kind.RESTART: self.restarted,
            Kind.CRASH: self.crashed,
            Kind.JOIN: self.joined,
            Kind.LEAVE: self.left,
            Kind.ATTACH: self.attached,
            Kind.DETACH: self.detached,
            Kind.SUBMIT: self.submitted,
            Kind.HOLD: self.held_back,
            Kind.DELIVER: self.delivered,
            Kind.VIEW: self.installed,
        }

    def read(self, history: History) -> None:
        for place, event in enumerate(history.events):
            if self.starting is not None and (
                self.starting != (event.node, event.at) or event.kind not in OF_THE_START
            ):
                self.starting = None
            reads = self.read_by.get(event.kind)
            if reads is not None:
                reads(event, (event.at, place))
        for node, held in self.held.items():
            self.facts.holds[node].extend(held.values())

    def number(self, event: LocalEvent) -> int:
        message = event.message
        number = self.facts.numbers.setdefault(message, len(self.facts.messages))
        if number == len(self.facts.messages):
            self.facts.messages.append(message)
        return number

    def started(self, event: LocalEvent, moment: Moment) -> None:  # noqa: ARG002 (all readers look alike)
        self.lives[event.node] += 1
        self.starting = event.node, event.at

    def restarted(self, event: LocalEvent, moment: Moment) -> None:  # noqa: ARG002
        self.lives[event.node] += 1
        if event.number != 1:
            self.facts.memory[event.node] += 1

    def crashed(self, event: LocalEvent, moment: Moment) -> None:
        node = event.node
        for membership in self.open.pop(node, {}).values():
            membership.end = moment
        self.facts.crashes[node].append(moment)
        self.held.pop(node, None)
        for group in self.in_force.pop(node, {}):
            self.facts.last_views.pop((node, group), None)

    def joined(self, event: LocalEvent, moment: Moment) -> None:
        node, group = event.node, event.group
        self.facts.joiners.add(node)
        self.facts.not_left[group].add(node)
        if group not in self.open[node]:
            start = (event.at, _FROM_THE_START) if self.starting is not None else moment
            self.open[node][group] = Membership(event, start)
            self.facts.memberships[node, group].append(self.open[node][group])

    def left(self, event: LocalEvent, moment: Moment) -> None:
        self.facts.not_left[event.group].discard(event.node)
        membership = self.open[event.node].pop(event.group, None)
        if membership is not None:
            membership.end = moment
        held = self.held[event.node]
        for number in [number for number, one in held.items() if one.event.group == event.group]:
            del held[number]

    def attached(self, event: LocalEvent, moment: Moment) -> None:  # noqa: ARG002
        self.facts.away.discard(event.node)

    def detached(self, event: LocalEvent, moment: Moment) -> None:  # noqa: ARG002
        self.facts.away.add(event.node)

    def submitted(self, event: LocalEvent, moment: Moment) -> None:
        number, node = self.number(event), event.node
        if number in self.facts.submissions:
            self.facts.reused.append((self.facts.submissions[number], event))
            return
        view = self.in_force[node].get(event.group)
        member, addressed = event.group in self.open[node], _addressed(event, view)
        submission = Submission(event, number, moment, self.facts.memory[node], member, view, addressed)
        self.facts.submissions[number] = submission
        self.facts.steps[node].append(submission)

    def held_back(self, event: LocalEvent, moment: Moment) -> None:
        number = self.number(event)
        self.held[event.node].setdefault(number, Held(event, number, moment))

    def delivered(self, event: LocalEvent, moment: Moment) -> None:
        number, node, facts = self.number(event), event.node, self.facts
        view = self.in_force[node].get(event.group)
        delivery = Delivery(event, number, moment, facts.memory[node], event.group in self.open[node], view)
        facts.deliveries[node].append(delivery)
        facts.steps[node].append(delivery)
        facts.delivered_by[number].add(node)
        held = self.held[node].pop(number, None)
        if held is not None:
            facts.holds[node].append(msgspec.structs.replace(held, release=delivery))

    def installed(self, event: LocalEvent, moment: Moment) -> None:
        node, group = event.node, event.group
        key = (event.number, frozenset(event.members))
        view = Installed(event, moment[1], self.keys.setdefault(key, key), self.lives[node])
        self.facts.views[node].append(view)
        self.facts.last_views[node, group] = self.in_force[node][group] = view
        if event.local:
            self.facts.local_groups.add(group)


def _addressed(event: LocalEvent, view: Installed | None) -> frozenset[NodeNumber] | None:
    if event.to is not None:
        return frozenset(event.to)
    return view.key[1] if view is not None and not view.event.local else None


_read: WeakKeyDictionary[History, Facts] = WeakKeyDictionary()


def facts_of(history: History) -> Facts:
    """The facts of a history, read once however many properties ask."""
    facts = _read.get(history)
    if facts is None:
        facts = _read[history] = Facts(history.identity)
        Reader(facts).read(history)
    return facts
