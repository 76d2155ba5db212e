"""The columns that the data source offers, by table: name, type, meaning. `docs/spark.md` is checked against this."""

from __future__ import annotations

from typing import Literal

import msgspec

from castbed.errors import ConfigurationError

Table = Literal["frames", "events", "nodes", "captures"]


class Column(msgspec.Struct, frozen=True):
    """One column; `type` is as in Spark's SQL."""

    name: str
    type: str
    words: str
    nullable: bool = False

    @property
    def ddl(self) -> str:
        return f"`{self.name}` {self.type}{'' if self.nullable else ' NOT NULL'}"


MID_ARRAY = "array<struct<origin:int,seqno:bigint,incarnation:bigint>>"

_WHERE = (
    Column("run", "string", "the run: the name of its directory"),
    Column("node", "int", "number of the node whose capture this is"),
    Column("place", "bigint", "byte offset in the capture: the order in which things happened at the node"),
    Column("at", "bigint", "nanoseconds on the node's clock"),
)
FRAMES = (
    *_WHERE,
    Column("medium", "string", "`air` or `wire`"),
    Column("outgoing", "boolean", "whether the node sent the frame, rather than received it"),
    Column("to", "int", "node that the frame is addressed to; null for a broadcast", True),
    Column("family", "int", "which protocol the kind belongs to (`castbed.wire.family_number`)"),
    Column("kind", "int", "packet type within the family"),
    Column("group", "bigint", "group, 0 if the packet is about none"),
    Column("sender", "int", "node that transmitted this frame"),
    Column("origin", "int", "message identity: node that wrote the message; null if the frame carries none", True),
    Column("seqno", "bigint", "message identity: number", True),
    Column("incarnation", "bigint", "message identity: life of the writer", True),
    Column("control_bytes", "int", "size of the body: the control information"),
    Column("payload_bytes", "int", "size of the application's data"),
    Column("frame_bytes", "int", "size on the medium, with the Ethernet header"),
)
EVENTS = (
    *_WHERE,
    Column("kind", "int", "what happened, as a number (`castbed.history.Kind`)"),
    Column("event", "string", "what happened, in words: SUBMIT, HOLD, DELIVER, ..."),
    Column("group", "bigint", "group, 0 if the event is about none"),
    Column("origin", "int", "message identity: node that wrote the message; null if the event is about none", True),
    Column("seqno", "bigint", "message identity: number", True),
    Column("incarnation", "bigint", "message identity: life of the writer", True),
    Column("parent_origin", "int", "the message that it answers: its writer; null if it answers none", True),
    Column("parent_seqno", "bigint", "the message that it answers: number", True),
    Column("parent_incarnation", "bigint", "the message that it answers: life of its writer", True),
    Column("number", "bigint", "of a view; 1 at a restart whose storage survived"),
    Column("peer", "int", "station of an attachment: the cell"),
    Column("size", "int", "bytes of the message's payload"),
    Column("digest", "bigint", "CRC-32 of the message's payload"),
    Column("waiting_for", MID_ARRAY, "HOLD: the messages that are waited for", True),
    Column("members", "array<int>", "VIEW: the members", True),
    Column("stations", "array<int>", "VIEW: the stations", True),
    Column("to", "array<int>", "SUBMIT: the addressed nodes; null for the whole group", True),
    Column("local", "boolean", "VIEW: nobody agreed on it", True),
    Column("text", "string", "REFUSE, DROP: the reason; NOTE: what to note", True),
)
NODES = (
    Column("run", "string", "the run: the name of its directory"),
    Column("node", "int", "number of the node"),
    Column("name", "string", "name of the node"),
    Column("role", "string", "role of the node"),
    Column("experiment", "string", "name of the experiment"),
    Column("seed", "bigint", "its seed"),
    Column("protocol", "string", "name of the protocol"),
    Column("variant", "string", "its variant"),
    Column("transport", "string", "name of the transport"),
    Column("model", "string", "system model: broadcast, cellular, three_tier or sites"),
    Column("guarantees", "array<string>", "properties that the variant guarantees"),
    Column("names", "array<string>", "names of all nodes of the run, in order of their numbers"),
    Column("file", "string", "path of the capture"),
)
CAPTURES = (
    Column("run", "string", "the run: the name of its directory"),
    Column("node", "int", "number of the node; null where the file is no capture of Castbed, and is ignored", True),
    Column("file", "string", "path of the capture"),
    Column("start", "bigint", "first byte of the slice"),
    Column("end", "bigint", "first byte behind it"),
    Column("packets", "bigint", "packets of any kind"),
    Column("frames", "bigint", "rows of this slice in `frames`"),
    Column("events", "bigint", "rows of this slice in `events`"),
    Column("foreign", "bigint", "packets that are not of this capture: other protocols, other sections"),
    Column("bad_records", "bigint", "event records that were skipped because they make no sense"),
    Column("bad_blocks", "bigint", "damaged blocks and stretches that were skipped"),
    Column("skipped_bytes", "bigint", "bytes in those stretches"),
    Column("cut", "boolean", "the file ends inside a block"),
)
TABLES: dict[str, tuple[Column, ...]] = {
    "frames": FRAMES,
    "events": EVENTS,
    "nodes": NODES,
    "captures": CAPTURES,
}


def columns_of(table: str, names: str | None = None) -> tuple[Column, ...]:
    """The columns of a table, or those of them that are named, separated by commas."""
    if table not in TABLES:
        raise ConfigurationError("table", f"{table!r} is not one of {', '.join(TABLES)}")
    if not names:
        return TABLES[table]
    known = {column.name: column for column in TABLES[table]}
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ConfigurationError("columns", f"{table} has no {unknown[0]!r}; it has {', '.join(known)}")
    return tuple(known[name] for name in wanted)


def ddl(columns: tuple[Column, ...]) -> str:
    return ", ".join(column.ddl for column in columns)
