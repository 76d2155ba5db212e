"""Frames with right checksums that almost make sense: they break nothing, and would if machines believed them."""

from __future__ import annotations

import pytest
from hostile_runs import TARGETS, attack

from castbed import Topology

FRAMES = 5_000


@pytest.mark.parametrize("target", TARGETS)
def test_what_almost_makes_sense_ends_no_run(target: str) -> None:
    row = attack(target, FRAMES)
    assert row["problems"] == {}
    assert row["frames"] == FRAMES == row["malformed"] + row["foreign"] + row["passed"]
    assert row["passed"] > FRAMES // 10


def test_a_machine_that_believes_in_nodes_that_do_not_exist_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Topology, "check", lambda *_: None)
    problems = attack("eomp published", FRAMES)["problems"]
    assert problems
    assert all("which does not exist" in problem for problem in problems)


def test_a_group_that_nobody_created_is_caught_when_people_join_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Topology, "check_group", lambda *_: None)
    problems = attack("m2mc", FRAMES)["problems"]
    assert any("is no group" in problem for problem in problems)
