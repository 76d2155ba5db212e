"""Fills a document from the tables of one run or several; each figure is computed for all runs at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F

from castbed.errors import ConfigurationError
from castbed.history import Kind
from castbed.registry import Registry
from castbed_spark.report import counts, series, timeline
from castbed_spark.report.distributions import distributions
from castbed_spark.report.document import Distribution, Run
from castbed_spark.report.kinds import kind_names
from castbed_spark.report.labels import Labels, MessageKey
from castbed_spark.report.sources import Source
from castbed_spark.report.stories import Scene, diagrams
from castbed_spark.report.traffic import traffic
from castbed_spark.report.verdicts import judge_in_memory
from castbed_spark.report.verdicts_at_scale import EVENTS_IN_MEMORY_MAX, judge_at_scale

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Tables = Callable[[str], "DataFrame"]
"""A table by its name."""
Progress = Callable[[str], None]


def filled(
    tables: Tables, sources: list[Source], messages: list[str], registry: Registry, progress: Progress
) -> list[Run]:
    """What a report says about each run; `messages` are labels of those that the diagram has to show."""
    filling = Filling(tables, sources)
    progress("judging")
    filling.judge(registry)
    progress("measuring")
    filling.measure(registry)
    progress("drawing")
    filling.draw(registry, messages)
    return [filling.run(source) for source in sources]


class Filling:
    """The figures of all runs, by run, as far as they have been computed."""

    def __init__(self, tables: Tables, sources: list[Source], in_memory_max: int = EVENTS_IN_MEMORY_MAX) -> None:
        self.tables, self.sources, self.in_memory_max = tables, sources, in_memory_max
        self.casts = timeline.casts(tables("nodes"))
        self.clocks = timeline.by_run(tables("clocks"))
        self.timelines = timeline.timelines(tables("events"))
        for source in sources:
            if source.name not in self.timelines:
                raise ConfigurationError(str(source.directory), "its captures hold no event: nothing to report")
        self._name_messages()

    def _name_messages(self) -> None:
        extents = self.tables("messages").groupBy("run").agg(
            F.count(F.lit(1)).alias("count"), (F.min("group") != F.max("group")).alias("several")
        )  # fmt: skip
        found = {row["run"]: row for row in extents.collect()}
        self.messages = {run: row["count"] for run, row in found.items()}
        self.labels = {run: Labels(cast, run in found and found[run]["several"]) for run, cast in self.casts.items()}

    def judge(self, registry: Registry) -> None:
        """In memory, which is quicker; by Spark where memory might not be enough."""
        total = sum(sum(line.counts.values()) for line in self.timelines.values())
        judge = judge_in_memory if total <= self.in_memory_max else judge_at_scale
        self.judged = judge(self.tables("events"), self.tables("nodes"), registry, self.timelines, self.labels)

    def measure(self, registry: Registry) -> None:
        tables = self.tables
        self.spread = distributions(tables("deliveries"), tables("handoffs"))
        self.over_time = series.over_time(tables("events"), self.timelines)
        self.buffers = series.buffers(tables("buffers"), self.timelines, self.casts)
        self.traffic = traffic(tables("frames"), self.casts, kind_names(registry))
        self.repeated = counts.duplicates(tables("deliveries"))
        self.held = counts.held_at_end(tables("buffers"))
        self.damaged = counts.damage(tables("captures"), self.casts, self.clocks)

    def draw(self, registry: Registry, wanted: list[str]) -> None:
        asked = self._asked(wanted)
        scenes = {
            run: Scene(self.timelines[run], self.labels[run], judged.messages + asked[run], self.messages.get(run, 0))
            for run, judged in self.judged.items()
        }
        tables = self.tables
        self.diagrams = diagrams(tables("messages"), tables("events"), tables("frames"), scenes, kind_names(registry))

    def _asked(self, wanted: list[str]) -> dict[str, list[MessageKey]]:
        """The messages that are called so, in each run; ConfigurationError for a name that no message has."""
        asked: dict[str, list[MessageKey]] = {source.name: [] for source in self.sources}
        for label in wanted:
            found = [(run, key) for run in asked for key in self._called(run, label)]
            if not found:
                raise ConfigurationError("--message", f"there is no message {label!r} in the captures")
            for run, key in found:
                asked[run].append(key)
        return asked

    def _called(self, run: str, label: str) -> list[MessageKey]:
        labels, found = self.labels[run], []
        for origin, seqno, incarnation in labels.identities(label):
            rows = self.tables("messages").filter(
                (F.col("run") == run) & (F.col("origin") == origin)
                & (F.col("seqno") == seqno) & (F.col("incarnation") == incarnation)
            )  # fmt: skip
            found += [(row["group"], origin, seqno, incarnation) for row in rows.select("group").collect()]
        return [key for key in found if labels.message(key) == label or "/" not in label]

    def run(self, source: Source) -> Run:
        name, cast, line = source.name, self.casts[source.name], self.timelines[source.name]
        return Run(
            **msgspec.structs.asdict(cast.head),
            name=name,
            virtual_s=line.seconds,
            nodes=cast.nodes,
            summary=self._summary(name),
            properties=self.judged[name].properties,
            problems=self.damaged[name],
            faults=counts.faults(source.directory, line),
            latency=self._spread(name, "latency"),
            holds=self._spread(name, "holds"),
            needless=self._spread(name, "needless"),
            gaps=self._spread(name, "gaps"),
            silences=self._spread(name, "silences"),
            over_time=self.over_time[name],
            control=self.traffic[name].control,
            buffers=self.buffers.get(name, []),
            roles=self.traffic[name].roles,
            clocks=timeline.clock_list(self.clocks.get(name, []), cast),
            diagram=self.diagrams[name],
        )

    def _summary(self, name: str) -> dict[str, int | None]:
        happened = self.timelines[name].counts
        return {
            "submitted": happened.get(Kind.SUBMIT, 0),
            "delivered": happened.get(Kind.DELIVER, 0),
            "expected": self.judged[name].expected,
            "duplicates": self.repeated.get(name, 0),
            "held_at_end": self.held.get(name, 0),
            "frames": self.traffic[name].frames,
            "events": sum(happened.values()),
        }

    def _spread(self, name: str, what: str) -> Distribution:
        return self.spread.get((name, what), Distribution())
