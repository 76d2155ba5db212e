"""What applications ask of an EOMP host besides sending. Groups are named as people do (`"1"`)."""

from __future__ import annotations

from castbed import Command, ContractError, Group, Topology
from castbed.values import parse_group


class Join(Command, frozen=True):
    """Become a member of the group."""

    group: str


class Leave(Command, frozen=True):
    """Stop being a member of the group."""

    group: str


COMMANDS = (Join, Leave)


def group_number(text: str, topology: Topology) -> Group:
    """The group of this name; a text that names none is the caller's mistake."""
    try:
        return parse_group(text, topology.number)
    except ValueError as error:
        raise ContractError(str(error)) from None
