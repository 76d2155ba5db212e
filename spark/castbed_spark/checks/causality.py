"""`causal` at scale: the pasts of all messages, then what was overtaken, then which of that matters.

What a node has not delivered matters if it delivers it later in the same memory, or was bound to deliver it
(`castbed.properties.facts`). Both are decided in parts, as in `castbed_spark.checks.parts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from castbed.history import Kind
from castbed.properties.reading import facts_of
from castbed_spark.checks.histories import Part, arrow_schema
from castbed_spark.checks.lanes import MESSAGE, MID, controls, first_deliveries, is_kind
from castbed_spark.checks.orders import event
from castbed_spark.checks.parts import PART_EVENTS, named
from castbed_spark.checks.passes import closed, direct_pasts, placed, steps
from castbed_spark.checks.settling import settled

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

BOUND = "run string, node int, memory int, place bigint, thread int, count int"
_OVERTAKEN = ("run", "thread", "count", "node", "memory", "place", "d_thread", "d_count")
_ABOUT = ("memory", "place", "thread", "count")


class Causality:
    """The pasts of the messages of all runs, and what was overtaken; `circles` are runs that have no such order."""

    def __init__(self, lanes: DataFrame) -> None:
        self.lanes = lanes
        self.messages = settled(placed(lanes))
        self.moves = settled(steps(lanes, self.messages))
        self.circles: list[str] = []
        last = self._fixed_point()
        self.pasts = last.filter("past is not null").select("run", "thread", "count", "past")
        overtaken = last.filter("past is null").select(*_OVERTAKEN)
        self.in_order = overtaken.isEmpty()
        """Whether every node had delivered all of a message's past before it, in all runs."""
        self.overtaken = overtaken if self.in_order else settled(self._delivered_later(overtaken))

    def _fixed_point(self) -> DataFrame:
        """Passes until no past changes; runs in which a message is in its own past are left out."""
        moves, pasts = self.moves, settled(direct_pasts(self.moves))
        while True:
            found = settled(closed(moves, pasts))
            circles = [row["run"] for row in found.filter("circle").select("run").distinct().collect()]
            if not circles and found.filter("changed").isEmpty():
                return found
            self.circles += circles
            moves = moves.filter(~F.col("run").isin(circles)) if circles else moves
            kept = found.filter(F.col("past").isNotNull() & ~F.col("run").isin(circles))
            pasts = kept.select("run", "thread", "count", "past")

    def _delivered_later(self, overtaken: DataFrame) -> DataFrame:
        """What was overtaken, with its message and `late_place`: where it was delivered at last."""
        messages = self.messages.select(*MESSAGE, "thread", "count")
        late = first_deliveries(self.lanes).select(*MESSAGE, "node", "memory", F.col("place").alias("late_place"))
        return overtaken.join(messages, ["run", "thread", "count"]).join(late, [*MESSAGE, "node", "memory"], "left")


def causal(causality: Causality, identities: DataFrame) -> DataFrame:
    """Rows (run, property, violations, shown) for runs in which `causal` is violated."""
    late = causality.overtaken
    judged = late.filter("late_place is null").withColumn("until", F.col("place"))
    missing = bound(causality, judged, identities)
    matters = late.filter("late_place is not null").unionByName(
        late.join(missing, ["run", "node", "memory", "place", "thread", "count"], "left_semi")
    )
    found = matters.groupBy("run").agg(
        F.lit("causal").alias("property"),
        F.count(F.lit(1)).alias("violations"),
        F.min_by(F.struct(*matters.drop("run").columns), _order()).alias("one"),
    )
    return _with_places(causality, found.select("run", "property", "violations", "one.*"))


def _order() -> Column:
    """Messages of one thread first: why these are in order needs no explanation."""
    return F.struct(F.col("thread") != F.col("d_thread"), F.col("place"), F.col("node"), F.col("thread"))


def _with_places(causality: Causality, found: DataFrame) -> DataFrame:
    """Where the events of a violation are: both submissions, why they are in order, and both deliveries."""
    messages = causality.messages.select("run", "thread", "count", "s_node", "s_memory", "s_place")
    after = messages.toDF("run", "d_thread", "d_count", "d_node", "d_memory", "d_place")
    between = causality.moves.filter("not submits").select(
        "run", "thread", "count", F.col("node").alias("d_node"), F.col("memory").alias("d_memory"),
        F.col("place").alias("known_place"),
    )  # fmt: skip
    both = found.join(messages, ["run", "thread", "count"]).join(after, ["run", "d_thread", "d_count"])
    why = both.join(between, ["run", "thread", "count", "d_node", "d_memory"], "left")
    known = F.min(F.when(F.col("known_place") < F.col("d_place"), F.col("known_place")))
    kept = ("run", "property", "violations", "s_node", "s_place", "d_node", "d_place", "node", "place", "late_place")
    shown = F.array(
        event("s_node", "s_place"), event("d_node", "known_place"), event("d_node", "d_place"),
        event("node", "place"), event("node", "late_place"),
    )  # fmt: skip
    one = why.groupBy(*kept).agg(known.alias("known_place"))
    return one.select("run", "property", "violations", F.array_compact(shown).alias("shown"))


# --- who was bound ---------------------------------------------------------------------------------------------------


def bound(causality: Causality, overtaken: DataFrame, identities: DataFrame) -> DataFrame:
    """Those messages that were owed to the node from their submission until the event of the node at `until`.

    A part has the submissions of some messages, the events that say who is where, and a mark (NOTE) at each `until`.
    """
    rows = _with_marks(causality.lanes, overtaken)
    counts = rows.groupBy("run").agg(F.ceil(F.count(F.lit(1)) / PART_EVENTS).cast("int").alias("parts"))
    own = rows.join(F.broadcast(counts), "run").withColumn("part", F.pmod(F.hash(*MID), F.col("parts")))
    shared = named(controls(causality.lanes), identities).join(F.broadcast(counts), "run")
    copies = shared.withColumn("part", F.explode(F.sequence(F.lit(0), F.col("parts") - 1)))
    both = own.unionByName(copies, allowMissingColumns=True).drop("parts")
    return both.groupBy("run", "part").applyInArrow(_bound_in_part, BOUND)


def _with_marks(lanes: DataFrame, overtaken: DataFrame) -> DataFrame:
    """Submissions and marks; a mark keeps what it is about in columns of its own."""
    wanted = overtaken.select(*MESSAGE).distinct()
    submitted = lanes.filter(is_kind(Kind.SUBMIT)).join(wanted, list(MESSAGE), "left_semi")
    times = lanes.select("run", "node", F.col("place").alias("until"), "at", "stamp")
    marks = overtaken.join(times, ["run", "node", "until"]).select(
        *MESSAGE, "node", "at", "stamp", F.col("until").alias("place"), F.lit(int(Kind.NOTE)).alias("kind"),
        *(F.col(name).alias(f"about_{name}") for name in _ABOUT),
    )  # fmt: skip
    return submitted.unionByName(marks, allowMissingColumns=True)


def _bound_in_part(table: pa.Table) -> pa.Table:
    import pyarrow as pa

    part = Part(table)
    facts, of = facts_of(part.history), part.columns
    rows = []
    for at, (mark, row) in enumerate(zip(part.history.events, part.rows, strict=True)):
        if of["about_place"][row] is not None:
            submission = facts.submissions[facts.numbers[mark.message]]
            if facts.is_bound(submission, mark.node, (mark.at, at)):
                about = {name: of[f"about_{name}"][row] for name in _ABOUT}
                rows.append({"run": part.run, "node": mark.node, **about})
    return pa.Table.from_pylist(rows, schema=arrow_schema(BOUND))
