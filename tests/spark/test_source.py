"""The data source in a real local session: what arrives, and what is left to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

import spark_captures as c

from castbed_spark.here import are_small, read_here
from castbed_spark.schemas import TABLES
from castbed_spark.source import (
    SCANS_APART,
    CastbedReader,
    read_captures,
    read_events,
    read_frames,
    read_nodes,
    read_table,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with the same node names; one capture has garbage and a foreign frame, one is empty."""
    root = tmp_path_factory.mktemp("runs")
    for run, content in (
        ("one", c.header() + c.many(3) + c.GARBAGE + c.many(4)),
        ("two", c.header() + c.foreign(c.ARP) + c.many(5) + c.said(6, 6)[:-9]),
    ):
        (root / run / "captures").mkdir(parents=True)
        (root / run / "captures" / "A.pcapng").write_bytes(content)
        (root / run / "captures" / "B.pcapng").write_bytes(c.header(2) + c.delivered(1, 9, node=2))
    (root / "two" / "captures" / "C.pcapng").write_bytes(b"")
    return root


@pytest.mark.parametrize("table", TABLES)
def test_every_table_arrives_with_the_schema_that_is_documented(spark: Any, runs: Path, table: str) -> None:
    frame = spark.read.format("castbed").option("table", table).load(str(runs))
    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in frame.schema] == [
        (column.name, column.type, column.nullable) for column in TABLES[table]
    ]
    assert frame.count() == {"frames": 12, "events": 14, "nodes": 4, "captures": 5}[table]


def test_rows_are_those_that_the_reader_makes(spark: Any, runs: Path) -> None:
    mine = c.rows(runs, "events")
    arrived = [row.asDict(recursive=True) for row in read_events(spark, str(runs)).collect()]
    assert sorted(arrived, key=str) == sorted(mine, key=str)


@pytest.mark.parametrize("table", TABLES)
def test_the_driver_reads_the_same_rows_itself(spark: Any, runs: Path, table: str) -> None:
    here, there = read_here(spark, str(runs), table), read_table(spark, str(runs), table)
    assert here.schema == there.schema
    assert sorted(here.collect(), key=str) == sorted(there.collect(), key=str)


def test_only_small_captures_are_read_by_the_driver(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert are_small(str(runs))
    monkeypatch.setattr("castbed_spark.here.BYTES_MAX", 100)
    assert not are_small(str(runs))


def test_filters_are_applied_while_reading(spark: Any, runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = spark.read.format("castbed").option("pushdown", "true").load(str(runs))
    table = source.filter("run = 'two' and at >= 3 and medium = 'air'")
    assert sorted(row["seqno"] for row in table.select("seqno").collect()) == [3, 4, 5]
    table.explain()
    assert "Filter" not in capfd.readouterr().out.replace("RuntimeFilters", "")


def test_conditions_are_applied_while_reading(spark: Any, runs: Path) -> None:
    where = [("run", "in", ("two", "three")), ("seqno", "<=", 2), ("event", "=", "DELIVER")]
    table = read_events(spark, str(runs), ["node", "seqno"], where)
    assert sorted(table.collect()) == [(1, 1), (1, 2), (2, 1)]


def test_two_uses_of_one_table_do_not_disturb_each_other(spark: Any, runs: Path) -> None:
    """Where all uses of a DataFrame share the filters that Spark hands down, they are not taken."""
    assert met(read_events(spark, str(runs), ["run", "node", "seqno"])) == 2 * 3 + 1 * 3


def met(table: Any) -> int:
    """How many pairs two uses of a table give, with different filters."""
    return int(table.filter("seqno = 1").join(table.filter("seqno >= 3"), ["run", "node"]).count())


def test_two_uses_disturb_each_other_where_spark_keeps_filters_with_the_source(spark: Any, runs: Path) -> None:
    """The reason for the default of `pushdown`. When this fails, Spark is cured and SCANS_APART does not see it."""
    source = spark.read.format("castbed").option("table", "events").option("pushdown", "true").load(str(runs))
    assert (met(source) == 2 * 3 + 1 * 3) is SCANS_APART


def test_what_the_source_cannot_decide_is_left_to_spark(spark: Any, runs: Path) -> None:
    table = read_events(spark, str(runs)).filter("seqno % 2 = 0 and members is null and (at = 2 or kind = 7)")
    assert sorted(row["seqno"] for row in table.select("seqno").collect()) == [2, 2, 2, 4, 4]


def test_columns_and_schemas_leave_out_what_nobody_asked_for(spark: Any, runs: Path) -> None:
    assert read_frames(spark, str(runs), ["seqno", "at"]).columns == ["seqno", "at"]
    chosen = spark.read.format("castbed").option("table", "events").schema("at bigint, event string").load(str(runs))
    assert sorted(chosen.filter("at = 9").collect()) == [(9, "DELIVER"), (9, "DELIVER")]


def test_damage_is_told_by_the_table_of_captures(spark: Any, runs: Path) -> None:
    told = {(row["run"], row["node"]): row for row in read_captures(spark, str(runs)).collect()}
    assert told["one", 1]["skipped_bytes"] == len(c.GARBAGE)
    assert told["two", None]["file"].endswith("C.pcapng")
    assert (told["two", 1]["cut"], told["two", 1]["foreign"]) == (True, 1)
    assert read_nodes(spark, str(runs)).filter("run = 'two'").count() == 2


def test_several_paths_and_globs_are_read_together(spark: Any, runs: Path) -> None:
    assert read_events(spark, f"{runs}/one/captures/A.pcapng, {runs}/t*", ["at"]).count() == 13


def test_a_list_of_paths_is_read_together(spark: Any, runs: Path) -> None:
    paths = [f"{runs}/one/captures/A.pcapng", f"{runs}/two"]
    assert read_events(spark, paths, ["at"]).count() == 13
    assert read_events(spark, paths[:1], ["at"]).count() == 7


@pytest.mark.parametrize(("option", "value"), [("slice_bytes", 2_000_000), ("split", "false")])
def test_slices_of_one_capture_together_give_the_rows_of_the_whole(
    spark: Any, tmp_path: Path, option: str, value: Any
) -> None:
    (tmp_path / "A.pcapng").write_bytes(c.header() + c.many(25_000))
    source = spark.read.format("castbed").option(option, value).option("columns", "seqno,at,place")
    table = source.load(str(tmp_path))
    assert (table.rdd.getNumPartitions() > 2) is (option == "slice_bytes")
    assert sorted(row["seqno"] for row in table.collect()) == list(range(1, 25_001))
    captures = spark.read.format("castbed").option(option, value).option("table", "captures").load(str(tmp_path))
    told = captures.orderBy("start").collect()
    assert (len(told) > 2) is (option == "slice_bytes")
    assert sum(row["events"] for row in told) == 25_000
    assert [row["start"] for row in told[1:]] == [row["end"] for row in told[:-1]]


def test_an_unknown_table_or_column_is_named() -> None:
    from castbed.errors import ConfigurationError
    from castbed_spark.schemas import columns_of

    with pytest.raises(ConfigurationError, match="'packets' is not one of frames, events"):
        columns_of("packets")
    with pytest.raises(ConfigurationError, match="frames has no 'colour'"):
        columns_of("frames", "at,colour")


def test_a_large_capture_is_read_in_several_partitions(tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    (tmp_path / "A.pcapng").write_bytes(c.header() + c.many(30_000))
    size = (tmp_path / "A.pcapng").stat().st_size
    reader = CastbedReader(str(tmp_path), "frames", StructType(), size // 3, [])
    parts = reader.partitions()
    assert len(parts) == 3 or len(parts) == 4
    assert sum(one.end - one.start for part in parts for one in part.slices) == size  # type: ignore[attr-defined]
