"""Interval sets: always the same as a set of numbers, always disjoint, never adjacent (SB-V5, V6, V8; SB-I5)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castbed import IntervalSet

NUMBERS = st.integers(1, 60)
SETS = st.sets(NUMBERS)


def made_of(numbers: set[int]) -> IntervalSet:
    found = IntervalSet()
    for number in numbers:
        found.add(number)
    return found


@given(st.lists(st.tuples(st.booleans(), NUMBERS)))
def test_it_holds_what_was_added_and_not_removed(changes: list[tuple[bool, int]]) -> None:
    found, expected = IntervalSet(), set[int]()
    for adding, number in changes:
        if adding:
            assert found.add(number) is (number not in expected)
            expected.add(number)
        else:
            assert found.remove(number) is (number in expected)
            expected.discard(number)
        assert list(found) == sorted(expected)
        assert len(found) == len(expected)
        assert bool(found) is bool(expected)


@given(st.lists(st.tuples(st.booleans(), NUMBERS)))
def test_intervals_are_never_empty_adjacent_or_overlapping(changes: list[tuple[bool, int]]) -> None:
    """SB-I5."""
    found = IntervalSet()
    for adding, number in changes:
        (found.add if adding else found.remove)(number)
        pairs = found.intervals()
        assert all(low <= high for low, high in pairs)
        assert all(one[1] + 2 <= other[0] for one, other in pairwise(pairs))
        assert found.interval_count() == len(pairs)


@given(SETS, SETS)
def test_the_difference_is_that_of_sets(one: set[int], other: set[int]) -> None:
    assert list(made_of(one).minus(made_of(other))) == sorted(one - other)


@given(SETS, NUMBERS)
def test_membership_is_that_of_the_set(numbers: set[int], number: int) -> None:
    assert (number in made_of(numbers)) is (number in numbers)


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 10))))
def test_building_from_intervals_merges_whatever_order_they_come_in(pairs: list[tuple[int, int]]) -> None:
    expected = {number for low, more in pairs for number in range(low, low + more + 1)}
    assert IntervalSet((low, low + more) for low, more in pairs) == made_of(expected)


def test_a_difference_is_found_without_counting_to_it() -> None:
    huge = IntervalSet([(1, 2**62)])
    assert next(huge.minus(IntervalSet([(1, 2**61)]))) == 2**61 + 1


def test_an_empty_interval_is_refused() -> None:
    with pytest.raises(ValueError, match=r"5\.\.4"):
        IntervalSet([(5, 4)])


def test_it_is_shown_as_the_paper_writes_it() -> None:
    assert repr(IntervalSet([(1, 3), (5, 5)])) == "IntervalSet([1-3] [5-5])"


def test_it_is_not_hashable_because_it_changes() -> None:
    with pytest.raises(TypeError):
        hash(IntervalSet())
