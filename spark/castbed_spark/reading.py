"""Reads slices of captures into Arrow record batches. Spark is not needed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from castbed.capture import AIR, EVENTS, WIRE
from castbed.history import Kind
from castbed.records import EVENT_BYTES_MAX, RECORD_BYTES
from castbed.records import MAGIC as RECORD_MAGIC
from castbed.records import VERSION as RECORD_VERSION
from castbed.values import NodeNumber
from castbed.wire import ETHERNET_BYTES, ETHERTYPE, HEADER_BYTES, MAGIC
from castbed_spark.columns import Condition, Rows, Values
from castbed_spark.heads import OTHER, read_head
from castbed_spark.layout import event_type, frame_type, gather, packet_type
from castbed_spark.slices import Paths, Slice, capture_files, run_names, slice_bytes_for, slices_of
from castbed_spark.walking import Packets, Walk

_KINDS = np.array([int(kind) for kind in Kind])


class Found(msgspec.Struct):
    """What a slice holds, for the table `captures`."""

    packets: int = 0
    frames: int = 0
    events: int = 0
    foreign: int = 0
    bad_records: int = 0
    bad_packets: int = 0


def read(part: Slice, table: str, schema: pa.Schema, conditions: list[Condition]) -> Iterator[pa.RecordBatch]:
    """The rows of a slice in `table`, with the columns of `schema`, as far as they meet all conditions."""
    for window in walk_through(part):
        rows = frames_in(part.run, window) if table == "frames" else events_in(part.run, window)
        rows = rows.matching(conditions)
        if len(rows):
            yield rows.batch(schema)


def walk_through(part: Slice) -> Walk:
    """The packets of a slice, a window at a time."""
    head = read_head(Path(part.path))
    assert head is not None, "only captures are planned"
    return Walk(Path(part.path), part.start, part.end, head, part.whole)


class _Sound(msgspec.Struct):
    """Those packets of a window whose sizes and interface make sense, with their kinds of interface."""

    places: Values
    captured: Values
    media: Values


def _sound(window: Packets) -> _Sound:
    fixed = gather(window.data, window.places, packet_type(window.head.mark))
    captured, numbers = fixed["captured"], fixed["interface"]
    media = np.array([*window.head.media(), OTHER])
    kept = (captured.astype(np.int64) + 32 <= fixed["length"]) & (numbers < len(media) - 1)
    kinds = media[np.minimum(numbers, len(media) - 1)]
    if kept.all():
        return _Sound(window.places, captured, kinds)
    return _Sound(window.places[kept], captured[kept], kinds[kept])


def frames_in(run: str, window: Packets, sound: _Sound | None = None) -> Rows:
    """The frames of Castbed in a window; foreign ones are left out."""
    sound = sound or _sound(window)
    kept = ((sound.media == AIR) | (sound.media == WIRE)) & (sound.captured >= ETHERNET_BYTES + HEADER_BYTES)
    places = sound.places[kept & window.belongs]
    fixed = gather(window.data, places, frame_type(window.head.mark))
    rows = Rows(run, window, places, fixed, sound.media[kept & window.belongs])
    ours = (fixed["ethertype"] == ETHERTYPE) & (fixed["magic"] == MAGIC)
    return rows if ours.all() else rows.where(ours)


def events_in(run: str, window: Packets, sound: _Sound | None = None) -> Rows:
    """The local events in a window; records that make no sense are left out."""
    sound = sound or _sound(window)
    kept = (sound.media == EVENTS) & (sound.captured >= RECORD_BYTES) & window.belongs
    places = sound.places[kept]
    fixed = gather(window.data, places, event_type(window.head.mark))
    rows = Rows(run, window, places, fixed, sound.media[kept])
    good = _sensible(fixed, window.head.node)
    return rows if good.all() else rows.where(good)


def _sensible(fixed: Any, node: int) -> Values:
    format_is = (fixed["magic"] == RECORD_MAGIC) & (fixed["version"] == RECORD_VERSION) & (fixed["node"] == node)
    sizes = fixed["captured"] == fixed["detail_bytes"].astype(np.int64) + RECORD_BYTES
    good: Values = format_is & sizes & (fixed["captured"] <= EVENT_BYTES_MAX) & np.isin(fixed["kind"], _KINDS)
    return good


# --- the small tables ------------------------------------------------------------------------------------------------


def captures_row(part: Slice) -> dict[str, Any]:
    """What one slice holds, and what was skipped in it."""
    walk = walk_through(part)
    found = Found()
    for window in walk:
        _add(found, window, part.run)
    return {
        "run": part.run, "node": walk.whose[1], "file": part.path, "start": part.start, "end": part.end,
        "packets": found.packets, "frames": found.frames, "events": found.events, "foreign": found.foreign,
        "bad_records": found.bad_records, "bad_blocks": walk.count.bad_blocks + found.bad_packets,
        "skipped_bytes": walk.count.skipped_bytes, "cut": walk.count.cut,
    }  # fmt: skip


def _add(found: Found, window: Packets, run: str) -> None:
    sound = _sound(window)
    frames, events = len(frames_in(run, window, sound)), len(events_in(run, window, sound))
    records = int(np.count_nonzero(sound.media == EVENTS)) if window.belongs else 0
    found.packets += len(window.places)
    found.bad_packets += len(window.places) - len(sound.places)
    found.frames += frames
    found.events += events
    found.bad_records += records - events
    found.foreign += len(sound.places) - records - frames


def node_of(part: Slice) -> NodeNumber:
    """Whose capture it is."""
    head = read_head(Path(part.path))
    assert head is not None, "only captures are planned"
    return head.node


def nodes_row(part: Slice) -> dict[str, Any]:
    """Whose capture it is: read from its head alone."""
    head = read_head(Path(part.path))
    assert head is not None, "only captures are planned"
    assert head.identity is not None, "a head that was read has one"
    identity, node = head.identity, head.node
    roles = identity.roles
    return {
        "run": part.run, "node": node, "name": identity.name(node),
        "role": roles[node - 1] if 0 < node <= len(roles) else "", "experiment": identity.run, "seed": identity.seed,
        "protocol": identity.protocol, "variant": identity.variant, "transport": identity.transport,
        "model": identity.model, "guarantees": list(identity.guarantees), "names": list(identity.names),
        "file": part.path,
    }  # fmt: skip


def ignored_row(part: Slice) -> dict[str, Any]:
    """Nothing was found in it."""
    nothing = dict.fromkeys(("packets", "frames", "events", "foreign", "bad_records", "bad_blocks"), 0)
    place = {"run": part.run, "node": None, "file": part.path, "start": part.start, "end": part.end}
    return {**place, **nothing, "skipped_bytes": part.end - part.start, "cut": False}


def read_small(part: Slice, table: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The one row of a slice in `nodes` or `captures`."""
    rows = {"nodes": nodes_row, "captures": ignored_row if part.ignored else captures_row}
    row = rows[table](part)
    yield pa.RecordBatch.from_pylist([{field.name: row[field.name] for field in schema}], schema=schema)


def read_all(
    part: Slice, table: str, schema: pa.Schema, conditions: Iterable[Condition] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice in any table; conditions are for `frames` and `events` alone."""
    if table in ("frames", "events"):
        return read(part, table, schema, list(conditions))
    return read_small(part, table, schema)


def plan(paths: Paths, slice_bytes: int | None = None) -> list[Slice]:
    """All slices of all captures at `paths`."""
    return [part for part in plan_all(paths, slice_bytes) if not part.ignored]


def plan_all(paths: Paths, slice_bytes: int | None = None) -> list[Slice]:
    """The same, and the files that are ignored."""
    files = capture_files(paths)
    runs = run_names(files)
    size = slice_bytes or slice_bytes_for(files)
    return [part for file in files for part in slices_of(file, runs[file], size)]
