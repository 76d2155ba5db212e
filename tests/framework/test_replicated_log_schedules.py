"""Random schedules: whatever happens in whatever order, members apply one sequence, and in the end all of it.

`World` checks after each step that all that was ever applied anywhere is one sequence, each number once and in order.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replicated_log_world import World

from castbed.parts import replicated_log_journal

SHORT_PIECE_BYTES = 6  # a few entries fill several pieces, so that crashes meet transfers


def survive(seed: int) -> World:
    """Trouble as the seed has it, then peace."""
    random = Random(seed)
    world = World(random.choice((3, 3, 4, 5, 5, 7)), retained=random.choice((0, 1, 3, 100)), seed=seed)
    steps = random.choice((50, 200, 600))
    world.trouble(steps, crashes=random.choice((0.005, 0.02, 0.05)), hurry=random.choice((0.01, 0.03, 0.08)))
    world.peace()
    world.check_peace()
    return world


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated_log_journal, "PIECE_BYTES_MAX", SHORT_PIECE_BYTES)


def test_schedules_meet_what_they_are_for() -> None:
    """A hundred of them see view changes, restarts, snapshots and committed entries."""
    worlds = [survive(seed) for seed in range(100)]
    assert max(world.log(1).view for world in worlds) > 5
    assert sum(sum(world.lives.values()) for world in worlds) > 50
    assert sum(world.snapshots for world in worlds) > 50
    assert sum(len(world.history) for world in worlds) > 1000


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_members_apply_one_sequence_and_lose_nothing(seed: int) -> None:
    survive(seed)


@pytest.mark.long
@pytest.mark.parametrize("thousand", range(20))
def test_members_apply_one_sequence_and_lose_nothing_in_twenty_thousand_schedules(thousand: int) -> None:
    for seed in range(1000 * thousand, 1000 * (thousand + 1)):
        survive(seed)
