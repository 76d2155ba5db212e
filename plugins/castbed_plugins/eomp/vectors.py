"""Numbers per group, and the two comparisons that EOMP makes everywhere (spec 2.5). A number nobody told reads 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from castbed import Group, Number

Vector = tuple[tuple[Group, Number], ...]
"""How numbers per group travel: in the order of the groups."""


def packed(numbers: Mapping[Group, int]) -> Vector:
    """The numbers as they travel."""
    return tuple(sorted(numbers.items()))


def lagging(last: Vector, sent: Mapping[Group, int]) -> Iterator[Group]:
    """The groups, lowest first, in which a host that has `last` misses something that was `sent`."""
    return (group for group, number in last if number < sent.get(group, 0))


def lags(last: Vector, sent: Mapping[Group, int]) -> bool:
    """Whether the host lags behind the sender in some group of the host."""
    return any(True for _ in lagging(last, sent))


def ahead(last: Vector, sent: Mapping[Group, int]) -> bool:
    """Whether the host is ahead of the sender in some group of the host."""
    return any(number > sent.get(group, 0) for group, number in last)
