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
from castbed_spark.grouping import Groups, Values, grouped, mixed
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
_ENDS = (Kind.CRASH, Kind.LEAVE)
_WANTED = Condition("kind", "in", tuple(int(kind) for kind in (Kind.SUBMIT, Kind.HOLD, Kind.DELIVER, *_ENDS)))

Columns = dict[str, Values]
Steps = NDArray[np.void]


def steps_of(part: Slice) -> Steps:
    """The steps of a whole capture; `needless_ns` is known but for those that are HELD."""
    walk = walk_through(part)
    pieces = [_numbers(events_in(part.run, window).matching([_WANTED])) for window in walk]
    events = {name: np.concatenate([_NOTHING, *(piece[name] for piece in pieces)]) for name in _RAW}
    events["stay"] = _stays(events)
    identity = walk.whose[0]
    assert identity is not None, "only captures are planned"
    delivered = _delivered(events, SEMANTIC in identity.guarantees)
    steps = np.concatenate([_submitted(events), delivered, _meanwhile(events, delivered)])
    steps["key"] = mixed([steps[name] for name in IDENTITY], crc32(part.run.encode()))
    return steps


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


def _rows(events: Columns, kept: Values) -> Columns:
    return {name: values[kept] for name, values in events.items()}


def _made(role: int, columns: Columns) -> Steps:
    steps = np.zeros(len(columns["place"]), STEP)
    steps["role"] = role
    for name, values in columns.items():
        steps[name] = values
    return steps


def _submitted(events: Columns) -> Steps:
    mine = _rows(events, events["kind"] == Kind.SUBMIT)
    groups = grouped([mine[name] for name in IDENTITY])
    first = {name: groups.least(mine[name]) for name in (*IDENTITY, "place", "at")}
    return _made(SUBMITTED, first)


# --- deliveries -------------------------------------------------------------------------------------------------------


def _delivered(events: Columns, semantic: bool) -> Steps:
    """One step per message and stay."""
    here = _rows(events, (events["kind"] == Kind.HOLD) | (events["kind"] == Kind.DELIVER))
    groups = grouped([here[name] for name in (*IDENTITY, "stay")])
    found = _firsts(here, groups)
    found = _rows(found, found["place"] < NEVER)
    found["held_at"] = np.where(found["held_place"] < found["place"], found["held_at"], NEVER)
    parents = {name: found.pop(name) for name in _PARENT}
    steps = _made(DELIVERED, found)
    waits = (steps["held_at"] < NEVER) & (steps["origin"] != 0)
    if semantic:
        steps["needless_ns"][waits] = _since_parent(steps, _rows(parents, waits), waits)
    else:
        _judge_alone(steps, waits, events["place"][events["kind"] == Kind.DELIVER])
    return steps


def _firsts(here: Columns, groups: Groups) -> Columns:
    was_held = here["kind"] == Kind.HOLD
    found = {name: here[name][groups.order[groups.starts]] for name in (*IDENTITY, "stay")}
    for prefix, left_out in (("", was_held), ("held_", ~was_held)):
        for name in ("place", "at"):
            found[prefix + name] = groups.least(np.where(left_out, NEVER, here[name]))
    found["copies"] = groups.total((~was_held).astype(np.int64))
    return found | {name: groups.most(here[name]) for name in _PARENT}


def _since_parent(steps: Steps, parents: Columns, waits: Values) -> Values:
    """Needless waits where the parent decides; it may have been delivered in any stay."""
    held, count = steps[waits], len(steps)
    wanted = [held["group"], *(parents[name] for name in _PARENT)]
    columns = [np.concatenate([steps[name], want]) for name, want in zip(IDENTITY, wanted, strict=True)]
    groups = grouped(columns)
    numbers, unknown = groups.numbers()[count:], np.full(len(held), NEVER)
    place, at = (groups.least(np.concatenate([steps[name], unknown]))[numbers] for name in ("place", "at"))
    orphan = parents["parent_origin"] == 0
    waited = np.where(orphan, held["held_at"], np.maximum(held["held_at"], at))
    needless: Values = np.where(orphan | (place < held["place"]), held["at"] - waited, 0)
    return needless


def _judge_alone(steps: Steps, waits: Values, places: Values) -> None:
    """Waits during which nothing was delivered were needless all along; the others remain to be judged."""
    first, last = (np.searchsorted(places, steps[name]) for name in ("held_place", "place"))
    steps["role"][waits & (first < last)] = HELD
    alone = waits & (first == last)
    steps["needless_ns"][alone] = (steps["at"] - steps["held_at"])[alone]


def _meanwhile(events: Columns, delivered: Steps) -> Steps:
    """Every delivery, copies too, that came while a message was held."""
    held = delivered[delivered["role"] == HELD]
    here = _rows(events, events["kind"] == Kind.DELIVER)
    room = len(here["place"]) + 1
    opened, closed = (
        np.bincount(np.searchsorted(here["place"], held[name]), minlength=room) for name in ("held_place", "place")
    )
    covered = np.cumsum(opened - closed)[: room - 1] > 0
    return _made(MEANWHILE, {name: here[name][covered] for name in (*IDENTITY, "stay", "place", "at")})
