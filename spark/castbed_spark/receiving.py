"""What happened to messages at one node, from its whole capture at once. Spark is not needed here.

Deliveries and holds of a node are in its own capture, so all of `deliveries` but the submission is known here, and of
needless waits all but what the writer knew. The rest is found where the steps of a message at all nodes meet.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from castbed.history import Kind
from castbed.properties.waiting import SEMANTIC
from castbed_spark.columns import Condition, Rows
from castbed_spark.grouping import Values, grouped, mixed
from castbed_spark.reading import events_in, walk_through
from castbed_spark.slices import Slice

SUBMITTED, DELIVERED, HELD, MEANWHILE = range(4)
"""Roles of steps. HELD: delivered after a wait that is still to be judged. MEANWHILE: delivered during such a wait."""
NEVER = np.iinfo(np.int64).max
IDENTITY = ("group", "origin", "seqno", "incarnation")
STEP = np.dtype(
    [
        ("key", "u8"), ("role", "u1"), ("group", "i8"), ("origin", "i4"), ("seqno", "i8"), ("incarnation", "i8"),
        ("stay", "i4"), ("place", "i8"), ("at", "i8"), ("copies", "i8"), ("held_place", "i8"), ("held_at", "i8"),
        ("needless_ns", "i8"),
    ]
)  # fmt: skip
_PARENT = ("parent_origin", "parent_seqno", "parent_incarnation")
_RAW = (*IDENTITY, *_PARENT, "place", "at", "kind")
_OF_A_STEP = ("key", *IDENTITY, "stay", "place", "at")
_ENDS = (Kind.CRASH, Kind.LEAVE)
_WANTED = Condition("kind", "in", tuple(int(kind) for kind in (Kind.SUBMIT, Kind.HOLD, Kind.DELIVER, *_ENDS)))

Columns = dict[str, Values]
Steps = NDArray[np.void]


def steps_of(part: Slice) -> Steps:
    """The steps of a whole capture, in the order of their keys; `needless_ns` is known but for those that are HELD."""
    walk = walk_through(part)
    pieces = [_numbers(events_in(part.run, window).matching([_WANTED])) for window in walk]
    events = {name: np.concatenate([_NOTHING, *(piece[name] for piece in pieces)]) for name in _RAW}
    identity = walk.whose[0]
    assert identity is not None, "only captures are planned"
    lane = _Lane(events, crc32(part.run.encode()))
    delivered = lane.delivered(SEMANTIC in identity.guarantees)
    steps = np.concatenate([lane.submitted(), delivered, lane.meanwhile(delivered)])
    return steps[np.argsort(steps["key"], kind="stable")]


_NOTHING = np.empty(0, np.int64)


def _numbers(rows: Rows) -> Columns:
    """What is needed of events, as signed numbers as Spark has them; identities that are null are all zeros."""
    found = {name: rows.values(name).astype(np.int64, copy=False) for name in _RAW}
    for first, *others in (IDENTITY[1:], _PARENT):
        found[first] = found[first].astype(np.int32).astype(np.int64)
        if not found[first].all():
            for name in others:
                found[name][found[first] == 0] = 0
    return found


def _stays(events: Columns) -> Values:
    """How many ends of stays came before each event: crashes, and leaves of its group."""
    ending = np.isin(events["kind"], _ENDS)
    stays = np.zeros(len(ending), np.int64)
    for group in np.unique(events["group"][ending]):
        of_group = events["group"] == group
        before = np.searchsorted(events["place"][ending & of_group], events["place"])
        stays += before if group == 0 else np.where(of_group, before, 0)
    return stays


def _made(role: int, columns: Columns) -> Steps:
    steps = np.zeros(len(columns["place"]), STEP)
    steps["role"] = role
    for name, values in columns.items():
        steps[name] = values
    return steps


class _Lane:
    """The events of one node about messages: `events` with those of a message and stay together, `starts` of these."""

    def __init__(self, events: Columns, start: int) -> None:
        events["stay"] = _stays(events)
        ending = np.isin(events["kind"], _ENDS)
        if ending.any():
            events = {name: values[~ending] for name, values in events.items()}
        events["key"] = mixed([events[name] for name in IDENTITY], start)
        self.deliveries = np.flatnonzero(events["kind"] == Kind.DELIVER)
        self.in_order = events
        self.groups = grouped([events[name] for name in IDENTITY], events["key"], [events["stay"]])
        self.events = {name: values[self.groups.order] for name, values in events.items() if name not in _PARENT}

    def _first(self, kind: Kind) -> Columns:
        """The first place and time of each group at which this happened; NEVER where it did not."""
        other = self.events["kind"] != kind
        return {
            name: self.groups.each(np.minimum, np.where(other, NEVER, self.events[name])) for name in ("place", "at")
        }

    def _at(self, name: str, kept: Values) -> Values:
        return self.events[name][self.groups.starts[kept]]

    def submitted(self) -> Steps:
        """One step per submitted message, and stay if it was submitted again."""
        first = self._first(Kind.SUBMIT)
        kept = np.flatnonzero(first["place"] < NEVER)
        found = {name: self._at(name, kept) for name in ("key", *IDENTITY)}
        return _made(SUBMITTED, found | {name: values[kept] for name, values in first.items()})

    def delivered(self, semantic: bool) -> Steps:
        """One step per delivered message and stay."""
        first, held = self._first(Kind.DELIVER), self._first(Kind.HOLD)
        copies = self.groups.each(np.add, (self.events["kind"] == Kind.DELIVER).astype(np.int64))
        kept = np.flatnonzero(copies)
        found = {name: self._at(name, kept) for name in ("key", *IDENTITY, "stay")}
        found |= {"place": first["place"][kept], "at": first["at"][kept], "copies": copies[kept]}
        waited = held["place"][kept] < found["place"]
        found |= {"held_" + name: np.where(waited, values[kept], NEVER) for name, values in held.items()}
        steps = _made(DELIVERED, found)
        waits = np.flatnonzero(waited & (steps["origin"] != 0))
        if semantic and len(waits):
            steps["needless_ns"][waits] = _since_parent(steps, self._parents(kept[waits]), waits)
        elif len(waits):
            self._judge_alone(steps, waits)
        return steps

    def _parents(self, kept: Values) -> Columns:
        order = self.groups.order
        return {name: self.groups.each(np.maximum, self.in_order[name][order])[kept] for name in _PARENT}

    def _judge_alone(self, steps: Steps, waits: Values) -> None:
        """Waits during which nothing was delivered were needless all along; the others remain to be judged."""
        held = steps[waits]
        first, last = self._between(held)
        steps["needless_ns"][waits] = np.where(first == last, held["at"] - held["held_at"], 0)
        steps["role"][waits[first < last]] = HELD

    def _between(self, held: Steps) -> tuple[Values, Values]:
        """The first delivery after each hold, and the first from its end on."""
        places = self.in_order["place"][self.deliveries]
        return np.searchsorted(places, held["held_place"]), np.searchsorted(places, held["place"])

    def meanwhile(self, delivered: Steps) -> Steps:
        """Every delivery, copies too, that came while a message was held."""
        room = len(self.deliveries) + 1
        first, last = self._between(delivered[delivered["role"] == HELD])
        open_waits = np.cumsum(np.bincount(first, minlength=room) - np.bincount(last, minlength=room))
        covered = self.deliveries[open_waits[:-1] > 0]
        return _made(MEANWHILE, {name: self.in_order[name][covered] for name in _OF_A_STEP})


def _since_parent(steps: Steps, parents: Columns, waits: Values) -> Values:
    """Needless waits where the parent decides; it may have been delivered in any stay."""
    held, count = steps[waits], len(steps)
    wanted = [held["group"], *(parents[name] for name in _PARENT)]
    columns = [np.concatenate([steps[name], want]) for name, want in zip(IDENTITY, wanted, strict=True)]
    groups = grouped(columns)
    numbers, unknown = groups.numbers()[count:], np.full(len(held), NEVER)
    place, at = (
        groups.each(np.minimum, np.concatenate([steps[name], unknown])[groups.order])[numbers]
        for name in ("place", "at")
    )
    orphan = parents["parent_origin"] == 0
    waited = np.where(orphan, held["held_at"], np.maximum(held["held_at"], at))
    needless: Values = np.where(orphan | (place < held["place"]), held["at"] - waited, 0)
    return needless
