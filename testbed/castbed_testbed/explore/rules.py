"""Which freedom a step uses: what a system model does not allow is refused here, whoever chose it."""

from __future__ import annotations

from castbed.values import NOBODY, NodeNumber
from castbed_testbed.explore import freedoms
from castbed_testbed.explore.founding import founding_of
from castbed_testbed.explore.world import Copy, Operation, World

IMPOSSIBLE = "impossible"  # no network and no node does this
CORE_DOWN = "core_down"  # too many of the sequencer and the coordinators down at once


def freedom_used(world: World, operation: Operation) -> str | None:
    """The freedom that the operation would use now; None if it is part of every model."""
    what, *given = operation
    if what in ("receive", "lose", "duplicate"):
        copy = next(copy for copy in world.flying if copy.serial == given[0])
        return _on_copy(world, what, copy)
    if what == "fire":
        return None if world.next_timer(given[0]) == given[1] else IMPOSSIBLE
    if what == "move":
        return _moved(world, *given)
    if what == "crash":
        return freedoms.CRASH if may_crash(world, given[0]) else CORE_DOWN
    if what == "restart":
        return None if given[1] else freedoms.AMNESIA
    if what == "ask":
        sensible = founding_of(world.arena).is_sensible(world, *given)
        return freedoms.COMMANDS if sensible else IMPOSSIBLE
    return None


def _on_copy(world: World, what: str, copy: Copy) -> str | None:
    if what == "receive":
        if world.oldest(copy) is copy:
            return None
        return freedoms.WIRE_OVERTAKING if copy.wired else freedoms.AIR_OVERTAKING
    if copy.sender == copy.to:
        return IMPOSSIBLE
    if what == "lose":
        if copy.wired and not world.is_up(copy.to):
            return None  # what a wire brings to a node that is down is lost on the best of wires
        return freedoms.WIRE_LOSS if copy.wired else freedoms.AIR_LOSS
    return freedoms.WIRE_DUPLICATION if copy.wired else freedoms.AIR_DUPLICATION


def _moved(world: World, host: NodeNumber, station: NodeNumber) -> str | None:
    if station == NOBODY:
        return freedoms.ABSENCE
    return None if world.cells[host] == NOBODY else freedoms.HANDOFF


def may_crash(world: World, node: NodeNumber) -> bool:
    """Whether the need for a majority of the core, if there is one, survives the crash of the node.

    Who came back has to learn from the others what it lost, which may take for ever here: it does not count.
    """
    core = world.arena.core
    if "core_majority" not in world.arena.needs or node not in core:
        return True
    up = sum(world.is_up(other) and world.lives[other] == 0 for other in core if other != node)
    return 2 * up > len(core)
