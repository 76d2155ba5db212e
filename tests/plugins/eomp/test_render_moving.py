"""The renderer on EOMP: workers that move and join while the volume is on its way."""

from __future__ import annotations

from typing import Any

import pytest
from case_study_runs import Ran, eomp

from castbed_plugins.eomp.render import RENDER, cast, head

TASK = {"tasks": [{"node": "h1", "at": "500ms"}], "slices": 12, "side": 32, "image_side": 16, "fragment": "256B"}


def only_job(result: Ran) -> Any:
    (job,) = result["h1"].jobs.values()
    return job


def test_a_worker_that_moves_while_the_volume_comes_computes_its_share() -> None:
    """VT7: changes of cell and loss on the air; every fragment arrives once."""
    options = {**TASK, "frames": 20, "frame_cost": "100ms", "draw": True}
    result = Ran(RENDER, options, eomp(4, 10, faults={"loss": 0.01}, mobility={"dwell": "300ms"}))
    volume, job = head(12, 32), only_job(result)
    assert result.report.effects["mobility"] > 50
    assert job.images == {frame: cast(volume, frame, 20, 16) for frame in range(20)}
    assert (job.duplicates, job.reassigned) == (0, 0)
    assert {len(worker.computed) for worker in result.all()} == {5}


def joined_meanwhile(profile: str) -> Ran:
    """h3 joins the group while the fragments are on their way, and is welcomed before the last one.

    The moment is that of the published protocol, whose hosts have one request on its way at a time.
    """
    options = {**TASK, "frames": 12, "frame_cost": "50ms", "profile": profile, "patience": "2s"}
    changes = {"topology": {"groups": {"1": ["h1", "h2"]}}, "faults": {"joins": [{"node": "h3", "at": "520ms"}]}}
    return Ran(RENDER, options, eomp(3, 30, protocol={"name": "eomp", "variant": "published"}, **changes))


def test_a_worker_that_joins_while_the_volume_comes_waits_for_the_next_task() -> None:
    """It cannot have every fragment, so nobody counts on it, although it is in the roster when the last one comes."""
    result = joined_meanwhile("hardened")
    assert {worker.roster.n for worker in result.all()} == {3}
    assert (len(only_job(result).images), only_job(result).reassigned) == (12, 0)
    assert [len(worker.computed) for worker in result.all()] == [6, 6, 0]


def test_the_papers_split_counts_on_a_worker_that_has_not_got_the_volume() -> None:
    """The counterexample to V1 as written: a third of the frames stays behind until the client reassigns it."""
    result = joined_meanwhile("paper")
    assert len(only_job(result).images) == 12
    assert only_job(result).reassigned > 0
    assert result["h3"].computed == []


@pytest.mark.parametrize("hosts", [2, 5])
def test_all_frames_come_back_through_the_cells(hosts: int) -> None:
    result = Ran(RENDER, {**TASK, "frames": 30, "frame_cost": "20ms"}, eomp(hosts, 10))
    assert (len(only_job(result).images), only_job(result).duplicates) == (30, 0)
