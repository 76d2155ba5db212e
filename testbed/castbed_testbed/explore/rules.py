"""Which freedom a step uses: what a system model does not allow is refused here, whoever chose it."""

from __future__ import annotations

from castbed.values import NOBODY, NodeNumber
from castbed_testbed.explore import freedoms
from castbed_testbed.explore.founding import founding_of
from castbed_testbed.explore.world import Copy, Operation, World

IMPOSSIBLE = "impossible"  # no network and no node does this
SPARED = "spared"  # a node that has to stay up


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
        return freedoms.CRASH if may_crash(world, given[0]) else SPARED
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
    """Whether what the variant needs of hosts and of the core survives the crash of the node.

    For the majority of the core, who came back does not count: it has to learn from the others what it lost, which may
    take for ever here.
    """
    arena = world.arena
    if freedoms.CRASH in arena.setup.allows:
        return True
    if node not in arena.core:
        return "hosts_up" not in arena.needs or node not in arena.topology.numbers("host")
    if "core_up" in arena.needs:
        return False
    up = sum(world.is_up(other) and world.lives[other] == 0 for other in arena.core if other != node)
    return "core_majority" not in arena.needs or 2 * up > len(arena.core)
