"""`judge`: every property over every run, one row each.

A check here is a plain function of DataFrames. What each property costs, and what has to fit into the memory of one
task, is in `docs/spark-checks.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from castbed.properties import VIOLATIONS_MAX
from castbed.registry import Registry, load_registry
from castbed_spark.checks import orders
from castbed_spark.checks.causality import Causality, causal
from castbed_spark.checks.histories import Search
from castbed_spark.checks.holds import released_holds
from castbed_spark.checks.islands import SHARED_ORDERS, shared_orders
from castbed_spark.checks.lanes import EVENT_COLUMNS, laned
from castbed_spark.checks.parts import BY_MESSAGE, BY_VIEWS, by_message, by_views
from castbed_spark.checks.settling import settled
from castbed_spark.checks.waits import no_needless_wait
from castbed_spark.checks.whole import whole_runs
from castbed_spark.checks.witnesses import with_words
from castbed_spark.source import read_events, read_nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERDICTS = (
    "run string, property string, holds boolean, violations bigint, kind string, witness string, "
    "events array<struct<node:int,place:bigint>>, judged string"
)
"""`events` says where the events of the witness are; `judged` is BY_SPARK, or IN_MEMORY if one task held the run."""

BY_SPARK, IN_MEMORY = "spark", "memory"
SEMANTIC = "semantic"
CHECKED = (*BY_MESSAGE, *BY_VIEWS, "fifo", "semantic", "causal", *SHARED_ORDERS, "no_needless_wait")
"""The properties that have a form for Spark. Any other is judged run by run, in memory."""

Row = dict[str, Any]


def judge(
    spark: SparkSession,
    source: str | Mapping[str, DataFrame],
    names: Iterable[str] = (),
    registry: Registry | None = None,
) -> DataFrame:
    """Each run's verdict on each named property: a table with the columns of VERDICTS.

    `source` is where the captures are, or the tables `events` and `nodes`. Without names each run is judged by what its
    protocol guarantees, in that order. Judging happens before this returns; only verdicts are in the driver's memory.
    """
    events, nodes = _tables(spark, source)
    identities = identities_of(nodes)
    guarantees = {row["run"]: row["guarantees"] for row in nodes.select("run", "guarantees").distinct().collect()}
    wanted = tuple(names)
    needed = wanted or tuple(dict.fromkeys(name for each in guarantees.values() for name in each))
    rows = Judge(events, identities, _searches(needed, registry)).rows()
    order = {run: wanted or tuple(each) for run, each in guarantees.items()}
    asked = [row for row in rows if row["property"] in order[row["run"]]]
    asked.sort(key=lambda row: (row["run"], order[row["run"]].index(row["property"])))
    return spark.createDataFrame(asked, VERDICTS)


def identities_of(nodes: DataFrame) -> DataFrame:
    """One row per run: `identity`, a RunIdentity as JSON, and whether the run guarantees `semantic`."""
    kept = ("seed", "protocol", "variant", "transport", "model", "names", "guarantees")
    one = nodes.groupBy("run").agg(
        F.first("experiment").alias("experiment"),
        *(F.first(name).alias(name) for name in kept),
        F.map_from_entries(F.collect_set(F.struct("node", "role"))).alias("role_of"),
    )
    roles = F.transform(
        F.sequence(F.lit(1), F.greatest(F.size("names"), F.lit(1))),
        lambda node: F.coalesce(F.col("role_of")[node], F.lit("")),
    )
    identity = F.struct(F.col("experiment").alias("run"), *kept, roles.alias("roles"))
    return one.select(
        "run", F.to_json(identity).alias("identity"), F.array_contains("guarantees", SEMANTIC).alias("semantic")
    )


def _tables(spark: SparkSession, source: str | Mapping[str, DataFrame]) -> tuple[DataFrame, DataFrame]:
    if isinstance(source, str):
        return read_events(spark, source), read_nodes(spark, source)
    return source["events"], source["nodes"]


def _searches(names: Iterable[str], registry: Registry | None) -> dict[str, Search]:
    """The in-memory form of each property; ConfigurationError for a name that no plugin brings."""
    known = (registry or load_registry()).checks
    return {name: known.get(name, "property").violations for name in names}


class Judge:
    """Judges all runs of a table of events by some properties; what several checks need is computed once."""

    def __init__(self, events: DataFrame, identities: DataFrame, searches: dict[str, Search]) -> None:
        self.identities = settled(identities)
        self.events, self.searches = events, searches
        self.lanes = settled(laned(events.select(*EVENT_COLUMNS)))

    def rows(self) -> list[Row]:
        """One row per run and property."""
        found = {(row["run"], row["property"]): row for row in self._found()}
        runs = [row["run"] for row in self.identities.select("run").collect()]
        return [found.get((run, name)) or _row(run, name) for run in sorted(runs) for name in self.searches]

    def _found(self) -> Iterator[Row]:
        """The rows of runs that violate something, and of all that was judged in memory."""
        yield from _collected(self._in_parts())
        yield from self._explained(self._in_order())
        yield from self._in_causal_order()
        yield from self._in_memory([name for name in self.searches if name not in CHECKED], self.identities)

    def _wanted(self, *names: str) -> list[str]:
        return [name for name in names if name in self.searches]

    def _in_parts(self) -> DataFrame | None:
        by_messages, views = self._wanted(*BY_MESSAGE), self._wanted(*BY_VIEWS)
        found = [by_message(self.lanes, self.identities, by_messages)] if by_messages else []
        found += [by_views(self.lanes, self.identities, views)] if views else []
        return _united(found)

    def _in_order(self) -> DataFrame | None:
        """`fifo`, `semantic` and the orders that nodes share: how often, and where."""
        single = {"fifo": orders.fifo, "semantic": orders.semantic}
        found = [single[name](self.lanes) for name in self._wanted(*single)]
        shared = self._wanted(*SHARED_ORDERS)
        found += [shared_orders(self.lanes, shared)] if shared else []
        return _united(found)

    def _in_causal_order(self) -> Iterator[Row]:
        """`causal` and `no_needless_wait`; runs in which a message is in its own past are judged in memory."""
        names = self._wanted("causal", "no_needless_wait")
        if not names:
            return
        causality = Causality(self.lanes)
        if "causal" in names and not causality.in_order:
            yield from self._explained(causal(causality, self.identities))
        if "no_needless_wait" in names:
            yield from self._waits(causality)
        yield from self._in_memory(names, self.identities.filter(F.col("run").isin(causality.circles)))

    def _waits(self, causality: Causality) -> list[Row]:
        holds = settled(released_holds(self.lanes))
        return [] if holds.isEmpty() else self._explained(no_needless_wait(causality, holds, self.identities))

    def _explained(self, counted: DataFrame | None) -> list[Row]:
        """The rows of verdicts of which only the number and the places of one violation are known."""
        if counted is None:
            return []
        kept = settled(counted)
        return [] if kept.isEmpty() else _collected(with_words(kept, self.lanes, self.identities))

    def _in_memory(self, names: list[str], identities: DataFrame) -> list[Row]:
        if not names or identities.isEmpty():
            return []
        events = laned(self.events.join(F.broadcast(identities.select("run")), "run", "left_semi"))
        searches = {name: self.searches[name] for name in names}
        return _collected(whole_runs(events, identities, searches), IN_MEMORY)


def _united(tables: list[DataFrame]) -> DataFrame | None:
    return reduce(lambda one, other: one.unionByName(other), tables) if tables else None


def _collected(verdicts: DataFrame | None, judged: str = BY_SPARK) -> list[Row]:
    """The verdicts of parts put together; where nothing is violated, only what was judged in memory has a row."""
    if verdicts is None:
        return []
    shown = F.when(F.col("violations") > 0, F.struct("words", "kind", "shown"))
    whole = verdicts.groupBy("run", "property").agg(F.sum("violations").alias("violations"), F.min(shown).alias("one"))
    rows = whole.filter(F.col("violations") > (0 if judged == BY_SPARK else -1)).select(
        "run", "property", "violations", "one.*"
    )
    return [_row(judged=judged, **row.asDict(recursive=True)) for row in rows.collect()]


def _row(
    run: str, property: str, violations: int = 0, words: str | None = None, kind: str | None = None,
    shown: list[dict[str, int]] | None = None, judged: str = BY_SPARK,
) -> Row:  # fmt: skip
    return {
        "run": run, "property": property, "holds": violations == 0, "violations": min(violations, VIOLATIONS_MAX),
        "kind": kind or "", "witness": words or "", "events": shown or [], "judged": judged,
    }  # fmt: skip
