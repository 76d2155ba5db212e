"""Puts the nodes of a run on one timeline, from frames that were seen by their sender and by a receiver.

First the smallest differences of all pairs are looked at: in a run with one clock none is negative, and then all
offsets and drifts are exactly zero. For other runs a tree of the pairs with the least room for error is built, with
the lowest node as reference, and the relation of each of these pairs is worked out from the smallest differences
in short stretches of time (`envelope`). Errors add up along the tree.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F

from castbed_spark.envelope import Points, Relation, relation
from castbed_spark.schemas import ddl
from castbed_spark.tables.columns import CLOCKS
from castbed_spark.tables.links import crossings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STRETCHES = 512  # per pair of nodes and run: more would tell no more, and all must fit into the driver
SAME = Relation(0.0, 0.0, 0.0)
Pair = tuple[int, int]
_PAIR = ("run", "sender", "receiver")


def clocks(frames: DataFrame, nodes: DataFrame) -> DataFrame:
    """The table `clocks`: one row per node of each run."""
    met = crossings(frames).select(*_PAIR, "sent_at", "received_at")
    least = _least(met)
    members: dict[str, set[int]] = defaultdict(set)
    for row in nodes.select("run", "node").collect():
        members[row["run"]].add(row["node"])
    trees = {run: spanning_tree(sorted(numbers), least[run]) for run, numbers in members.items()}
    skewed = {run: tree for run, tree in trees.items() if any(value < 0 for value in least[run].values())}
    points = _points(met, skewed)
    rows = [
        row for run, numbers in members.items() for row in _rows(run, sorted(numbers), trees[run], least[run], points)
    ]
    return nodes.sparkSession.createDataFrame(rows, ddl(CLOCKS))


def _least(met: DataFrame) -> dict[str, dict[Pair, int]]:
    """By run and pair, the smallest difference between the times at the receiver and at the sender."""
    smallest = met.groupBy(*_PAIR).agg(F.min(F.expr("received_at - sent_at")).alias("least"))
    least: dict[str, dict[Pair, int]] = defaultdict(dict)
    for row in smallest.collect():
        least[row["run"]][row["sender"], row["receiver"]] = row["least"]
    return least


def spanning_tree(nodes: list[int], least: dict[Pair, int]) -> dict[int, int]:
    """For each node that can be reached from the first one, over which neighbour: the way with the least error."""
    near: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (one, other), there in least.items():
        back = least.get((other, one))
        if back is not None:
            near[one].append((max(there + back, 0), other))
    parents: dict[int, int] = {}
    queue = [(0, nodes[0], nodes[0])] if nodes else []
    while queue:
        error, node, parent = heapq.heappop(queue)
        if node not in parents:
            parents[node] = parent
            for room, other in near[node]:
                heapq.heappush(queue, (error + room, other, node))
    return parents


def _points(met: DataFrame, trees: dict[str, dict[int, int]]) -> dict[tuple[str, Pair], Points]:
    """For each direction of each pair of a tree: times at the sender and the smallest differences."""
    pairs = [(run, *pair) for run, tree in trees.items() for node, parent in tree.items() if node != parent
             for pair in ((node, parent), (parent, node))]  # fmt: skip
    if not pairs:
        return {}
    wanted = met.sparkSession.createDataFrame(pairs, "run string, sender int, receiver int")
    of_pair = met.join(F.broadcast(wanted), list(_PAIR))
    span = of_pair.groupBy(*_PAIR).agg(F.min("sent_at").alias("low"), F.max("sent_at").alias("high"))
    stretch = F.floor((F.col("sent_at") - F.col("low")) * STRETCHES / (F.col("high") - F.col("low") + 1))
    least = (
        of_pair.join(F.broadcast(span), list(_PAIR))
        .groupBy(*_PAIR, stretch.alias("stretch"))
        .agg(F.min(F.struct(F.expr("received_at - sent_at").alias("difference"), "sent_at")).alias("point"))
    )
    found: dict[tuple[str, Pair], list[tuple[float, float]]] = defaultdict(list)
    for row in least.collect():
        point = row["point"]
        found[row["run"], (row["sender"], row["receiver"])].append((point["sent_at"], point["difference"]))
    return {key: np.array(points, np.float64) for key, points in found.items()}


def _rows(
    run: str, nodes: list[int], tree: dict[int, int], least: dict[Pair, int], points: dict[tuple[str, Pair], Points]
) -> list[tuple[Any, ...]]:
    """The clocks of one run; nodes that nothing connects with the reference are taken as they are, without a bound."""
    reference = nodes[0]
    known: dict[int, Relation] = {reference: SAME}
    for node, parent in tree.items():  # parents come before their children
        if node != reference:
            known[node] = _through(known[parent], _between(run, parent, node, least, points))
    found = [(node, known.get(node)) for node in nodes]
    return [
        (run, node, *((one.offset_ns, one.drift, one.error_ns) if one else (0.0, 0.0, None)), reference, _fits(one))
        for node, one in found
    ]


def _fits(one: Relation | None) -> bool:
    return one is None or one.straight


def _between(
    run: str, parent: int, node: int, least: dict[Pair, int], points: dict[tuple[str, Pair], Points]
) -> Relation:
    if (run, (parent, node)) not in points:  # one clock
        return Relation(0.0, 0.0, float(max(least[parent, node], least[node, parent])))
    above, back = points[run, (parent, node)], points[run, (node, parent)]
    below = np.column_stack((back[:, 0] + back[:, 1], -back[:, 1]))  # when it came, the parent's clock showed that
    return relation(above, below)


def _through(first: Relation, second: Relation) -> Relation:
    """The relation of a node to the reference, from that of its parent."""
    # The second is a line over the parent's clock, which shows t + first(t) when the reference shows t.
    drift = first.drift + second.drift * (1 + first.drift)
    offset = first.offset_ns + second.offset_ns + second.drift * first.offset_ns
    return Relation(offset, drift, first.error_ns + second.error_ns, first.straight and second.straight)


def align(table: DataFrame, clock_table: DataFrame) -> DataFrame:
    """`events` or `frames` with `at` on the clock of the reference node; places keep the order at each node."""
    corrections = clock_table.select("run", "node", "offset_ns", "drift")
    at = F.when(
        (F.col("offset_ns") != 0) | (F.col("drift") != 0),
        F.round((F.col("at") - F.col("offset_ns")) / (1 + F.col("drift"))).cast("bigint"),
    ).otherwise(F.col("at"))
    joined = table.join(F.broadcast(corrections), ["run", "node"], "left")
    return joined.select(*[at.alias("at") if name == "at" else name for name in table.columns])
