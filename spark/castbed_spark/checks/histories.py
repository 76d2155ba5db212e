"""Parts of a run as histories: rows of Arrow in, what the properties of `castbed` look at out, and verdicts back.

A part arrives in one group of rows: events, and one row of kind 0 whose `text` is the identity of the run. Whatever is
left out of a part, the order of the events that are in it is that of the whole history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from castbed.history import History, Kind, LocalEvent, RunIdentity
from castbed.properties import Violation
from castbed.values import Mid

if TYPE_CHECKING:
    import pyarrow as pa

IDENTITY = 0
"""The kind of the row that names the run; no event has it."""

VERDICT = (
    "run string, property string, violations bigint, words string, kind string, "
    "shown array<struct<node:int,place:bigint>>"
)
"""What every check returns: how often a property is violated, and one violation as words and as places of events."""

Row = dict[str, Any]
_ORDER = [("stamp", "ascending"), ("node", "ascending"), ("place", "ascending")]


class Part:
    """A part of a run: its history, and where each event of it is in the captures."""

    def __init__(self, table: pa.Table) -> None:
        ordered = table.sort_by(_ORDER)
        self.columns = {name: ordered.column(name).to_pylist() for name in ordered.column_names}
        self.run: str = self.columns["run"][0]
        self.identity = RunIdentity(self.run)
        self.rows: list[int] = []
        """By event, in which row it was."""
        events = list(self._events())
        self.history = History(self.identity, events)

    def _events(self) -> Iterable[LocalEvent]:
        made = _Maker(self.columns)
        for row, kind in enumerate(self.columns["kind"]):
            if kind == IDENTITY:
                self.identity = _identity(self.columns["text"][row])
            else:
                self.rows.append(row)
                yield made.event(row, kind)

    @cached_property
    def places(self) -> dict[int, tuple[int, int]]:
        """Node and place of each event."""
        places = self.columns["place"]
        return {id(event): (event.node, places[row]) for event, row in zip(self.history.events, self.rows, strict=True)}

    def shown(self, violation: Violation) -> list[dict[str, int]]:
        """Where the events of a witness are."""
        places = (self.places[id(event)] for event in violation.events if id(event) in self.places)
        return [{"node": node, "place": place} for node, place in places]

    def verdict(self, name: str, found: list[Violation]) -> Row:
        """The row of a property that these are the violations of."""
        return self.verdict_of(name, found, found[0]) if found else _row(self.run, name, 0)

    def verdict_of(self, name: str, found: list[Violation], shown: Violation) -> Row:
        return _row(self.run, name, len(found), shown.words, shown.kind, self.shown(shown))


class _Maker:
    """Makes events of columns; equal identities of messages are made once."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = columns
        self.optional = [name for name in ("peer", "stations", "text") if name in columns]
        self.mid = lru_cache(maxsize=None)(Mid)

    def event(self, at: int, kind: int) -> LocalEvent:
        of = self.columns
        parent, to = of["parent_origin"][at], of["to"][at]
        event = LocalEvent(
            of["node"][at], of["at"][at], Kind(kind), of["group"][at] or 0,
            self._mid(of["origin"][at], of["seqno"][at], of["incarnation"][at]),
            None if parent is None else self.mid(parent, of["parent_seqno"][at], of["parent_incarnation"][at]),
            of["number"][at] or 0, 0, of["size"][at] or 0, of["digest"][at] or 0,
            _mids(of["waiting_for"][at]), tuple(of["members"][at] or ()), (),
            None if to is None else tuple(to), bool(of["local"][at]),
        )  # fmt: skip
        return self._completed(event, at) if self.optional else event

    def _mid(self, origin: int | None, seqno: int, incarnation: int) -> Mid | None:
        return None if origin is None else self.mid(origin, seqno, incarnation)

    def _completed(self, event: LocalEvent, at: int) -> LocalEvent:
        """With the fields that only properties of other plugins may look at."""
        given: dict[str, Any] = {name: self.columns[name][at] for name in self.optional}
        stations = tuple(given.get("stations") or ())
        return msgspec.structs.replace(
            event, peer=given.get("peer") or 0, stations=stations, text=given.get("text") or ""
        )


def _mids(waiting_for: list[dict[str, int]] | None) -> tuple[Mid, ...]:
    return tuple(Mid(one["origin"], one["seqno"], one["incarnation"]) for one in waiting_for or ())


@lru_cache(maxsize=64)
def _identity(text: str) -> RunIdentity:
    return msgspec.json.decode(text, type=RunIdentity)


def _row(run: str, name: str, violations: int, words: str = "", kind: str = "", shown: Any = ()) -> Row:
    return {
        "run": run, "property": name, "violations": violations, "words": words, "kind": kind, "shown": list(shown)
    }  # fmt: skip


def verdict_table(rows: list[Row]) -> pa.Table:
    """Rows of verdicts as Spark wants them back."""
    import pyarrow as pa

    return pa.Table.from_pylist(rows, schema=arrow_schema(VERDICT))


def arrow_schema(ddl: str) -> pa.Schema:
    """The types of a table that a task gives back; a task has no session that would translate them."""
    import pyarrow as pa

    plain = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_()}
    place = pa.struct([("node", pa.int32()), ("place", pa.int64())])
    types = plain | {"array<int>": pa.list_(pa.int32()), "array<struct<node:int,place:bigint>>": pa.list_(place)}
    return pa.schema([(name, types[kind]) for name, kind in (column.split(" ") for column in ddl.split(", "))])


Search = Callable[[History], list[Violation]]


def judging(searches: dict[str, Search]) -> Callable[[pa.Table], pa.Table]:
    """A function for `applyInArrow` that judges one part by these properties."""

    def judge_part(table: pa.Table) -> pa.Table:
        part = Part(table)
        return verdict_table([part.verdict(name, search(part.history)) for name, search in searches.items()])

    return judge_part
