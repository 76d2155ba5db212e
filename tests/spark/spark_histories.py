"""Random histories for the checks: some in order, some broken on purpose, as tables and as captures are read.

A sequencer is imagined: messages have one order, and every member delivers those of its groups in it. Nodes crash,
leave, come back and are away now and then, whatever the history is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any
from zlib import crc32

import msgspec

from castbed.history import History, Kind, LocalEvent, RunIdentity
from castbed.values import Mid
from castbed_spark.schemas import EVENTS, NODES, ddl

STEPS = 60
PLACE = 8
NAMES = tuple("ABCDE")


class Teller:
    """Makes one history in order."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes = range(1, random.randint(3, len(NAMES)) + 1)
        self.groups = {1: set(self.nodes)} | ({2: set(random.sample(self.nodes, 2))} if random.random() < 0.5 else {})
        self.at = 0
        self.events: list[LocalEvent] = []
        self.order: list[LocalEvent] = []
        self.next = dict.fromkeys(self.nodes, 0)
        self.count = dict.fromkeys(self.nodes, 0)
        self.lives = dict.fromkeys(self.nodes, 0)
        self.down: set[int] = set()
        self.view = {1: 1}

    def add(self, node: int, kind: Kind, **fields: Any) -> None:
        self.events.append(LocalEvent(node, self.at, kind, **fields))

    def tell(self) -> list[LocalEvent]:
        for node in self.nodes:
            self.add(node, Kind.START)
            self.join(node)
        rare = [self.crash, self.leave, self.away] if self.random.random() < 0.4 else []
        for _ in range(STEPS):
            self.at += self.random.choice((0, 1, 5)) * 1000
            act = self.random.choice([self.submit, self.deliver, self.deliver, self.deliver, self.hold, *rare])
            act(self.random.choice(list(self.nodes)))
        for _ in range(STEPS):
            for node in self.nodes:
                self.at += 100
                self.deliver(node)
        return self.events

    def join(self, node: int) -> None:
        for group, members in self.groups.items():
            if node in members:
                self.add(node, Kind.JOIN, group=group)
                if group == 1:
                    self.add(node, Kind.VIEW, group=1, number=self.view[1], members=tuple(sorted(members)))

    def submit(self, node: int) -> None:
        if node in self.down:
            return
        group = self.random.choice([group for group, members in self.groups.items() if node in members] or [1])
        delivered = [event for event in self.order[: self.next[node]] if event.group == group]
        parent = self.random.choice(delivered).mid if delivered and self.random.random() < 0.5 else None
        self.count[node] += 1
        mid = Mid(node, self.count[node], self.lives[node])
        payload = str(mid).encode()
        to = tuple(self.random.sample(self.nodes, 2)) if self.random.random() < 0.1 else None
        said = {"group": group, "mid": mid, "parent": parent, "size": len(payload), "digest": crc32(payload)}
        self.add(node, Kind.SUBMIT, to=to, **said)
        self.order.append(self.events[-1])

    def _following(self, node: int) -> LocalEvent | None:
        while self.next[node] < len(self.order):
            event = self.order[self.next[node]]
            if node in (event.to or self.groups[event.group]):
                return event
            self.next[node] += 1
        return None

    def deliver(self, node: int) -> None:
        event = None if node in self.down else self._following(node)
        for _ in range(self.random.choice((1, 1, 3))):
            if event is not None:
                self.events.append(msgspec.structs.replace(event, node=node, at=self.at, kind=Kind.DELIVER, to=None))
                self.next[node] += 1
                event = self._following(node)

    def hold(self, node: int) -> None:
        first = None if node in self.down else self._following(node)
        later = [event for event in self.order[self.next[node] + 1 :] if node in (event.to or self.groups[event.group])]
        if first is not None and later:
            held = msgspec.structs.replace(later[0], node=node, at=self.at, kind=Kind.HOLD, to=None)
            self.events.append(msgspec.structs.replace(held, waiting_for=(first.mid,)))

    def crash(self, node: int) -> None:
        if node in self.down:
            self.down.discard(node)
            self.lives[node] += 1
            self.add(node, Kind.RESTART, number=self.random.choice((0, 1)))
            self.join(node)
        elif self.random.random() < 0.4:
            self.down.add(node)
            self.add(node, Kind.CRASH)

    def leave(self, node: int) -> None:
        if node in self.down or self.random.random() < 0.6:
            return
        members = self.groups[1]
        self.view[1] += 1
        if node in members and len(members) > 2:
            members.discard(node)
            self.add(node, Kind.LEAVE, group=1)
        elif node not in members:
            members.add(node)
            self.add(node, Kind.JOIN, group=1)
        for member in sorted(members - self.down):
            self.add(member, Kind.VIEW, group=1, number=self.view[1], members=tuple(sorted(members)))

    def away(self, node: int) -> None:
        self.add(node, self.random.choice((Kind.DETACH, Kind.ATTACH, Kind.ATTACH)))


# --- breaking --------------------------------------------------------------------------------------------------------


def _dropped(random: Random, events: list[LocalEvent]) -> None:
    del events[random.choice([at for at, event in enumerate(events) if event.kind in (Kind.DELIVER, Kind.SUBMIT)])]


def _repeated(random: Random, events: list[LocalEvent]) -> None:
    at = _one(random, events, Kind.DELIVER)
    events.insert(random.randint(at + 1, len(events)), events[at])


def _swapped(random: Random, events: list[LocalEvent]) -> None:
    at = _one(random, events, Kind.DELIVER)
    others = [o for o, e in enumerate(events) if e.kind == Kind.DELIVER and e.node == events[at].node and o > at]
    if others:
        other = random.choice(others[:3])
        mine, theirs = events[at], events[other]
        events[at] = msgspec.structs.replace(theirs, at=mine.at)
        events[other] = msgspec.structs.replace(mine, at=theirs.at)


def _injected(random: Random, events: list[LocalEvent]) -> None:
    at = _one(random, events, Kind.DELIVER)
    events.insert(at, msgspec.structs.replace(events[at], mid=Mid(random.randint(1, 3), random.randint(1, 9))))


def _altered(random: Random, events: list[LocalEvent]) -> None:
    at = _one(random, events, Kind.DELIVER)
    events[at] = msgspec.structs.replace(events[at], digest=7, parent=random.choice((None, Mid(1, 1))))


def _misplaced(random: Random, events: list[LocalEvent]) -> None:
    at = _one(random, events, Kind.DELIVER)
    events[at] = msgspec.structs.replace(events[at], node=random.randint(1, 3))


def _reviewed(random: Random, events: list[LocalEvent]) -> None:
    at = _one(random, events, Kind.VIEW)
    fields: dict[str, Any] = random.choice(({"number": 1}, {"members": (1, 2)}, {"local": True}, {"group": 2}))
    events[at] = msgspec.structs.replace(events[at], **fields)


def _held_on(random: Random, events: list[LocalEvent]) -> None:
    at = _one(random, events, Kind.DELIVER)
    held = msgspec.structs.replace(events[at], kind=Kind.HOLD)
    start = random.randint(0, at)
    events.insert(start, msgspec.structs.replace(held, at=events[start].at))


BREAKS: tuple[Callable[[Random, list[LocalEvent]], None], ...] = (
    _dropped, _repeated, _swapped, _injected, _altered, _misplaced, _reviewed, _held_on,
)  # fmt: skip


def _one(random: Random, events: list[LocalEvent], kind: Kind) -> int:
    return random.choice([at for at, event in enumerate(events) if event.kind == kind] or [0])


def random_history(seed: int, broken: bool) -> History:
    """As it would be read from captures: by time, then node."""
    random = Random(seed)
    teller = Teller(random)
    events = teller.tell()
    for _ in range(random.randint(1, 4) if broken else 0):
        random.choice(BREAKS)(random, events)
    guarantees = ("semantic",) if random.random() < 0.5 else ()
    identity = RunIdentity(f"h{seed}", seed, names=NAMES, roles=("member",) * len(NAMES), guarantees=guarantees)
    return History(identity, sorted(events, key=lambda event: (event.at, event.node)))


# --- as tables -------------------------------------------------------------------------------------------------------


def tables(spark: Any, histories: Iterable[History]) -> dict[str, Any]:
    """The tables `events` and `nodes` of these histories, each a run of its own."""
    kept = list(histories)
    events = [row for history in kept for row in _event_rows(history)]
    nodes = [_node_row(history, node) for history in kept for node in history.by_node]
    return {
        "events": spark.createDataFrame(events, ddl(EVENTS)),
        "nodes": spark.createDataFrame(nodes, ddl(NODES)),
    }


def _event_rows(history: History) -> Iterable[dict[str, Any]]:
    for lane in history.by_node.values():
        for place, event in enumerate(lane, start=1):
            yield _event_row(history.identity.run, event, place * PLACE)


def _event_row(run: str, event: LocalEvent, place: int) -> dict[str, Any]:
    return {
        "run": run, "node": event.node, "place": place, "at": event.at, "kind": int(event.kind),
        "event": event.kind.name, "group": event.group, **_mid("", event.mid), **_mid("parent_", event.parent),
        "number": event.number, "peer": event.peer, "size": event.size, "digest": event.digest,
        "waiting_for": [_mid("", mid) for mid in event.waiting_for] or None, "members": list(event.members) or None,
        "stations": list(event.stations) or None, "to": None if event.to is None else list(event.to),
        "local": event.local, "text": event.text,
    }  # fmt: skip


def _mid(prefix: str, mid: Mid | None) -> dict[str, Any]:
    values = (None, None, None) if mid is None else (mid.sender, mid.seqno, mid.incarnation)
    return {f"{prefix}{name}": value for name, value in zip(("origin", "seqno", "incarnation"), values, strict=True)}


def _node_row(history: History, node: int) -> dict[str, Any]:
    of = history.identity
    return {
        "run": of.run, "node": node, "name": of.name(node), "role": "member", "experiment": of.run, "seed": of.seed,
        "protocol": of.protocol, "variant": of.variant, "transport": of.transport, "model": of.model,
        "guarantees": list(of.guarantees), "names": list(of.names), "file": "",
    }  # fmt: skip
