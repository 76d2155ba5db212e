"""`deliveries_of` gives the rows of `deliveries`, whatever the captures say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

import numpy as np
import spark_captures as c

from castbed.capture import AIR, capture_header, frame_block
from castbed.errors import ConfigurationError
from castbed.history import History, Kind, LocalEvent, RunIdentity
from castbed.values import Mid
from castbed_spark.grouping import grouped
from castbed_spark.packing import packed, unpacked
from castbed_spark.receiving import keys_of
from castbed_spark.source import read_events, read_nodes
from castbed_spark.tables import deliveries, deliveries_of, direct

NODES = (1, 2, 3)
EVENTS = 90
RUNS = 16
_KINDS = [Kind.SUBMIT] * 3 + [Kind.HOLD] * 4 + [Kind.DELIVER] * 8 + [Kind.CRASH, Kind.LEAVE, Kind.VIEW]


def any_history(seed: int) -> History:
    """Events in no sensible order: messages twice, never submitted, without identity, held for ever, answered early."""
    random = Random(seed)
    guarantees = (("causal",), ("semantic",))[seed % 2]
    identity = RunIdentity("any", seed, "sb", "repaired", "sim", names=("A", "B", "C"), guarantees=guarantees)
    return History(identity, [_any_event(random, at) for at in range(EVENTS)])


def _any_event(random: Random, at: int) -> LocalEvent:
    kind, node = random.choice(_KINDS), random.choice(NODES)
    group = 0 if kind == Kind.CRASH else random.choice((1, 1, 2))
    if kind in (Kind.CRASH, Kind.LEAVE, Kind.VIEW):
        return LocalEvent(node, at, kind, group)
    mids = [None, *(Mid(writer, number, number // 4) for writer in NODES for number in range(1, 5))]
    mid, parent = random.choice(mids), random.choice((None, *mids))
    return LocalEvent(node, at, kind, group, mid, parent)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("any")
    for seed in range(RUNS):
        c.write_run(root / f"seed-{seed}", any_history(seed))
    return root


def by_events(spark: Any, paths: str) -> Any:
    return deliveries(read_events(spark, paths), read_nodes(spark, paths))


def counted(table: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in table.collect())


@pytest.fixture(scope="module")
def expected(spark: Any, runs: Path) -> Counter[tuple[Any, ...]]:
    return counted(by_events(spark, str(runs)))


def test_only_named_columns_are_made(spark: Any, runs: Path, expected: Any) -> None:
    table = deliveries_of(spark, str(runs), ["needless_ns", "latency_ns"])
    assert table.columns == ["latency_ns", "needless_ns"]
    latency, needless = _NAMES.index("latency_ns"), _NAMES.index("needless_ns")
    assert counted(table) == Counter((row[latency], row[needless]) for row in expected.elements())


def test_an_unknown_column_is_named(spark: Any, runs: Path) -> None:
    with pytest.raises(ConfigurationError, match="no 'latency'"):
        deliveries_of(spark, str(runs), ["latency"])


@pytest.mark.parametrize("meeting_bytes", [2**30, 2**10])
def test_rows_are_those_of_the_plain_table(
    spark: Any, runs: Path, expected: Any, meeting_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few meetings, and with so many that hardly two messages share one."""
    monkeypatch.setattr(direct, "MEETING_BYTES", meeting_bytes)
    table = deliveries_of(spark, str(runs))
    assert counted(table) == expected
    assert table.columns == by_events(spark, str(runs)).columns


def test_the_random_runs_have_all_that_is_difficult(expected: Any) -> None:
    rows = [dict(zip(names, row, strict=True)) for names in [_NAMES] for row in expected]
    assert any(row["needless_ns"] > 0 for row in rows)
    assert any(row["hold_ns"] > row["needless_ns"] > 0 for row in rows)
    assert any(row["stay"] > 1 and row["copies"] > 1 for row in rows)
    assert any(row["origin"] is None for row in rows)
    assert any(row["submitted_at"] is None and row["origin"] is not None for row in rows)


_NAMES = [column.name for column in direct.DELIVERIES]


def test_captures_too_large_for_a_task_take_the_plain_way(
    spark: Any, runs: Path, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "CAPTURE_BYTES_MAX", 1)
    monkeypatch.setattr(direct, "steps_of", None)
    assert counted(deliveries_of(spark, str(runs))) == expected


def test_two_captures_of_one_node_are_one_lane(spark: Any, tmp_path: Path) -> None:
    run = c.write_run(tmp_path / "twice", any_history(0))
    (run / "captures" / "again.pcapng").write_bytes((run / "captures" / "A.pcapng").read_bytes())
    assert counted(deliveries_of(spark, str(run))) == counted(by_events(spark, str(run)))


def test_captures_without_events_have_no_deliveries(spark: Any, tmp_path: Path) -> None:
    silent = capture_header(c.IDENTITY, 1) + frame_block(AIR, 1, c.ARP, False)
    (tmp_path / "silent.pcapng").write_bytes(silent)
    assert deliveries_of(spark, str(tmp_path)).count() == 0


# --- packing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [0, 1, 2**8 - 1, 2**8, 2**16, 2**32 - 1, 2**32, 2**62])
@pytest.mark.parametrize("low", [0, -1, 2**40, -(2**62)])
def test_numbers_of_any_width_survive_packing(span: int, low: int) -> None:
    values = np.array([low + span, low, low + span // 2])
    piece = packed({"a": values, "b": values[::-1].copy()}, ("a", "b", "c"))
    sizes, columns = unpacked([piece, piece], ("a", "b", "c"))
    assert sizes == [3, 3]
    assert columns["a"].tolist() == [*values.tolist()] * 2
    assert columns["b"].tolist() == [*values[::-1].tolist()] * 2
    assert columns["c"].tolist() == [0] * 6


def test_a_column_that_does_not_vary_takes_no_room() -> None:
    same = np.full(1000, 7)
    assert len(packed({"a": same, "b": np.arange(1000) % 200}, ("a", "b"))) < 1100


# --- grouping ---------------------------------------------------------------------------------------------------------


def test_rows_that_share_a_mixed_number_are_told_apart() -> None:
    first, second = np.array([1, 2, 1, 2, 1]), np.array([5, 5, 5, 5, 6])
    groups = grouped([first, second], np.zeros(5, np.uint64))
    numbers = groups.of_rows().tolist()
    assert numbers[:2] == numbers[2:4]
    assert len(set(numbers)) == groups.count == 3


def test_messages_spread_over_all_meetings_though_neighbours_stay_together() -> None:
    number, meetings = np.arange(2**18), np.uint64(8)
    one = np.ones(len(number), np.int64)
    keys = keys_of({"group": one, "incarnation": one, "origin": number % 4 + 1, "seqno": number // 4}, 0)
    counts = np.bincount(((keys >> np.uint64(32)) * meetings >> np.uint64(32)).astype(int))
    assert len(np.unique(keys)) == len(number)
    assert counts.min() > len(number) // 16
    assert np.all(np.diff(keys[: 4 * 256 : 4]) == 1)
