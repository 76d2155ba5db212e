"""The material of the space-time diagram: what happened to some messages, and the copies of their frames.

The messages of witnesses come first, then those that were asked for, then those that were submitted first, as many as
a page can hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import Window
from pyspark.sql import functions as F

from castbed.history import Kind
from castbed_spark.report.document import Diagram, Mark, Story
from castbed_spark.report.hops import hops
from castbed_spark.report.kinds import Names
from castbed_spark.report.labels import Labels, MessageKey
from castbed_spark.report.timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

MESSAGES_MAX = 300
MESSAGES_MIN = 20
ELEMENTS_MAX = 30_000  # of a page: marks and hops, some 50 bytes each
MOVES_MAX = 3_000  # marks that belong to no message
WAITING_SHOWN_MAX = 5

_OF_MESSAGES = (Kind.SUBMIT, Kind.HOLD, Kind.DELIVER, Kind.REFUSE)
_MOVES = (Kind.CRASH, Kind.RESTART, Kind.VIEW, Kind.ATTACH, Kind.DETACH, Kind.JOIN, Kind.LEAVE)
_IDENTITY = ("origin", "seqno", "incarnation")
_KEY = ("group", *_IDENTITY)


class Scene(msgspec.Struct, frozen=True):
    """What is known of a run before its diagram is made: `first` have to be in it, of `messages` in all."""

    timeline: Timeline
    labels: Labels
    first: list[MessageKey]
    messages: int


def diagrams(
    messages: DataFrame, events: DataFrame, frames: DataFrame, scenes: dict[str, Scene], names: Names
) -> dict[str, Diagram]:
    """The diagram of each run."""
    chosen = _chosen(messages, scenes)
    keys = [(run, *key) for run, sizes in chosen.items() for key in sizes]
    spark = messages.sparkSession
    wanted = F.broadcast(
        spark.createDataFrame(keys, "run string, group bigint, origin int, seqno bigint, incarnation bigint")
    )
    told = _grouped(events.filter(_among(_OF_MESSAGES)).join(wanted, ["run", *_KEY]))
    carried = _grouped(_carrying(frames, wanted))
    moves = _moves(events)
    found = {}
    for run, scene in scenes.items():
        stories = [_story(key, told[run, key], carried[run, key], scene, names) for key in chosen[run]]
        kept = _fitting(stories, ELEMENTS_MAX // len(scenes))
        found[run] = Diagram(kept, _marks_of_moves(moves[run], scene), max(scene.messages - len(kept), 0))
    return found


def _chosen(messages: DataFrame, scenes: dict[str, Scene]) -> dict[str, dict[MessageKey, None]]:
    """For each run: the messages that have to be there, then those submitted first."""
    rank = F.row_number().over(Window.partitionBy("run").orderBy("submitted_at", *_KEY))
    early = messages.withColumn("rank", rank).filter(F.col("rank") <= MESSAGES_MAX).select("run", "rank", *_KEY)
    found = {run: dict.fromkeys(scene.first) for run, scene in scenes.items()}
    for row in sorted(early.collect(), key=lambda row: row["rank"]):
        nodes = len(scenes[row["run"]].labels.cast.nodes)
        if row["rank"] <= max(MESSAGES_MIN, min(MESSAGES_MAX, ELEMENTS_MAX // max(nodes, 1))):
            found[row["run"]].setdefault(_key(row))
    return found


def _key(row: Row) -> MessageKey:
    return row["group"], row["origin"], row["seqno"], row["incarnation"]


def _among(kinds: Iterable[Kind]) -> Column:
    return F.col("kind").isin([int(kind) for kind in kinds])


def _grouped(rows: DataFrame) -> dict[tuple[str, MessageKey], list[Row]]:
    found: dict[tuple[str, MessageKey], list[Row]] = defaultdict(list)
    for row in rows.collect():
        found[row["run"], _key(row)].append(row)
    return found


def _carrying(frames: DataFrame, wanted: DataFrame) -> DataFrame:
    """The frames that carry the identity of one of these messages; some, like acknowledgements, name no group."""
    named = frames.withColumnRenamed("group", "named")
    return named.join(wanted, ["run", *_IDENTITY]).filter((F.col("named") == F.col("group")) | (F.col("named") == 0))


def _fitting(stories: list[Story], elements: int) -> list[Story]:
    """As many stories as the page can hold, at least one."""
    kept: list[Story] = []
    for story in stories:
        elements -= len(story.marks) + len(story.hops)
        if kept and elements < 0:
            break
        kept.append(story)
    return kept


# --- one message -----------------------------------------------------------------------------------------------------


def _story(key: MessageKey, events: list[Row], frames: list[Row], scene: Scene, names: Names) -> Story:
    ordered = sorted(events, key=lambda row: (row["at"], row["node"], row["place"]))
    marks = [_mark(row, _waiting(row, scene.labels, key[0]), scene) for row in ordered]
    size = max((row["size"] for row in events), default=0)
    return Story(
        scene.labels.message(key), scene.labels.group(key[0]), size, marks, hops(frames, scene.timeline, names)
    )


def _mark(row: Row, text: str, scene: Scene) -> Mark:
    return scene.timeline.at(row["at"]), row["node"] - 1, Kind(row["kind"]).name.lower(), text


def _waiting(row: Row, labels: Labels, group: int) -> str:
    if not row["waiting_for"]:
        return row["text"] or ""
    missing = [labels.message((group, *mid)) for mid in row["waiting_for"][:WAITING_SHOWN_MAX]]
    more = f" +{len(row['waiting_for']) - len(missing)}" if len(row["waiting_for"]) > len(missing) else ""
    return f"waiting for {', '.join(missing)}{more}"


# --- what belongs to no message --------------------------------------------------------------------------------------


def _moves(events: DataFrame) -> dict[str, list[Row]]:
    """Crashes, views, attachments and memberships; what is of the start comes only where there is room."""
    rank = F.row_number().over(Window.partitionBy("run").orderBy("at", "node", "place"))
    found: dict[str, list[Row]] = defaultdict(list)
    for row in events.filter(_among(_MOVES)).withColumn("rank", rank).filter(F.col("rank") <= MOVES_MAX).collect():
        found[row["run"]].append(row)
    return found


def _marks_of_moves(rows: list[Row], scene: Scene) -> list[Mark]:
    return [_mark(row, _move_text(row, scene.labels), scene) for row in sorted(rows, key=lambda row: row["rank"])]


def _move_text(row: Row, labels: Labels) -> str:
    kind = Kind(row["kind"])
    if kind == Kind.VIEW:
        return labels.view(row["number"], row["members"] or ())
    if kind in (Kind.JOIN, Kind.LEAVE):
        return labels.group(row["group"])
    return labels.node(row["peer"]) if kind == Kind.ATTACH and row["peer"] else ""
