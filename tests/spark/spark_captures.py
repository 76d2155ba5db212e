"""Captures for the tests of the reader: small ones as bytes, and short ways to read them without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa

from castbed.capture import AIR, WIRE, capture_header, event_block, frame_block
from castbed.history import History, Kind, LocalEvent, RunIdentity
from castbed.packets import Packet
from castbed.pcapng import ENHANCED_PACKET, block
from castbed.values import Group, Mid, NodeNumber
from castbed.wire import Codec, ethernet_frame
from castbed_spark.columns import Condition
from castbed_spark.details import DETAIL_COLUMNS
from castbed_spark.reading import captures_row, plan, read
from castbed_spark.schemas import TABLES

IDENTITY = RunIdentity("story", 3, "sb", "repaired", "sim", names=("A", "B", "C"), roles=("member",) * 3)
ARP = bytes.fromhex("ffffffffffff02aabbccddee08060001080006040001") + bytes(38)
NEIGHBOUR_DISCOVERY = bytes.fromhex("33330000000102aabbccddee86dd60000000") + bytes(60)
GARBAGE = b"\x00\x01garbage between blocks\xff\xfe"
_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}


class Said(Packet, frozen=True, tag=7):
    """A message with its predecessor."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None


class Asked(Packet, frozen=True, tag=8):
    """Something without an identity."""

    number: int


class Taken(Packet, frozen=True, tag=9):
    """An acknowledgement: it names a message but no group."""

    mid: Mid


CODEC = Codec({"sb": (Said, Asked, Taken)})


def said(number: int, at: int, outgoing: bool = False, sender: NodeNumber = 2, to: NodeNumber = 0) -> bytes:
    """The block of a frame with message `number` of node 2."""
    frame = CODEC.encode(Said(1, Mid(2, number), bytes(number % 7), Mid(1, 9)), sender)
    return frame_block(WIRE if to else AIR, at, ethernet_frame(frame, sender, to), outgoing)


def asked(at: int) -> bytes:
    return frame_block(AIR, at, ethernet_frame(CODEC.encode(Asked(5), 2), 2), False)


def taken(mid: Mid, at: int, sender: NodeNumber, to: NodeNumber) -> bytes:
    """The block in which node `sender` sends an acknowledgement."""
    return frame_block(WIRE, at, ethernet_frame(CODEC.encode(Taken(mid), sender), sender, to), True)


def delivered(number: int, at: int, node: NodeNumber = 1) -> bytes:
    return event_block(LocalEvent(node, at, Kind.DELIVER, 1, Mid(2, number), Mid(1, 9), size=3, digest=4_000_000_000))


def foreign(data: bytes, at: int = 0) -> bytes:
    """The block of a frame of another protocol."""
    return frame_block(AIR, at, data, False)


def header(node: NodeNumber = 1, identity: RunIdentity = IDENTITY) -> bytes:
    return capture_header(identity, node)


def many(count: int) -> bytes:
    """So many frames, each with the event of its delivery."""
    return b"".join(said(number, number) + delivered(number, number) for number in range(1, count + 1))


def broken_packet() -> bytes:
    """A whole block that claims more data than it has."""
    return block(ENHANCED_PACKET, pack("<IIIII", 0, 0, 0, 5_000, 5_000) + bytes(8))


def unknown_block() -> bytes:
    return block(0x0BAD_0001, bytes(24))


def schema(table: str, columns: Iterable[str] = ()) -> pa.Schema:
    chosen = [column for column in TABLES[table] if not columns or column.name in columns]
    return pa.schema([(c.name, _TYPES.get(c.type) or DETAIL_COLUMNS[c.name]) for c in chosen])


def rows(
    paths: Path | str,
    table: str,
    columns: Iterable[str] = (),
    conditions: Iterable[Condition] = (),
    slice_bytes: int = 0,
) -> list[dict[str, Any]]:
    """All rows of the captures at `paths`, read without Spark."""
    wanted = schema(table, tuple(columns))
    return [
        row
        for part in plan(str(paths), slice_bytes or None)
        for batch in read(part, table, wanted, list(conditions))
        for row in batch.to_pylist()
    ]


def found(path: Path) -> dict[str, Any]:
    """What the table `captures` says of one file."""
    (part,) = plan(str(path), None)
    return captures_row(part)


def write_run(
    directory: Path, history: History, extra: dict[NodeNumber, list[tuple[int, bytes]]] | None = None
) -> Path:
    """A run directory with the events of a history and further blocks by node and time."""
    captures = directory / "captures"
    captures.mkdir(parents=True)
    for node, lane in history.by_node.items():
        blocks = [(event.at, event_block(event)) for event in lane] + (extra or {}).get(node, [])
        data = b"".join(data for _, data in sorted(blocks, key=lambda item: item[0]))
        name = history.name(node)
        (captures / f"{name}.pcapng").write_bytes(capture_header(history.identity, node) + data)
    return directory
