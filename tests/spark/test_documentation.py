"""`docs/spark.md` lists every table with every column, as the code defines them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

from castbed_spark.schemas import TABLES
from castbed_spark.tables.columns import DERIVED

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", [*TABLES, *DERIVED])
def test_a_table_is_documented_column_by_column(table: str) -> None:
    listed = PAGE.partition(f"<!-- columns: {table} -->\n")[2].split("\n\n")[0].splitlines()[2:]
    columns = {**TABLES, **DERIVED}[table]
    assert listed == [f"| `{column.name}` | `{column.type}` | {column.words} |" for column in columns]
