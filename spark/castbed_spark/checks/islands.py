"""Orders that nodes share, `total` and `acyclic_total`, looked at only where something is out of order.

Each message has a rank: the earliest of its deliveries in the order of the history. Where one node delivers a message
directly before one of a lower rank, the ranks between the two are in doubt; what is in doubt together is an *island*.
To come back to where it began, a circle has to go down, and each such step lies in an island; so every circle, and
every two messages in opposite orders, lie in one island. Where all nodes deliver the same messages in one order, there
is none.

One message that comes last at one node is out of order with all others, which makes one island of them. But most
messages of it have the same neighbours at every node that delivered them or these neighbours. Whatever circle goes
through such a message goes through its neighbours, and no two nodes disagree about it that do not disagree about these;
so it is left out. What is left of an island is judged in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from castbed.errors import CastbedError
from castbed.history import Kind, LocalEvent
from castbed.values import Mid
from castbed_spark.checks.histories import VERDICT, Part, verdict_table
from castbed_spark.checks.lanes import MESSAGE, first_deliveries
from castbed_spark.checks.parts import SEARCHES
from castbed_spark.checks.settling import settled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, WindowSpec

SHARED_ORDERS = ("total", "acyclic_total")
ISLAND_DELIVERIES_MAX = 1_000_000
"""So many are judged at once, in a gigabyte or two of one task."""

_LANE = ("run", "node", "memory")


def shared_orders(lanes: DataFrame, names: Iterable[str]) -> DataFrame:
    """Rows (run, property, violations, shown) for runs in which one of the properties is violated."""
    searched = tuple(names)
    deliveries = settled(ranked(lanes))
    inhabited = settled(tangled(_inhabited(deliveries, settled(_islands(deliveries)))))
    _refuse_too_large(inhabited)
    found = inhabited.groupBy("run", "island").applyInArrow(_judging(searched), VERDICT)
    return (
        found.filter("violations > 0")
        .groupBy("run", "property")
        .agg(F.sum("violations").alias("violations"), F.min_by("shown", F.col("shown")[0]["place"]).alias("shown"))
    )


def ranked(lanes: DataFrame) -> DataFrame:
    """The first deliveries, each with the rank of its message."""
    together = first_deliveries(lanes.repartition(*(F.col(name) for name in MESSAGE)))
    rank = F.min(F.struct("stamp", "node", "place")).over(Window.partitionBy(*MESSAGE))
    return together.withColumn("rank", rank)


def _islands(deliveries: DataFrame) -> DataFrame:
    """Stretches of ranks that are in doubt together: run, `low`, `high`."""
    following = F.lead("rank").over(Window.partitionBy(*_LANE).orderBy("place"))
    steps_down = (
        deliveries.withColumn("low", following).filter("low < rank").select("run", "low", F.col("rank").alias("high"))
    )
    by_rank = Window.partitionBy("run").orderBy("low", "high")
    reached = F.max("high").over(by_rank.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce(F.col("low") > F.col("reached"), F.lit(True)).cast("int")
    apart = steps_down.withColumn("reached", reached).withColumn("begins", begins)
    return (
        apart.withColumn("island", F.sum("begins").over(by_rank.rowsBetween(Window.unboundedPreceding, 0)))
        .groupBy("run", "island")
        .agg(F.min("low").alias("low"), F.max("high").alias("high"))
    )


def _inhabited(deliveries: DataFrame, islands: DataFrame) -> DataFrame:
    """The deliveries whose messages are in an island, with its number."""
    marks = islands.select("run", F.col("low").alias("rank"), F.struct("high", "island").alias("last"))
    concerned = deliveries.join(F.broadcast(islands.select("run").distinct()), "run", "left_semi")
    along = Window.partitionBy("run").orderBy(F.col("rank"), F.col("place").asc_nulls_first())
    both = concerned.unionByName(marks, allowMissingColumns=True)
    placed = both.withColumn(
        "last", F.last("last", ignorenulls=True).over(along.rowsBetween(Window.unboundedPreceding, 0))
    )
    inside = placed.filter("place is not null and rank <= last.high")
    return inside.withColumn("island", F.col("last.island")).drop("last")


def tangled(inhabited: DataFrame) -> DataFrame:
    """Without the messages that stand between the same two neighbours wherever any of the three was delivered."""
    lane = Window.partitionBy("island", *_LANE).orderBy("place")
    everywhere = Window.partitionBy("run", "island", "rank")
    beside = inhabited.withColumns({"before": F.lag("rank").over(lane), "after": F.lead("rank").over(lane)})
    same = beside.withColumns({f"same_{side}": _same(side, everywhere) for side in ("before", "after")})
    inner = (
        F.col("same_before") & F.col("same_after") & F.lag("same_after").over(lane) & F.lead("same_before").over(lane)
    )
    marked = same.withColumn("inner", F.coalesce(inner, F.lit(False)))
    return marked.filter("not inner").drop("rank", "before", "after", "same_before", "same_after", "inner")


def _same(neighbour: str, everywhere: WindowSpec) -> Column:
    """Whether a message has this neighbour wherever it was delivered, and the same one."""
    known = F.count(neighbour).over(everywhere) == F.count(F.lit(1)).over(everywhere)
    return known & (F.min(neighbour).over(everywhere) == F.max(neighbour).over(everywhere))


def _refuse_too_large(islands: DataFrame) -> None:
    sizes = islands.groupBy("run", "island").agg(F.count(F.lit(1)).alias("size"))
    for row in sizes.filter(F.col("size") > ISLAND_DELIVERIES_MAX).limit(1).collect():
        raise CastbedError(
            f"{row['run']}: {row['size']} deliveries are out of order with each other; no more than "
            f"{ISLAND_DELIVERIES_MAX} can be judged together, so whether nodes share an order stays undecided"
        )


def _judging(names: tuple[str, ...]) -> Callable[[pa.Table], pa.Table]:
    def judge_island(table: pa.Table) -> pa.Table:
        part = _Island(table)
        return verdict_table([part.verdict(name, SEARCHES[name](part.history)) for name in names])

    return judge_island


class _Island(Part):
    """The deliveries of an island; a node that lost its storage begins a new sequence."""

    def _events(self) -> Iterable[LocalEvent]:
        of = self.columns
        memories: dict[int, int] = {}
        for row, (node, memory, at) in enumerate(zip(of["node"], of["memory"], of["stamp"], strict=True)):
            if memories.setdefault(node, memory) != memory:
                memories[node] = memory
                self.rows.append(row)
                yield LocalEvent(node, at, Kind.RESTART)
            self.rows.append(row)
            mid = Mid(of["origin"][row], of["seqno"][row], of["incarnation"][row])
            yield LocalEvent(node, at, Kind.DELIVER, of["group"][row], mid)
