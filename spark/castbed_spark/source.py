"""`spark.read.format("castbed")`: captures as DataFrames, through PySpark's Python data source API.

Spark does not tell a Python source which columns a query uses. So whoever wants few of them says so: with the option
`columns`, with `.schema(...)`, or through `read_frames` and `read_events`.

Spark can hand filters down. Up to 4.3 it keeps what the source planned for them with the source and not with the query
(`PythonDataSourceV2.readInfo`): of two uses of one DataFrame, as in a self-join, both get the rows of the one planned
last, whatever a source does. SPARK-58551 moved it to the scan, and brought the method `pushLimit` by which that is seen
here. Before, filters are taken only with the option `pushdown`; `where` says the same without that trap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from castbed.errors import ConfigurationError
from castbed_spark.schemas import columns_of, ddl
from castbed_spark.slices import SLICE_BYTES_MIN, Paths, Slice, bundled

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from castbed_spark.columns import Condition

FORMAT = "castbed"
Where = tuple[str, str, Any]
WHOLE_FILES = 1 << 62
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SCANS_APART = hasattr(DataSourceReader, "pushLimit")  # what one scan is handed down stays with it
_OPERATORS: dict[type[Filter], str] = {
    EqualTo: "=", LessThan: "<", LessThanOrEqual: "<=", GreaterThan: ">", GreaterThanOrEqual: ">=", In: "in",
}  # fmt: skip
_OF_THE_FILE = ("run",)  # decided before a slice is read
_FILTERED_TABLES = ("frames", "events")
_SCALARS = ("int", "bigint", "boolean", "string")
_NEVER_PUSHED = ("text", "local")  # decoded only for the rows that are left


def register(spark: SparkSession) -> None:
    """Make the format known to a session, and let filters reach it where asked. `start_session` does this itself."""
    spark.dataSource.register(CastbedSource)
    spark.conf.set(PUSHDOWN, "true")


def read_table(
    spark: SparkSession, path: Paths, table: str, columns: Iterable[str] = (), where: Iterable[Where] = ()
) -> DataFrame:
    """A table of the captures at `path` (see `slices.capture_files`).

    Only the named columns, if any are named, and the rows for which all of `where` holds, each a column, an operator
    (`=`, `<`, `<=`, `>`, `>=`, `in`) and a value.
    """
    reader = spark.read.format(FORMAT).option("table", table).option("columns", ",".join(columns))
    return reader.option("where", json.dumps(list(where))).load(path if isinstance(path, str) else list(path))


def read_frames(
    spark: SparkSession, path: Paths, columns: Iterable[str] = (), where: Iterable[Where] = ()
) -> DataFrame:
    return read_table(spark, path, "frames", columns, where)


def read_events(
    spark: SparkSession, path: Paths, columns: Iterable[str] = (), where: Iterable[Where] = ()
) -> DataFrame:
    return read_table(spark, path, "events", columns, where)


def read_nodes(spark: SparkSession, path: Paths) -> DataFrame:
    return read_table(spark, path, "nodes")


def read_captures(spark: SparkSession, path: Paths) -> DataFrame:
    return read_table(spark, path, "captures")


class CastbedSource(DataSource):
    """The format `castbed`. Options: `table`, `columns`, `where`, `pushdown`, `split`, `slice_bytes`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ddl(columns_of(self._table, self.options.get("columns")))

    @property
    def _table(self) -> str:
        return self.options.get("table", "frames")

    def _is_on(self, option: str, default: str) -> bool:
        return self.options.get(option, default).lower() != "false"

    def reader(self, schema: StructType) -> CastbedReader:
        columns_of(self._table, ",".join(schema.fieldNames()))
        slice_bytes = int(self.options.get("slice_bytes", 0)) if self._is_on("split", "true") else WHOLE_FILES
        conditions = [self._condition(*one) for one in json.loads(self.options.get("where", "[]"))]
        reader = PushingReader if self._is_on("pushdown", str(SCANS_APART)) else CastbedReader
        return reader(self._paths(), self._table, schema, slice_bytes, conditions)

    def _paths(self) -> Paths:
        """What `load` was given; Spark hands a list over as JSON."""
        if "paths" in self.options:
            return [str(path) for path in json.loads(self.options["paths"])]
        if "path" not in self.options:
            raise ConfigurationError("path", "load() needs a run directory, a glob or a list of them")
        return self.options["path"]

    def _condition(self, column: str, operator: str, value: Any) -> Condition:
        found = condition(self._table, column, operator, value)
        if found is None:
            raise ConfigurationError(
                "where", f"{column} {operator} {value!r} cannot be decided while reading {self._table}"
            )
        return found


def condition(table: str, name: str, operator: str, value: Any) -> Condition | None:
    """The condition that a filter on one column of a table stands for; None when the source cannot apply it."""
    from castbed_spark.columns import OPERATORS, Condition

    column = columns_of(table, name)[0]
    known = operator in OPERATORS and table in _FILTERED_TABLES and value is not None
    if not known or column.type not in _SCALARS or column.name in _NEVER_PUSHED:
        return None
    return Condition(column.name, operator, tuple(value) if operator == "in" else value)


class Part(InputPartition):
    """One slice of a large capture, or several small captures."""

    def __init__(self, slices: list[Slice]) -> None:
        self.slices = slices


class CastbedReader(DataSourceReader):
    """Plans slices and reads them."""

    def __init__(
        self, paths: Paths, table: str, schema: StructType, slice_bytes: int, conditions: list[Condition]
    ) -> None:
        self.paths, self.table, self.wanted, self.slice_bytes = paths, table, schema, slice_bytes
        self.conditions = conditions

    def partitions(self) -> list[InputPartition]:
        from castbed_spark.reading import plan, plan_all

        of_the_file = [one for one in self.conditions if one.column in _OF_THE_FILE]
        heads_alone = self.table == "nodes"
        planned = plan_all if self.table == "captures" else plan
        slices = planned(self.paths, WHOLE_FILES if heads_alone else self.slice_bytes)
        wanted = [part for part in slices if all(one.holds(part.run) for one in of_the_file)]
        together = WHOLE_FILES if heads_alone else min(self.slice_bytes or SLICE_BYTES_MIN, SLICE_BYTES_MIN)
        return [Part(bundle) for bundle in bundled(wanted, together)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        from castbed_spark.reading import read_all

        schema = self._arrow_schema()
        conditions = [one for one in self.conditions if one.column not in _OF_THE_FILE]
        for one in partition.slices if isinstance(partition, Part) else ():  # without slices Spark makes a partition
            yield from read_all(one, self.table, schema, conditions)

    def _arrow_schema(self) -> pa.Schema:
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(self.wanted, timezone="UTC")


class PushingReader(CastbedReader):
    """Takes the filters of the query, too: those that compare one plain column with a value."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for one in filters:
            found = self._condition(one)
            if found is None:
                yield one
            else:
                self.conditions.append(found)

    def _condition(self, one: Any) -> Condition | None:
        code = _OPERATORS.get(type(one))
        if code is None or len(one.attribute) != 1:
            return None
        return condition(self.table, one.attribute[0], code, one.value)
