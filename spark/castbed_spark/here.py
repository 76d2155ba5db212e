"""Small captures as DataFrames, read by the driver itself: the rows of the data source, without its processes.

Spark starts a Python process to plan each query of a Python source, and others to read. For a run of some seconds they
take longer than everything else together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from castbed_spark.reading import plan, plan_all, read_all
from castbed_spark.schemas import columns_of, ddl
from castbed_spark.slices import Paths, capture_files
from castbed_spark.source import WHOLE_FILES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BYTES_MAX = 8 * 2**20  # of captures: some ten thousand packets, which take less than a second


def are_small(paths: Paths) -> bool:
    """Whether the captures at `paths` are better read here."""
    return sum(file.stat().st_size for file in capture_files(paths)) <= BYTES_MAX


def read_here(spark: SparkSession, paths: Paths, table: str) -> DataFrame:
    """A table of the captures at `paths`, as `source.read_table` gives it."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(ddl(columns_of(table)))
    assert isinstance(schema, StructType), "several columns make one"
    arrow = to_arrow_schema(schema, timezone="UTC")
    planned = plan_all if table == "captures" else plan
    batches = [batch for part in planned(paths, WHOLE_FILES) for batch in read_all(part, table, arrow)]
    rows: DataFrame = spark.createDataFrame(pa.Table.from_batches(batches, arrow), schema)
    return rows
