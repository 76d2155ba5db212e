"""What happened to messages at one node, from its whole capture at once. Spark is not needed here.

Deliveries and holds of a node are in its own capture, so all of `deliveries` but the submission is known here, and of
needless waits all but what the writer knew. The rest is found where the steps of a message at all nodes meet.
"""

from __future__ import annotations

from functools import cached_property
from zlib import crc32

import msgspec
import numpy as np

from castbed.history import Kind
from castbed.properties.waiting import SEMANTIC
from castbed_spark.columns import Condition, Rows
from castbed_spark.grouping import Firsts, firsts, grouped, mixed
from castbed_spark.packing import Columns, Values
from castbed_spark.reading import events_in, walk_through
from castbed_spark.slices import Slice

SUBMITTED, DELIVERED, HELD, MEANWHILE = range(4)
"""Roles of steps. HELD: delivered after a wait that is still to be judged. MEANWHILE: delivered during such a wait."""
NEVER = np.iinfo(np.int64).max
IDENTITY = ("group", "origin", "seqno", "incarnation")
STEP = ("key", "role", *IDENTITY, "stay", "place", "at", "copies", "wait_bytes", "wait_ns", "needless_ns")
"""What a step says. A wait is given by how much was written, and how much time passed, from the hold to the delivery;
without one both are 0."""
_PARENT = ("parent_origin", "parent_seqno", "parent_incarnation")
_RAW = (*IDENTITY, "place", "at", "kind")
_ENDS = (Kind.CRASH, Kind.LEAVE)
_WANTED = Condition("kind", "in", tuple(int(kind) for kind in (Kind.SUBMIT, Kind.HOLD, Kind.DELIVER, *_ENDS)))
_TOGETHER = 8  # bits of a number: so many messages of a writer keep their order in the keys, and thus in memory

Steps = Columns


def steps_of(part: Slice) -> list[Steps]:
    """The steps of a whole capture, some of the columns STEP; each of the tables is in the order of its keys.

    `needless_ns` is known but for those that are HELD.
    """
    walk = walk_through(part)
    identity = walk.whose[0]
    assert identity is not None, "only captures are planned"
    semantic = SEMANTIC in identity.guarantees
    names = (*_RAW, *_PARENT) if semantic else _RAW
    pieces = [_numbers(events_in(part.run, window).matching([_WANTED]), names) for window in walk]
    events = {name: np.concatenate([_NOTHING, *(piece[name] for piece in pieces)]) for name in names}
    lane = _Lane(events, crc32(part.run.encode()))
    delivered, waits = lane.delivered(semantic)
    return [lane.submitted(), delivered, lane.meanwhile(waits)]


_NOTHING = np.empty(0, np.int64)


def _numbers(rows: Rows, names: tuple[str, ...]) -> Columns:
    """What is needed of events, as signed numbers as Spark has them; identities that are null are all zeros."""
    found = {name: rows.values(name).astype(np.int64, copy=False) for name in names}
    for first, *others in (IDENTITY[1:], _PARENT):
        if first not in found:
            continue
        found[first] = found[first].astype(np.int32).astype(np.int64)
        if not found[first].all():
            for name in others:
                found[name][found[first] == 0] = 0
    return found


def keys_of(events: Columns, start: int) -> Values:
    """A number per message, well spread in its upper half, by which it finds its meeting."""
    mask = np.uint64((1 << _TOGETHER) - 1)
    upper = mixed([events["group"], events["incarnation"], events["origin"], events["seqno"] >> _TOGETHER], start)
    return upper & ~mask | events["seqno"].view(np.uint64) & mask


def _stays(events: Columns) -> Values:
    """How many ends of stays came before each event: crashes, and leaves of its group."""
    ending = np.isin(events["kind"], _ENDS)
    stays = np.zeros(len(ending), np.int64)
    for group in np.unique(events["group"][ending]):
        of_group = events["group"] == group
        before = np.searchsorted(events["place"][ending & of_group], events["place"])
        stays += before if group == 0 else np.where(of_group, before, 0)
    return stays


class _Waits(msgspec.Struct):
    """Waits, by the rows of the deliveries that ended them: how many had come when each began, and when it ended."""

    rows: Values
    begin: Values
    end: Values

    def where(self, kept: Values) -> _Waits:
        return _Waits(self.rows[kept], self.begin[kept], self.end[kept])


class _Lane:
    """The events of one node about messages, and which of them are of the same message and stay."""

    def __init__(self, events: Columns, start: int) -> None:
        events["stay"] = _stays(events)
        ending = np.isin(events["kind"], _ENDS)
        if ending.any():
            events = {name: values[~ending] for name, values in events.items()}
        events["key"] = keys_of(events, start)
        self.events = events
        self.groups = grouped([events[name] for name in IDENTITY], events["key"], events["stay"])
        self.kinds = events["kind"][self.groups.order]

    def _of(self, *kinds: Kind) -> Firsts:
        return firsts(self.groups, np.isin(self.kinds, kinds))

    def _steps(self, role: int, found: Firsts) -> Steps:
        """A step for each group: where it first happened, and the earliest time."""
        first = found.each(np.minimum, found.rows)
        steps = {name: self.events[name][first] for name in ("key", *IDENTITY, "stay", "place")}
        return steps | {"at": found.each(np.minimum, self.events["at"][found.rows]), "role": np.full(len(first), role)}

    def submitted(self) -> Steps:
        """One step per submitted message, and stay if it was submitted again."""
        return self._steps(SUBMITTED, self._of(Kind.SUBMIT))

    def delivered(self, semantic: bool) -> tuple[Steps, _Waits]:
        """One step per delivered message and stay, and the waits that are HELD."""
        found = self._of(Kind.DELIVER)
        steps = self._steps(DELIVERED, found)
        steps |= {name: np.zeros(len(steps["key"]), np.int64) for name in ("wait_bytes", "wait_ns", "needless_ns")}
        steps["copies"] = found.copies()
        waits = self._waits(found, steps)
        judged = waits.where(steps["origin"][waits.rows] != 0)
        if semantic:
            steps["needless_ns"][judged.rows] = _since_parent(steps, self._parents(found.groups), judged.rows)
            return steps, waits.where(_NOTHING)
        return steps, _judged_alone(steps, judged)

    def _waits(self, found: Firsts, steps: Steps) -> _Waits:
        """All waits, noted in `steps`: of messages that were held before they were first delivered."""
        holds = self._of(Kind.HOLD)
        place_of = np.full(self.groups.count, -1)
        place_of[holds.groups] = np.arange(len(holds.groups))
        hold = place_of[found.groups]
        rows = np.flatnonzero(hold >= 0)
        began, ended = holds.each(np.minimum, holds.rows)[hold[rows]], found.each(np.minimum, found.rows)[rows]
        waited = began < ended
        rows, began, ended = rows[waited], began[waited], ended[waited]
        steps["wait_bytes"][rows] = steps["place"][rows] - self.events["place"][began]
        held_at = holds.each(np.minimum, self.events["at"][holds.rows])
        steps["wait_ns"][rows] = steps["at"][rows] - held_at[hold[rows]]
        return _Waits(rows, self._before[began], self._before[ended])

    @cached_property
    def _before(self) -> Values:
        """How many deliveries came before each event."""
        delivered = self.events["kind"] == Kind.DELIVER
        before: Values = np.cumsum(delivered) - delivered
        return before

    def _parents(self, kept: Values) -> Columns:
        """What the messages of these groups answer."""
        received = self._of(Kind.HOLD, Kind.DELIVER)
        rows = np.searchsorted(received.groups, kept)
        return {name: received.each(np.maximum, self.events[name][received.rows])[rows] for name in _PARENT}

    def meanwhile(self, waits: _Waits) -> Steps:
        """Every delivery, copies too, that came during these waits."""
        deliveries = np.flatnonzero(self.events["kind"] == Kind.DELIVER)
        room = len(deliveries) + 1
        open_waits = np.cumsum(np.bincount(waits.begin, minlength=room) - np.bincount(waits.end, minlength=room))
        came = deliveries[open_waits[:-1] > 0]
        came = came[np.argsort(self.events["key"][came])]
        steps = {name: self.events[name][came] for name in ("key", *IDENTITY, "place", "at")}
        return steps | {"role": np.full(len(came), MEANWHILE)}


def _judged_alone(steps: Steps, waits: _Waits) -> _Waits:
    """Waits during which nothing was delivered were needless all along; the others, which remain to be judged."""
    alone = waits.begin == waits.end
    steps["needless_ns"][waits.rows[alone]] = steps["wait_ns"][waits.rows[alone]]
    left = waits.where(~alone)
    steps["role"][left.rows] = HELD
    return left


def _since_parent(steps: Steps, parents: Columns, rows: Values) -> Values:
    """Needless waits where the parent decides; it may have been delivered in any stay."""
    held, count = {name: values[rows] for name, values in steps.items()}, len(steps["key"])
    wanted = {name: values[rows] for name, values in parents.items()}
    sought = [held["group"], *wanted.values()]
    groups = grouped([np.concatenate([steps[name], want]) for name, want in zip(IDENTITY, sought, strict=True)])
    numbers = groups.of_rows()
    first = {name: np.full(groups.count, NEVER) for name in ("place", "at")}
    for name, values in first.items():
        np.minimum.at(values, numbers[:count], steps[name])
    place, at = (values[numbers[count:]] for values in first.values())
    orphan = wanted["parent_origin"] == 0
    since_parent = np.minimum(held["wait_ns"], held["at"] - at)
    needless: Values = np.where(orphan, held["wait_ns"], np.where(place < held["place"], since_parent, 0))
    return needless
