"""Words for a violation that Spark found: the in-memory property is asked about the few events that show it.

What it says of these events alone is what it says of them in the whole history, because the events that say who is
where come along. A message whose name another group uses too is told apart: one event that names the other is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.history import History, Kind
from castbed.properties import Violation
from castbed.properties.reading import facts_of
from castbed_spark.checks.histories import VERDICT, Part, verdict_table
from castbed_spark.checks.lanes import MID, OF_MESSAGES, controls, is_kind
from castbed_spark.checks.parts import SEARCHES, named

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

NOBODY_NAMES_IT = -1
_LAST = 1 << 62


def with_words(counted: DataFrame, lanes: DataFrame, identities: DataFrame) -> DataFrame:
    """Verdicts of rows (run, property, violations, shown); `shown` has the places of the events of one violation."""
    places = counted.select("run", "property", F.explode("shown").alias("one")).select("run", "property", "one.*")
    wanted = F.broadcast(places.distinct())
    events = lanes.join(wanted, ["run", "node", "place"])
    who = controls(lanes).join(F.broadcast(counted.select("run", "property")), "run")
    shown = events.unionByName(who.select(*events.columns)).unionByName(_namesakes(events, lanes))
    told = _told(shown, counted, identities)
    return told.drop("violations").join(counted.select("run", "property", "violations"), ["run", "property"])


def _namesakes(events: DataFrame, lanes: DataFrame) -> DataFrame:
    """For each message that is shown, an event that names one of the same name in another group, if there is one."""
    shown = events.filter(is_kind(*OF_MESSAGES))
    names = lanes.filter(is_kind(*OF_MESSAGES)).select("run", *MID, F.col("group").alias("other")).distinct()
    pairs = shown.join(names, ["run", *MID]).filter("other != group")
    return pairs.withColumns(
        {
            "group": F.col("other"), "kind": F.lit(int(Kind.HOLD)), "stamp": F.lit(_LAST),
            "node": F.lit(NOBODY_NAMES_IT), "parent_origin": F.lit(None).cast("int"),
        }
    ).select(*events.columns).dropDuplicates(["run", "property", "group", *MID])  # fmt: skip


def _told(events: DataFrame, counted: DataFrame, identities: DataFrame) -> DataFrame:
    properties = F.broadcast(counted.select("run", "property"))
    naming = named(events.drop("property").limit(0), identities).join(properties, "run")
    rows = events.withColumn("text", F.lit(None).cast("string")).unionByName(naming)
    return rows.groupBy("run", "property").applyInArrow(_explained, VERDICT)


def _explained(table: pa.Table) -> pa.Table:
    name: str = table.column("property")[0].as_py()
    part = Part(table)
    if name == "no_needless_wait":
        found = [_needless(part.history)]
    else:
        found = SEARCHES[name](part.history) or [_indirect(part.history)]
    return verdict_table([part.verdict(name, found)])


def _needless(history: History) -> Violation:
    """A wait, and the last that it was for: these events alone do not tell why."""
    facts = facts_of(history)
    (held,) = (hold for holds in facts.holds.values() for hold in holds if hold.release is not None)
    name, text = facts.name(held.event.node), facts.text(held.number)
    waited = [one for one in facts.deliveries[held.event.node] if one.number != held.number]
    if waited:
        words = f"{name} went on holding {text} after {facts.text(waited[0].number)}, the last that it had to wait for."
    else:
        words = f"{name} held {text} back although nothing that {text} depends on was missing."
    shown = tuple(event for event in history.of(*OF_MESSAGES) if event.node != NOBODY_NAMES_IT)
    return Violation("no_needless_wait", words, shown, "late-release" if waited else "needless-hold")


def _indirect(history: History) -> Violation:
    """Two messages in causal order through others that are not shown: which was delivered too early."""
    facts = facts_of(history)
    (node,) = facts.deliveries
    first, *late = facts.deliveries[node]
    (before,) = facts.submissions.keys() - {first.number}
    early_text, late_text = facts.text(first.number), facts.text(before)
    words = (
        f"{facts.name(node)} delivered {early_text} {'before' if late else 'without'} {late_text}, "
        f"although {late_text} happened before {early_text}."
    )
    shown = tuple(event for event in history.of(*OF_MESSAGES) if event.node != NOBODY_NAMES_IT)
    return Violation("causal", words, shown, "wrong-order" if late else "missing")
