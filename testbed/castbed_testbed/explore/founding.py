"""What users may ask for: they join groups that they are not in (and that they were offered, where a protocol makes
offers), leave those that they are in, and make new ones.

Which command does what is found out by trying it. Commands that do none of this are given if they need no group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from castbed.history import Kind
from castbed.packets import Command
from castbed.values import Group, NodeNumber, group_text, parse_group
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.world import StumbledError, World

JOINS = 0.75  # of the other nodes join before anything else happens
WAITS = 0.8  # of the times everything arrives before the next one joins
UNKNOWN_GROUP: Group = 1


class Founding:
    """The commands of a protocol by what they do."""

    def __init__(self, arena: Arena) -> None:
        commands = arena.chosen.commands
        self.making = [command for command in commands if _grows(World(arena), arena.submitters[0], command)]
        self.joining: list[type[Command]] = []
        self.leaving: list[type[Command]] = []
        self.offers = False
        for command in commands:
            self._try(arena, command)
        self.making = [command for command in self.making if command not in self.joining]
        self.other = [command for command in commands if not command.__struct_fields__]

    def _try(self, arena: Arena, command: type[Command]) -> None:
        """A node that is in no group tries it on one of another node, then the other node does."""
        world, group = self._with_group(arena)
        inside = [node for node in arena.numbers if group in world.groups[node]]
        outside = [node for node in arena.submitters if group not in world.groups[node]]
        if not inside:
            return
        if outside and _asked(world, outside[-1], command, group):
            offered = mentions(world.told[outside[-1]], group)
            world.pass_time()
            if group in world.groups[outside[-1]]:
                self.joining.append(command)
                self.offers = offered
                return
        if _asked(world, inside[0], command, group):
            world.pass_time()
            if group not in world.groups[inside[0]]:
                self.leaving.append(command)

    def _with_group(self, arena: Arena) -> tuple[World, Group]:
        world = World(arena)
        for command in self.making[:1] if not any(world.groups) else ():
            _grows(world, arena.submitters[0], command)
            world.arrive()
        known = sorted(set().union(*world.groups))
        return world, known[0] if known else UNKNOWN_GROUP

    def is_sensible(self, world: World, node: NodeNumber, command: Command) -> bool:
        """Whether a user could give the command now."""
        kind = type(command)
        if kind in self.making or kind in self.other:
            return True
        group = parse_group(getattr(command, command.__struct_fields__[0]), world.arena.topology.number)
        if kind in self.leaving:
            return group in world.groups[node]
        offered = not self.offers or mentions(world.told[node], group)
        return kind in self.joining and group not in world.groups[node] and offered


def _grows(world: World, node: NodeNumber, command: type[Command], group: Group = UNKNOWN_GROUP) -> bool:
    before = len(world.groups[node])
    return _asked(world, node, command, group) and len(world.groups[node]) > before


def _asked(world: World, node: NodeNumber, command: type[Command], group: Group) -> bool:
    try:
        world.ask(node, command_for(world, command, group))
    except (StumbledError, TypeError):
        return False
    return True


def command_for(world: World, command: type[Command], group: Group) -> Command:
    """The command with this group in each field."""
    text = group_text(group, world.arena.topology.name)
    return command(*(text for _ in command.__struct_fields__))


def mentions(notices: Any, group: Group) -> bool:
    """Whether the group is somewhere in what a node was told."""
    if isinstance(notices, msgspec.Struct):
        return any(mentions(getattr(notices, field), group) for field in notices.__struct_fields__)
    if isinstance(notices, list | tuple):
        return any(mentions(one, group) for one in notices)
    return bool(notices == group)


def senders_of(arena: Arena) -> tuple[NodeNumber, ...]:
    """Who may submit: everybody but those who refuse a plain message, where not everybody does."""
    if not arena.senders:
        world = World(arena)
        refused = [node for node in arena.submitters if _refuses(world, node)]
        arena.senders = tuple(node for node in arena.submitters if node not in refused) or arena.submitters
    return arena.senders


def _refuses(world: World, node: NodeNumber) -> bool:
    groups = world.groups[node] or set(world.arena.topology.groups)
    try:
        world.submit(node, f"try{node}", min(groups, default=UNKNOWN_GROUP))
    except StumbledError:
        return False
    return world.events[-1].kind == Kind.REFUSE


def founding_of(arena: Arena) -> Founding:
    """What is known of the commands of the arena's protocol; found out once, where there is room to try them."""
    if arena.founding is None:
        arena.founding = Founding(_with_room(arena))
    founding: Founding = arena.founding
    return founding


def _with_room(arena: Arena) -> Arena:
    """An arena in which some are in a group and some are not."""
    topology: dict[str, Any] = {"kind": arena.topology.model, **_ROOM[arena.topology.model]}
    if not arena.topology.groups:
        topology["groups"] = {}
    return Arena(msgspec.structs.replace(arena.setup, topology=topology), arena.registry)


_CELLS = {"hosts": {"h1": "S1", "h2": "S1", "h3": "S2"}, "groups": {"1": ["h1", "h2"]}}
_ROOM: Mapping[str, Mapping[str, Any]] = {
    "broadcast": {"members": ["A", "B", "C"], "groups": {"1": ["A", "B"]}},
    "sites": {"sites": ["A", "B", "C"], "groups": {"1": ["A", "B"]}},
    "cellular": {"stations": ["S1", "S2"], **_CELLS},
    "three_tier": {"coordinators": {"C1": ["S1"], "C2": ["S2"]}, **_CELLS},
}
