"""Properties that can be judged message by message: a history is cut into parts, and each is judged in memory.

A part has all events of some messages, and all events that say who is where. What these properties say of a message
depends on nothing else, so the violations of the parts are the violations of the whole history. Messages of one name
in several groups are in one part, because words tell them apart only if both are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.properties import CHECKS
from castbed_spark.checks.histories import IDENTITY, VERDICT, judging
from castbed_spark.checks.lanes import MID, OF_MESSAGES, controls, is_kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

PART_EVENTS = 100_000
"""About so many events of messages are in one part: some 100 MB as objects of Python."""

BY_MESSAGE = (
    "integrity", "no_duplication", "agreement", "validity", "exactly_once", "liveness", "recovery",
    "sending_view_delivery", "same_view_delivery", "virtual_synchrony",
)  # fmt: skip
BY_VIEWS = ("self_inclusion", "view_monotonicity", "convergent_views")
SEARCHES = {check.name: check.violations for check in CHECKS}


def by_message(lanes: DataFrame, identities: DataFrame, names: Iterable[str], size: int = PART_EVENTS) -> DataFrame:
    """The verdicts of properties that are in BY_MESSAGE, one row per run, property and part."""
    messages = lanes.filter(is_kind(*OF_MESSAGES))
    counts = messages.groupBy("run").agg(F.ceil(F.count(F.lit(1)) / size).alias("parts"))
    parts = identities.join(counts, "run", "left").select("run", F.coalesce("parts", F.lit(1)).alias("parts"))
    number = F.pmod(F.hash(*MID), F.col("parts").cast("int")).cast("bigint")
    own = messages.join(F.broadcast(parts), "run").withColumn("part", number).drop("parts")
    return _judged(own, controls(lanes), identities, parts, names)


def by_views(lanes: DataFrame, identities: DataFrame, names: Iterable[str]) -> DataFrame:
    """The verdicts of properties that are in BY_VIEWS: they look at views and memberships alone."""
    parts = identities.select("run", F.lit(1).cast("bigint").alias("parts"))
    nothing = lanes.filter(F.lit(False)).withColumn("part", F.lit(0).cast("bigint"))
    return _judged(nothing, controls(lanes), identities, parts, names)


def _judged(
    own: DataFrame, shared: DataFrame, identities: DataFrame, parts: DataFrame, names: Iterable[str]
) -> DataFrame:
    everywhere = F.explode(F.sequence(F.lit(0).cast("bigint"), F.col("parts") - 1)).alias("part")
    copies = named(shared, identities).join(F.broadcast(parts), "run").select(*shared.columns, "text", everywhere)
    rows = own.withColumn("text", F.lit(None).cast("string")).unionByName(copies)
    searches = {name: SEARCHES[name] for name in names}
    return rows.groupBy("run", "part").applyInArrow(judging(searches), VERDICT)


def named(events: DataFrame, identities: DataFrame) -> DataFrame:
    """The events with a column `text`, and a row per run that names it there."""
    told = events if "text" in events.columns else events.withColumn("text", F.lit(None).cast("string"))
    values = {"run": F.col("run"), "text": F.col("identity"), "kind": F.lit(IDENTITY)}
    values |= {name: F.lit(-1) for name in ("stamp", "node", "place")}  # it is read before any event
    columns = (values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in told.schema)
    return told.unionByName(identities.select(*columns))
