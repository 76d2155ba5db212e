"""What users may ask for: they join groups that they are not in, leave those that they are in, and make new ones.

Where a protocol makes offers, users join groups that they were offered. Each offer may be answered, those of a group
that was joined meanwhile, too. Which command does what is found out by trying it. Of the commands that do none of this,
those that make a member send something are for members, those that need no group are for everybody, and those that do
nothing visible answer offers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
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
        self.making = [command for command in commands if _makes(arena, command)]
        self.joining: list[type[Command]] = []
        self.leaving: list[type[Command]] = []
        self.offers = False
        for command in commands:
            with suppress(StumbledError):  # what breaks here is found when it is looked for
                self._try(arena, command)
        self.making = [command for command in self.making if command not in self.joining]
        self.other = [command for command in commands if not command.__struct_fields__]
        known = {*self.making, *self.joining, *self.leaving, *self.other}
        left = [command for command in commands if command not in known]
        self.asking = [command for command in left if self._speaks(arena, command)]
        self.declining = [command for command in left if command not in self.asking and self.offers]

    def kinds(self) -> list[list[type[Command]]]:
        """What is given once there is a group, by what it does; nothing that the protocol has no command for."""
        return [kind for kind in (self.joining, self.leaving, self.asking, self.declining, self.other) if kind]

    def _try(self, arena: Arena, command: type[Command]) -> None:
        """A node that is in no group tries it on one of another node, then the other node does."""
        world, group = self._with_group(arena)
        inside = [node for node in arena.numbers if group in world.groups[node]]
        outside = [node for node in arena.submitters if group not in world.groups[node]]
        if not inside:
            return
        if outside and _asked(world, outside[-1], command, group):
            offered = bool(offers_of(world, outside[-1], group))
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

    def _speaks(self, arena: Arena, command: type[Command]) -> bool:
        """Whether a member that gives the command sends something."""
        try:
            world, group = self._with_group(arena)
        except StumbledError:
            return False
        member = next((node for node in arena.numbers if group in world.groups[node]), None)
        before = world.copies
        return member is not None and _asked(world, member, command, group) and world.copies > before

    def is_sensible(self, world: World, node: NodeNumber, command: Command) -> bool:
        """Whether a user could give the command now."""
        kind = type(command)
        if kind in self.making or kind in self.other:
            return True
        group = parse_group(getattr(command, command.__struct_fields__[0]), world.arena.topology.number)
        inside = group in world.groups[node]
        if kind in self.leaving or kind in self.asking:
            return inside
        if not self.offers:
            return kind in self.joining and not inside
        if kind in self.joining and not inside:
            return any(mentions(notice, group) for notice, _ in world.told[node])
        return offers_of(world, node, group) > self._answers(world, node, group)

    def _answers(self, world: World, node: NodeNumber, group: Group) -> int:
        """How often the node joined or declined the group."""
        answering = {command_for(world, kind, group) for kind in (*self.joining, *self.declining)}
        return sum(what[0] == "ask" and what[1] == node and what[2] in answering for what in world.trace)


def _makes(arena: Arena, command: type[Command]) -> bool:
    try:
        return _grows(World(arena), arena.submitters[0], command)
    except StumbledError:
        return False


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


def offers_of(world: World, node: NodeNumber, group: Group) -> int:
    """How often the node was told of the group while it was not in it."""
    return sum(group not in groups and mentions(notice, group) for notice, groups in world.told[node])


def mentions(notice: Any, group: Group) -> bool:
    """Whether the group is somewhere in a notice."""
    if isinstance(notice, msgspec.Struct):
        return any(mentions(getattr(notice, field), group) for field in notice.__struct_fields__)
    if isinstance(notice, list | tuple):
        return any(mentions(one, group) for one in notice)
    return bool(notice == group)


def senders_of(arena: Arena) -> tuple[NodeNumber, ...]:
    """Who may submit: everybody but those who refuse a plain message, where not everybody does."""
    if not arena.senders:
        refused: list[NodeNumber] = []
        with suppress(StumbledError):  # what breaks here is found when it is looked for
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
    topology: dict[str, Any] = {"kind": arena.topology.model, **ROOM[arena.topology.model]}
    if not arena.topology.groups:
        topology["groups"] = {}
    return Arena(msgspec.structs.replace(arena.setup, topology=topology), arena.registry)


_CELLS = {"hosts": {"h1": "S1", "h2": "S1", "h3": "S2"}, "groups": {"1": ["h1", "h2"]}}
ROOM: Mapping[str, Mapping[str, Any]] = {
    "broadcast": {"members": ["A", "B", "C"], "groups": {"1": ["A", "B"]}},
    "sites": {"sites": ["A", "B", "C"], "groups": {"1": ["A", "B"]}},
    "cellular": {"stations": ["S1", "S2"], **_CELLS},
    "three_tier": {"coordinators": {"C1": ["S1"], "C2": ["S2"]}, **_CELLS},
}
"""A small network per model, on which commands are tried."""
