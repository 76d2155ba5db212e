"""Commands that several protocols take, and how they name groups: as people do (`"1"`, `"1.C"`), for scripts."""

from __future__ import annotations

from castbed.errors import ContractError
from castbed.packets import Command
from castbed.topology import Topology
from castbed.values import Group, parse_group


class Join(Command, frozen=True):
    """Become a member of the group."""

    group: str


class Leave(Command, frozen=True):
    """Stop being a member of the group."""

    group: str


def group_number(text: str, topology: Topology) -> Group:
    """The group that a command names; a text that names none is the mistake of who gave the command."""
    try:
        return parse_group(text, topology.number)
    except ValueError as error:
        raise ContractError(str(error)) from None
