"""`docs/spark-checks.md` lists every column of the verdicts, and every property with how it is judged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

from castbed_spark.checks import CHECKED
from castbed_spark.checks.judging import VERDICTS

PAGE = (Path(__file__).parents[2] / "docs" / "spark-checks.md").read_text(encoding="utf-8")


def test_the_columns_of_verdicts_are_documented() -> None:
    listed = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", PAGE, re.MULTILINE)
    assert listed == [tuple(column.split(" ")) for column in VERDICTS.split(", ")]


def test_every_property_is_in_the_table_that_says_how_it_is_judged() -> None:
    table = PAGE.partition("## How each property is judged")[2].partition("*Who is where*")[0]
    named = [
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    ]
    assert sorted(named) == sorted(CHECKED)
