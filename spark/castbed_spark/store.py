"""Tables as Parquet, one directory per table, partitioned by run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from castbed.errors import ConfigurationError
from castbed_spark import tables
from castbed_spark.clocks import align, clocks
from castbed_spark.here import are_small, read_here
from castbed_spark.schemas import TABLES, ddl
from castbed_spark.slices import Paths
from castbed_spark.source import read_table
from castbed_spark.tables.columns import DERIVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = (*TABLES, *DERIVED)


def table_path(directory: Path | str, name: str) -> str:
    if name not in NAMES:
        raise ConfigurationError("table", f"{name!r} is not one of {', '.join(NAMES)}")
    return str(Path(directory) / f"{name}.parquet")


def write(table: DataFrame, directory: Path | str, name: str) -> None:
    """Write one table in place of what is there."""
    table.write.mode("overwrite").partitionBy("run").parquet(table_path(directory, name))


def read_stored(spark: SparkSession, directory: Path | str, name: str) -> DataFrame:
    """A table that was written; the schema is given, because an empty one holds no file that says it."""
    return spark.read.schema(ddl((TABLES | DERIVED)[name])).parquet(table_path(directory, name))


def write_tables(spark: SparkSession, paths: Paths, directory: Path | str) -> None:
    """Read the captures at `paths` once, and write all tables; times are on one timeline per run."""
    read = partial(read_here if are_small(paths) else read_table, spark, paths)
    write(read("nodes"), directory, "nodes")
    write(read("captures"), directory, "captures")
    nodes = read_stored(spark, directory, "nodes")
    raw = read("frames")
    write(clocks(raw, nodes), directory, "clocks")
    clock_table = read_stored(spark, directory, "clocks")
    write(align(raw, clock_table), directory, "frames")
    write(align(read("events"), clock_table), directory, "events")
    frames, events = read_stored(spark, directory, "frames"), read_stored(spark, directory, "events")
    for name, table in derived(events, frames, nodes).items():
        write(table, directory, name)


def derived(events: DataFrame, frames: DataFrame, nodes: DataFrame) -> dict[str, DataFrame]:
    """All derived tables by name, `clocks` apart."""
    return {
        "messages": tables.messages(events, frames),
        "deliveries": tables.deliveries(events, nodes),
        "handoffs": tables.handoffs(events),
        "views": tables.views(events),
        "buffers": tables.buffers(events),
        "links": tables.links(frames),
    }
