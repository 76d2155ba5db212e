"""Whether a protocol serves groups that overlap. No declaration says so: a plain message to each of two groups does."""

from __future__ import annotations

from functools import lru_cache

from castbed.errors import CastbedError
from castbed.registry import Registry
from castbed.values import Group
from castbed_testbed.explore.arena import Arena, Setup
from castbed_testbed.explore.closing import settle
from castbed_testbed.explore.founding import ROOM, senders_of
from castbed_testbed.explore.world import World

PROTOCOLS_MAX = 64  # whose answer is remembered; a process explores one


@lru_cache(PROTOCOLS_MAX)
def serves_several_groups(registry: Registry, protocol: str, variant: str) -> bool:
    """Whether, where nothing goes wrong, the members of each of two groups deliver its message and nobody else does."""
    model = registry.protocols.get(protocol, "PROTOCOL").model
    everybody = ROOM[model].get("members") or ROOM[model].get("sites") or sorted(ROOM[model]["hosts"])
    topology = {"kind": model, **ROOM[model], "groups": {"1": everybody, "2": everybody[:2]}}
    try:
        arena = Arena(Setup(protocol, variant, topology), registry)
        return all(_is_served(World(arena), group) for group in arena.topology.groups)
    except CastbedError:
        return False


def _is_served(world: World, group: Group) -> bool:
    arena = world.arena
    members = arena.topology.groups[group]
    senders = senders_of(arena)
    world.submit(next((node for node in senders if node in members), senders[0]), "a", group)
    settle(world)
    return [node for node in arena.numbers if world.delivered[node]] == sorted(members)
