"""Whom a peer may name: nodes that exist, in roles that they have, and groups that somebody can have created."""

from __future__ import annotations

import pytest

from castbed.errors import PeerError
from castbed.topology import three_tier
from castbed.values import created_group

TOPOLOGY = three_tier({"C": ("S",)}, {"h": "S"}, "Q")


@pytest.mark.parametrize("number", [-1, 0, 5, 1 << 40])
def test_a_number_that_no_node_has_is_the_mistake_of_the_peer(number: int) -> None:
    assert not TOPOLOGY.knows(number)
    with pytest.raises(PeerError, match=f"there is no node {number}"):
        TOPOLOGY.check(number)


def test_a_node_is_known_by_its_number_and_in_its_own_role_only() -> None:
    host = TOPOLOGY.number("h")
    TOPOLOGY.check(host)
    TOPOLOGY.check(host, "host")
    with pytest.raises(PeerError, match="there is no station 4"):
        TOPOLOGY.check(host, "station")


def test_a_group_is_declared_or_was_created_by_a_node() -> None:
    for group in (0, 1, 1 << 31, created_group(7, 4)):
        TOPOLOGY.check_group(group)
    for creator in (0, 5):
        with pytest.raises(PeerError, match=f"there is no node {creator} that could have created"):
            TOPOLOGY.check_group(created_group(1, creator))
