"""What went over the media: by packet type and by role, from one pass over the frames."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F

from castbed_spark.report.document import ControlBytes, RoleLoad
from castbed_spark.report.kinds import Names, kind_name
from castbed_spark.report.timeline import Cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


class Traffic(msgspec.Struct, frozen=True):
    """The frames of one run: how many were sent, what they carried, who handled them."""

    frames: int = 0
    control: list[ControlBytes] = []
    roles: list[RoleLoad] = []


def traffic(frames: DataFrame, casts: dict[str, Cast], names: Names) -> dict[str, Traffic]:
    """The traffic of each run."""
    sums = frames.groupBy("run", "node", "outgoing", "family", "kind").agg(
        F.count(F.lit(1)).alias("frames"),
        *[F.sum(name).alias(name) for name in ("control_bytes", "payload_bytes", "frame_bytes")],
    )
    found: dict[str, list[Row]] = defaultdict(list)
    for row in sums.collect():
        found[row["run"]].append(row)
    return {run: _traffic(found[run], cast, names) for run, cast in casts.items()}


def _traffic(rows: list[Row], cast: Cast, names: Names) -> Traffic:
    sent = [row for row in rows if row["outgoing"]]
    return Traffic(sum(row["frames"] for row in sent), _control(sent, names), _roles(rows, cast))


def _control(sent: list[Row], names: Names) -> list[ControlBytes]:
    """Packet types, the one with most bytes first."""
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in sent:
        total = totals[kind_name(names, row["family"], row["kind"])]
        for at, column in enumerate(("frames", "control_bytes", "payload_bytes")):
            total[at] += row[column]
    kinds = [ControlBytes(kind, *numbers) for kind, numbers in totals.items()]
    return sorted(kinds, key=lambda one: (-one.control_bytes - one.payload_bytes, one.kind))


def _roles(rows: list[Row], cast: Cast) -> list[RoleLoad]:
    """Roles in the order in which nodes have them."""
    counts = Counter(node.role for node in cast.nodes if node.role)
    loads: dict[tuple[str, bool], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        load = loads[_role(cast, row["node"]), row["outgoing"]]
        load[0] += row["frames"]
        load[1] += row["frame_bytes"]
    return [
        RoleLoad(role, nodes, loads[role, True][0], loads[role, False][0], loads[role, True][1], loads[role, False][1])
        for role, nodes in counts.items()
    ]


def _role(cast: Cast, number: int) -> str:
    return cast.nodes[number - 1].role if 0 < number <= len(cast.nodes) else ""
