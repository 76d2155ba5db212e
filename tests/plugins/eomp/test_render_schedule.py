"""Sharing of frames, numbering of entities, thresholds (spec 2.1 to 2.3)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castbed_plugins.eomp.render.schedule import OUT, Decision, Entity, LoadAverage, Roster, Thresholds, share

A, B, C, D, E = (Entity(host, 0) for host in range(1, 6))


@pytest.mark.parametrize(
    ("n", "counts"), [(2, [180] * 2), (3, [120] * 3), (4, [90] * 4), (8, [45] * 8), (7, [52] * 3 + [51] * 4)]
)
def test_frames_are_shared_as_in_the_paper(n: int, counts: list[int]) -> None:
    """Spec 2.2."""
    assert [len(share(range(360), n, identity)) for identity in range(n)] == counts


@given(st.integers(0, 200), st.integers(1, 20), st.integers(0, 50))
def test_every_frame_has_one_owner_whatever_the_turn(frames: int, n: int, turn: int) -> None:
    shares = [share(range(frames), n, identity, turn) for identity in range(n)]
    assert sorted(frame for own in shares for frame in own) == list(range(frames))


def test_a_turn_gives_every_frame_to_somebody_else() -> None:
    """V9: a frame that always falls to a dead worker would never be computed."""
    owners = {next(i for i in range(3) if share([7], 3, i, turn)) for turn in range(3)}
    assert owners == {0, 1, 2}


def test_who_stays_moves_up_when_one_leaves() -> None:
    """The worked example of spec 2.3."""
    roster = Roster([A, B, C, D])
    roster.decrement(1)
    assert [roster.identity(entity) for entity in (A, B, C, D)] == [0, OUT, 1, 2]
    assert [share(range(10), roster.n, roster.identity(e)) for e in (A, C, D)] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    roster.increment(E)
    assert (roster.n, roster.identity(E)) == (4, 3)


def test_the_share_of_who_leaves_after_the_task_is_its_own() -> None:
    """The other order of the example."""
    roster = Roster([A, B, C, D])
    shares = [share(range(10), roster.n, roster.identity(e)) for e in (A, B, C, D)]
    assert shares == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]


def test_a_repeated_increment_and_an_unknown_decrement_change_nothing() -> None:
    roster = Roster([A, B])
    roster.increment(A)
    roster.decrement(OUT)
    roster.decrement(2)
    assert roster.entities == [A, B]


def test_thresholds_follow_the_example() -> None:
    """V7: UT=4, LT=2, HP=3."""
    host = Thresholds(3, 3, 4, 2)
    assert (host.decide(4.5), host.active, host.upper, host.lower) == (Decision.LEAVE, 2, 5, 3)
    assert (host.decide(4.2), host.active, host.upper, host.lower) == (Decision.STAY, 2, 5, 3)
    assert (host.decide(2.5), host.active, host.upper, host.lower) == (Decision.JOIN, 3, 4, 2)


def test_nobody_leaves_who_is_not_there_and_nobody_joins_beyond_the_horse_power() -> None:
    host = Thresholds(1, 1, 4, 2)
    assert [host.decide(load) for load in (0, 99, 99, 0, 0)] == [
        Decision.STAY, Decision.LEAVE, Decision.STAY, Decision.JOIN, Decision.STAY,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_noise_between_the_thresholds_moves_nobody(seed: int) -> None:
    """VT6: also after an entity has left."""
    host, random = Thresholds(4, 4, 4, 2), Random(seed)
    for active in (4, 3):
        noise = [host.lower + random.random() * (host.upper - host.lower) for _ in range(100)]
        assert {host.decide(load) for load in noise} == {Decision.STAY}
        assert host.active == active
        host.decide(host.upper + 1)


def test_a_square_wave_moves_one_entity_per_crossing() -> None:
    """VT6: high until one has left, low until one has come back, and the thresholds end where they began."""
    host = Thresholds(2, 2, 4, 2)
    decisions = [host.decide(load) for load in ([4.5] * 5 + [2.5] * 5) * 3]
    assert decisions.count(Decision.LEAVE) == decisions.count(Decision.JOIN) == 3
    assert (host.active, host.upper, host.lower) == (2, 4, 2)


def test_impossible_thresholds_are_refused() -> None:
    for active, power, upper, lower in ((2, 1, 4, 2), (1, 1, 2, 2)):
        with pytest.raises(ValueError, match="threshold"):
            Thresholds(active, power, upper, lower)


def test_the_load_is_averaged_over_five_samples() -> None:
    average = LoadAverage()
    assert [average.add(load) for load in (10, 0, 0, 0, 0, 0)] == [10, 5, 10 / 3, 2.5, 2, 0]
