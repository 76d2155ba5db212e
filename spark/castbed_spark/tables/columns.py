"""The columns of the derived tables: name, type and meaning. `docs/spark.md` is checked against this."""

from __future__ import annotations

from castbed_spark.schemas import Column

RUN = Column("run", "string", "the run")
_MESSAGE = (
    Column("group", "bigint", "group of the message"),
    Column("origin", "int", "message identity: node that wrote it", True),
    Column("seqno", "bigint", "message identity: number", True),
    Column("incarnation", "bigint", "message identity: life of the writer", True),
)
MESSAGES = (
    RUN,
    *_MESSAGE,
    Column("node", "int", "node that submitted it"),
    Column("submitted_at", "bigint", "when"),
    Column("size", "int", "bytes of its payload"),
    Column("parent_origin", "int", "the message that it answers: its writer; null if it answers none", True),
    Column("parent_seqno", "bigint", "the message that it answers: number", True),
    Column("parent_incarnation", "bigint", "the message that it answers: life of its writer", True),
    Column("to", "array<int>", "the addressed nodes; null for the whole group", True),
    Column("place", "bigint", "where the submission is in its node's capture"),
    Column("control_bytes", "int", "control information of the first frame in which its writer sent it", True),
    Column("frames", "bigint", "frames that carried its identity, sent by anybody"),
    Column("frames_control_bytes", "bigint", "control information of all of them"),
)
DELIVERIES = (
    RUN,
    *_MESSAGE,
    Column("node", "int", "node that delivered it"),
    Column("stay", "int", "how often that node had crashed or left the group before"),
    Column("delivered_at", "bigint", "when, the first time in this stay"),
    Column("place", "bigint", "where that delivery is in the node's capture"),
    Column("copies", "bigint", "deliveries in this stay; more than 1 are duplicates"),
    Column("submitted_at", "bigint", "when it was submitted; null if no capture says so", True),
    Column("latency_ns", "bigint", "from submission to delivery, as far as the clocks agree", True),
    Column("held_at", "bigint", "when the node began to hold it back; null if it did not", True),
    Column("hold_ns", "bigint", "how long it held it back; 0 if it did not"),
    Column("needless_ns", "bigint", "how much of that came after its last true predecessor had been delivered there"),
)
HANDOFFS = (
    RUN,
    Column("node", "int", "node that moved"),
    Column("from_station", "int", "station that it was attached to before; null at its first attachment", True),
    Column("to_station", "int", "station that it is attached to now; 0 for the shared air"),
    Column("detached_at", "bigint", "when it left the former cell; null if no record says so", True),
    Column("attached_at", "bigint", "when it was in the new one"),
    Column("gap_ns", "bigint", "between the two", True),
    Column("first_delivery_at", "bigint", "its next delivery; null if none came before it moved on", True),
    Column("silence_ns", "bigint", "from the attachment to that delivery", True),
)
VIEWS = (
    RUN,
    Column("node", "int", "node that installed it"),
    Column("group", "bigint", "its group"),
    Column("number", "bigint", "its number"),
    Column("members", "array<int>", "its members", True),
    Column("stations", "array<int>", "its stations", True),
    Column("local", "boolean", "nobody agreed on it"),
    Column("installed_at", "bigint", "when"),
    Column("until", "bigint", "next view of the group, leave or crash there; null if it lasted to the end", True),
    Column("place", "bigint", "where the record is in the node's capture"),
)
BUFFERS = (
    RUN,
    Column("node", "int", "node"),
    Column("what", "string", "what is measured: `held` (messages held back), or the name of a gauge of the protocol"),
    Column("at", "bigint", "when it changed"),
    Column("value", "bigint", "how much it is from then on"),
    Column("place", "bigint", "where the record is in the node's capture"),
)
LINKS = (
    RUN,
    Column("medium", "string", "`air` or `wire`"),
    Column("sender", "int", "node that transmitted"),
    Column("receiver", "int", "node that received"),
    Column("sent", "bigint", "frames that the sender addressed to the receiver or to everybody"),
    Column("received", "bigint", "frames that came, copies included"),
    Column("bytes", "bigint", "bytes that came"),
    Column("delay_min_ns", "bigint", "shortest way of a frame that can be told apart from others", True),
    Column("delay_mean_ns", "double", "mean of these", True),
    Column("matched", "bigint", "how many these are"),
)
CLOCKS = (
    RUN,
    Column("node", "int", "node"),
    Column("offset_ns", "double", "its clock minus that of the reference, at the reference's time 0"),
    Column("drift", "double", "by how much faster it runs: 1e-6 is a microsecond a second"),
    Column("error_ns", "double", "by how much that may be wrong while frames were exchanged; null if unknown", True),
    Column("reference", "int", "node whose clock the run is put on"),
    Column("straight", "boolean", "whether that explains all frames; not if the clock was set or slewed meanwhile"),
)
DERIVED: dict[str, tuple[Column, ...]] = {
    "messages": MESSAGES,
    "deliveries": DELIVERIES,
    "handoffs": HANDOFFS,
    "views": VIEWS,
    "buffers": BUFFERS,
    "links": LINKS,
    "clocks": CLOCKS,
}
MESSAGE = ("run", "group", "origin", "seqno", "incarnation")


def names(columns: tuple[Column, ...]) -> list[str]:
    return [column.name for column in columns]
