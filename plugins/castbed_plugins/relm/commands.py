"""What applications ask of RelM besides sending (M3)."""

from __future__ import annotations

from castbed import Command, ContractError, Group, Topology
from castbed.values import parse_group


class Join(Command, frozen=True):
    """Become a member of the group; messages count from the answer of the supervisor on."""

    group: str


class Leave(Command, frozen=True):
    """Stop being a member, at once."""

    group: str


def group_number(text: str, topology: Topology) -> Group:
    """The group that a command names; a text that names none is the caller's mistake."""
    try:
        return parse_group(text, topology.number)
    except ValueError as error:
        raise ContractError(str(error)) from None
