"""What a report says, as plain values: the page draws exactly this, and `--json` prints it."""

from __future__ import annotations

import msgspec


class Node(msgspec.Struct, frozen=True):
    """A node of the run; marks and hops name it by its place in the list."""

    name: str
    role: str


Mark = tuple[float, int, str, str]
"""When (s), at which node, what kind of event, and words about it."""
Hop = tuple[float, int, float, int, str]
"""Sent when (s), by which node, received when, by which node, and the packet type."""


class Witness(msgspec.Struct, frozen=True):
    """The smallest set of events that shows a violation: in words, as marks, and the messages that it is about."""

    text: str
    lines: list[str] = []
    marks: list[Mark] = []
    messages: list[str] = []


class Property(msgspec.Struct, frozen=True):
    """The verdict on one guarantee."""

    name: str
    holds: bool
    violations: int
    witnesses: list[Witness] = []


class Fault(msgspec.Struct, frozen=True):
    """How often a fault took effect."""

    name: str
    count: int


class Distribution(msgspec.Struct, frozen=True):
    """Durations in milliseconds: `counts[i]` of them lie between `edges[i]` and `edges[i + 1]`.

    The first bin also holds those that are shorter. The edges grow by a constant factor where `logarithmic`, because
    some durations are many times the others.
    """

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0
    edges: tuple[float, ...] = (0.0, 1.0)
    counts: tuple[int, ...] = (0,)
    logarithmic: bool = False


class OverTime(msgspec.Struct, frozen=True):
    """How many messages were submitted and delivered in each stretch of `bin_s` seconds."""

    bin_s: float
    submitted: list[int]
    delivered: list[int]


class ControlBytes(msgspec.Struct, frozen=True):
    """What all frames of one packet type carried."""

    kind: str
    frames: int
    control_bytes: int
    payload_bytes: int


class Buffer(msgspec.Struct, frozen=True):
    """How full a buffer of a node was: `points` are (seconds, value), each valid until the next."""

    node: str
    what: str
    points: list[tuple[float, float]]


class RoleLoad(msgspec.Struct, frozen=True):
    """The traffic of all nodes of one role together."""

    role: str
    nodes: int
    sent_frames: int
    received_frames: int
    sent_bytes: int
    received_bytes: int


class Clock(msgspec.Struct, frozen=True):
    """How a node's clock relates to the common timeline; nobody knows the error where `error_us` is missing."""

    node: str
    offset_us: float
    drift_ppm: float
    error_us: float | None


class Story(msgspec.Struct, frozen=True):
    """Everything that happened to one message. `hops` are the copies of its frames that came."""

    label: str
    group: str
    size: int
    marks: list[Mark]
    hops: list[Hop]


class Diagram(msgspec.Struct, frozen=True):
    """The material of the space-time diagram; `left_out` messages did not fit."""

    messages: list[Story] = []
    marks: list[Mark] = []
    left_out: int = 0


class Run(msgspec.Struct, frozen=True):
    """One run. `summary` counts things (None: not counted), `problems` says what is missing or damaged in the captures.

    `latency` is of every message and receiver, `holds` and `needless` of those that were held back, `gaps` is the time
    between two cells, `silences` that from entering a cell to the next delivery.
    """

    name: str
    protocol: str
    variant: str
    transport: str
    seed: int
    model: str
    virtual_s: float
    nodes: list[Node]
    summary: dict[str, int | None]
    properties: list[Property]
    problems: list[str]
    faults: list[Fault]
    latency: Distribution
    holds: Distribution
    needless: Distribution
    gaps: Distribution
    silences: Distribution
    over_time: OverTime
    control: list[ControlBytes]
    buffers: list[Buffer]
    roles: list[RoleLoad]
    clocks: list[Clock]
    diagram: Diagram


class Document(msgspec.Struct, frozen=True):
    """A report on one run, or on several side by side."""

    title: str
    made_by: str
    made_at: str
    runs: list[Run]
