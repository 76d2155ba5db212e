"""From what was chosen in a world to steps that people read, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from castbed.errors import ConfigurationError
from castbed.events import TimerName
from castbed.packets import Command, Packet, command_name
from castbed.units import convert
from castbed.values import NOBODY, NodeNumber, group_text, parse_group
from castbed_testbed.explore import steps as said
from castbed_testbed.explore.arena import SHARED
from castbed_testbed.explore.steps import Step
from castbed_testbed.explore.world import Copy, Operation, World

Choose = Callable[[World, Any], Operation | None]


def timer_text(name: TimerName) -> str:
    """The name of a timer in one word that begins no comment."""
    if isinstance(name, tuple) and type(name) is tuple:
        return "/".join(timer_text(part) for part in name)
    return re.sub(r"[\s#]+", "", str(name))


def message_name(world: World, packet: Packet) -> str:
    """The name of the message that the packet carries or is about; empty if it is about none."""
    payload = getattr(packet, "payload", b"").decode(errors="replace")
    if payload in world.accepted:
        return payload
    mid = getattr(packet, "mid", None)
    return next((name for name, (_, known) in world.accepted.items() if known == mid), "") if mid else ""


def _matching(world: World, copy: Copy) -> list[Copy]:
    """The copies on their way that a step cannot tell from this one by name, in the order of sending."""
    kind, message = type(copy.packet), message_name(world, copy.packet)
    return [
        other
        for other in world.flying
        if other.sender == copy.sender
        and other.to == copy.to
        and type(other.packet) is kind
        and message_name(world, other.packet) == message
    ]


# --- what was chosen, in words ---------------------------------------------------------------------------------------


def named(world: World, operation: Operation) -> Step:
    """The step that `operation` is in this world, before it is done."""
    what, *given = operation
    name = world.arena.topology.name
    if what == "submit":
        node, message, group, parent = given
        answered = next((text for text, (_, mid) in world.accepted.items() if mid == parent), "") if parent else ""
        return said.Submits(name(node), message, group_text(group, name), answered)
    if what == "ask":
        return _named_command(name(given[0]), given[1])
    if what in _ON_COPIES:
        copy = next(copy for copy in world.flying if copy.serial == given[0])
        nth = 1 + _matching(world, copy).index(copy)
        message = message_name(world, copy.packet)
        return _ON_COPIES[what](name(copy.to), type(copy.packet).__name__, name(copy.sender), message, nth)
    if what == "fire":
        return said.Fires(name(given[0]), timer_text(given[1]))
    if what == "move":
        return _named_move(world, *given)
    if what == "crash":
        return said.Crashes(name(given[0]))
    if what == "restart":
        return said.Restarts(name(given[0]), given[1])
    if what == "pass_time":
        return said.TimePasses()
    assert what == "arrive"
    return said.Arrives(tuple(sorted((name(sender), name(to)) for sender, to in given[0])))


_ON_COPIES: Mapping[str, type[said.OnCopy]] = {
    "receive": said.Receives,
    "lose": said.Lost,
    "duplicate": said.Duplicated,
}


def _named_move(world: World, host: NodeNumber, station: NodeNumber) -> Step:
    name = world.arena.topology.name
    if station == NOBODY:
        return said.GoesAway(name(host))
    return said.ComesBack(name(host)) if station == SHARED else said.Moves(name(host), name(station))


def _named_command(node: str, command: Command) -> said.Asks:
    fields = tuple((key, str(getattr(command, key))) for key in command.__struct_fields__)
    return said.Asks(node, command_name(type(command)), fields)


# --- words, as something to choose -----------------------------------------------------------------------------------


def operation_of(world: World, step: Step) -> Operation | None:
    """What to choose so that the step happens; None where it cannot happen now."""
    return _CHOOSE[type(step)](world, step)


def check_names(world: World, step: Step) -> None:
    """Refuse a step that could never happen in this arena, because it names what does not exist."""
    topology = world.arena.topology
    for field in ("node", "to", "sender", "station"):
        node = getattr(step, field, None)
        if node is not None and not topology.has(node):
            raise ConfigurationError("", f"there is no node {node!r}")
    if isinstance(step, said.OnCopy):
        known = [packet.__name__ for packet in _packets(world)]
        if step.packet not in known:
            raise ConfigurationError("", f"there is no packet {step.packet!r} (there are: {', '.join(known)})")
    if isinstance(step, said.Asks):
        _command(world, step)


def _packets(world: World) -> tuple[type[Packet], ...]:
    chosen = world.arena.chosen
    below = chosen.membership.packets if chosen.membership is not None and chosen.stacked else ()
    return chosen.protocol.packets + below


def _node(world: World, name: str) -> NodeNumber:
    return world.arena.topology.number(name)


def _up(world: World, name: str) -> NodeNumber | None:
    number = _node(world, name)
    return number if world.is_up(number) else None


def _submit(world: World, step: said.Submits) -> Operation | None:
    node = _up(world, step.node)
    group = parse_group(step.group, world.arena.topology.number)
    if node is None or step.message in world.accepted or (step.parent and step.parent not in world.accepted):
        return None
    return "submit", node, step.message, group, world.accepted[step.parent][1] if step.parent else None


def _command(world: World, step: said.Asks) -> Command:
    known = {command_name(command): command for command in world.arena.chosen.commands}
    if step.command not in known:
        raise ConfigurationError("", f"there is no command {step.command!r} (there are: {', '.join(known) or 'none'})")
    return convert(dict(step.fields), known[step.command], step.command)


def _ask(world: World, step: said.Asks) -> Operation | None:
    node = _up(world, step.node)
    return None if node is None else ("ask", node, _command(world, step))


def _on_copy(what: str) -> Choose:
    def choose(world: World, step: said.OnCopy) -> Operation | None:
        sender, to = _node(world, step.sender), _node(world, step.to)
        found = [
            copy
            for copy in world.flying
            if copy.sender == sender
            and copy.to == to
            and type(copy.packet).__name__ == step.packet
            and message_name(world, copy.packet) == step.message
        ]
        possible = len(found) >= step.nth and (what != "receive" or world.is_up(to))
        return (what, found[step.nth - 1].serial) if possible else None

    return choose


def _fire(world: World, step: said.Fires) -> Operation | None:
    node = _node(world, step.node)
    found = next((timer for timer in world.timers[node] if timer_text(timer) == step.timer), None)
    return None if found is None else ("fire", node, found)


def _move(world: World, step: said.Moves) -> Operation | None:
    host, station = _up(world, step.node), _node(world, step.station)
    possible = host is not None and station in world.arena.stations and world.cells[host] != station
    return ("move", host, station) if possible else None


def _go_away(world: World, step: said.GoesAway) -> Operation | None:
    node = _up(world, step.node)
    return None if node is None or world.cells[node] == NOBODY else ("move", node, NOBODY)


def _come_back(world: World, step: said.ComesBack) -> Operation | None:
    node = _up(world, step.node)
    shared = world.arena.topology.model == "broadcast"
    return None if node is None or not shared or world.cells[node] != NOBODY else ("move", node, SHARED)


def _crash(world: World, step: said.Crashes) -> Operation | None:
    node = _up(world, step.node)
    return None if node is None else ("crash", node)


def _restart(world: World, step: said.Restarts) -> Operation | None:
    node = _node(world, step.node)
    return None if world.is_up(node) else ("restart", node, step.storage)


def _arrive(world: World, step: said.Arrives) -> Operation | None:
    return "arrive", frozenset((_node(world, sender), _node(world, to)) for sender, to in step.but)


_CHOOSE: Mapping[type[Step], Choose] = {
    said.Submits: _submit,
    said.Asks: _ask,
    said.Receives: _on_copy("receive"),
    said.Lost: _on_copy("lose"),
    said.Duplicated: _on_copy("duplicate"),
    said.Fires: _fire,
    said.Moves: _move,
    said.GoesAway: _go_away,
    said.ComesBack: _come_back,
    said.Crashes: _crash,
    said.Restarts: _restart,
    said.Arrives: _arrive,
    said.TimePasses: lambda world, step: ("pass_time",),
}


def same_world(trace: list[Operation], world: World) -> list[Step]:
    """Do in `world` what the trace of an equal one says; returns the steps."""
    found: list[Step] = []
    for operation in trace:
        found.append(named(world, operation))
        world.again(operation)
    return found
