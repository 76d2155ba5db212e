"""Vectors streamed lane by lane: what is known, what was overtaken, and that batches make no difference."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

import pyarrow as pa

from castbed_spark.checks.vectors import Knowledge, Overtaken, Steps, lanes_in

S, D = True, False


def lane(*steps: tuple[bool, int, int], pasts: list[list[int]] | None = None, node: int = 1, threads: int = 3) -> Any:
    """Steps (whether it submits, thread, count) as a table, in this order."""
    columns: dict[str, Any] = {
        "run": ["r"] * len(steps),
        "node": [node] * len(steps),
        "memory": [0] * len(steps),
        "threads": [threads] * len(steps),
        "submits": [step[0] for step in steps],
        "thread": [step[1] for step in steps],
        "count": [step[2] for step in steps],
        "place": list(range(len(steps))),
    }
    if pasts is not None:
        columns["past"] = pa.array(pasts, pa.list_(pa.int32()))
    return pa.table(columns)


def overtaken(table: Any, cuts: tuple[int, ...] = ()) -> list[tuple[int, int, int]]:
    """Place of the delivery, thread and count of what it overtook; the lane arrives in pieces."""
    bounds = [0, *cuts, len(table)]
    finder, found = Overtaken(3), []
    for start, end in pairwise(bounds):
        rows, threads, counts = finder.find(Steps(table, start, end))
        found += list(zip((rows + start).tolist(), threads.tolist(), counts.tolist(), strict=True))
    return found


def test_a_message_knows_what_its_submitter_submitted_and_delivered_before() -> None:
    table = lane((S, 0, 1), (D, 1, 4), (D, 2, 1), (S, 0, 2), (D, 1, 5))
    knowledge = Knowledge(3)
    assert knowledge.learn(Steps(table, 0, 2)).tolist() == [[0, 0, 0]]
    assert knowledge.learn(Steps(table, 2, 5)).tolist() == [[1, 4, 1]]
    assert knowledge.known.tolist() == [2, 5, 1]


def test_the_past_of_what_was_delivered_is_known_too() -> None:
    table = lane((D, 1, 1), (S, 0, 1), pasts=[[0, 0, 7], [0, 1, 0]])
    assert Knowledge(3).learn(Steps(table, 0, 2)).tolist() == [[0, 1, 7]]


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2, 3)])
def test_what_lies_in_the_past_and_was_not_delivered_is_overtaken_once(cuts: tuple[int, ...]) -> None:
    """1.2 comes without 1.1 and 2.1; 2.1 comes too late, and what follows says nothing new."""
    table = lane((D, 0, 1), (D, 1, 2), (D, 2, 1), (D, 1, 3), pasts=[[0, 0, 0], [1, 1, 1], [0, 0, 0], [1, 2, 1]])
    assert sorted(overtaken(table, cuts)) == [(1, 1, 1), (1, 2, 1)]


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2)])
def test_what_came_early_is_remembered_until_it_is_passed(cuts: tuple[int, ...]) -> None:
    table = lane((D, 1, 2), (D, 1, 1), (D, 0, 1), pasts=[[0, 0, 0], [0, 0, 0], [0, 2, 0]])
    assert overtaken(table, cuts) == []


def test_a_batch_is_cut_into_the_lanes_that_are_in_it() -> None:
    table = pa.concat_tables([lane((S, 0, 1), (D, 1, 1)), lane((D, 0, 1), node=2), lane((D, 2, 1), node=3)])
    (batch,) = table.combine_chunks().to_batches()
    assert [(steps.key[1], len(steps)) for steps in lanes_in(batch)] == [(1, 2), (2, 1), (3, 1)]
