"""The host of exploration: what is chosen happens, what the model rules out is never enabled, the end is fair."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from explore_support import BROADCAST, CELLS, REGISTRY, arena

from castbed import Command
from castbed.history import Kind
from castbed_plugins.m2mc.commands import Advertise, CreateGroup, JoinGroup, LeaveGroup, RejectGroup, Synchronize
from castbed_testbed.explore import freedoms as free
from castbed_testbed.explore.arena import Arena, Setup
from castbed_testbed.explore.chances import Chances, Limits
from castbed_testbed.explore.closing import settle
from castbed_testbed.explore.founding import founding_of
from castbed_testbed.explore.judging import violations_of
from castbed_testbed.explore.menu import STRATEGIES, strategy_of
from castbed_testbed.explore.naming import same_world
from castbed_testbed.explore.replaying import replay
from castbed_testbed.explore.rules import IMPOSSIBLE, freedom_used, may_crash
from castbed_testbed.explore.world import World

SCHEDULES = 12
LIMITS = Limits(messages=4, steps=40)


def explored(where: Arena, name: str, seed: int) -> World:
    """One schedule of a strategy, without its end."""
    strategy = strategy_of(name, where, Random(seed))
    world = World(where)
    strategy.schedule(Chances(world, Random(seed), LIMITS))
    return world


def test_nothing_arrives_unless_it_is_chosen() -> None:
    world = World(arena("sb", "published"))
    world.submit(1, "a", 1)
    assert [(copy.sender, copy.to) for copy in world.flying] == [(1, 1), (1, 2), (1, 3)]
    world.receive(world.flying[1])
    delivered = [(event.node, event.mid.seqno) for event in world.events if event.kind == Kind.DELIVER and event.mid]
    assert delivered == [(2, 1)]


def test_no_two_steps_share_a_moment() -> None:
    world = World(arena("sb", "repaired"))
    world.submit(1, "a", 1)
    world.arrive()
    moments = [event.at for event in world.events if event.kind in (Kind.SUBMIT, Kind.DELIVER) and event.node != 1]
    assert len(set(moments)) == len(moments) == 2


def test_a_timer_moves_time_on_to_when_it_is_due() -> None:
    world = World(arena("sb", "repaired"))
    timer = world.next_timer(2)
    due = world.timers[2][timer]
    world.fire(2, timer)
    assert world.now == due


def test_only_the_next_timer_of_a_node_may_fire() -> None:
    world = World(arena("eomp", "published", CELLS))
    host = world.arena.topology.number("h1")
    world.submit(host, "a", 1)
    first, *others = sorted(world.timers[host], key=world.timers[host].__getitem__)
    assert others
    assert freedom_used(world, ("fire", host, first)) is None
    assert [freedom_used(world, ("fire", host, other)) for other in others] == [IMPOSSIBLE] * len(others)


def test_who_leaves_a_cell_hears_no_more_of_it_but_itself() -> None:
    world = World(arena("m2mc", "published", {**BROADCAST, "groups": {}}))
    commands = {command.__name__: command for command in world.arena.chosen.commands}
    world.ask(1, commands["CreateGroup"]("talk"))
    world.ask(2, commands["Advertise"]())
    assert {(copy.sender, copy.to) for copy in world.flying} >= {(1, 2), (2, 2), (2, 1)}
    world.move(2, 0)
    assert {(copy.sender, copy.to) for copy in world.flying if copy.to == 2} == {(2, 2)}


@pytest.mark.parametrize(
    ("protocol", "variant"),
    [("sb", "published"), ("sb", "repaired"), ("m2mc", "published"), ("eomp", "published"), ("relm", "published")],
)
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_does_what_the_needs_rule_out(protocol: str, variant: str, name: str) -> None:
    """Every schedule, named and played again under the rules, happens in full and uses allowed freedoms only."""
    where = arena(protocol, variant, {**BROADCAST, "groups": {}} if protocol == "m2mc" else None)
    for seed in range(SCHEDULES):
        world = explored(where, name, seed)
        steps = same_world(world.trace, World(where))
        played = replay(where, steps, settles=False)
        assert played.happened == steps
        assert played.used <= where.freedoms
        assert played.world.events == world.events


def test_own_copies_are_never_lost() -> None:
    world = World(arena("sb", "published"))
    world.submit(1, "a", 1)
    own = next(copy for copy in world.flying if copy.to == 1)
    assert freedom_used(world, ("lose", own.serial)) == IMPOSSIBLE


def test_a_majority_of_the_core_stays_up_where_that_is_needed() -> None:
    where = arena("eomp", "repaired", CELLS)
    world = World(where)
    assert "core_majority" in where.needs
    first, second, third = sorted(where.core)
    assert may_crash(world, first)
    world.crash(first)
    world.restart(first, storage=True)
    assert not may_crash(world, second)
    assert not may_crash(world, third)
    assert may_crash(world, where.topology.number("S1"))


def test_only_stations_crash_where_hosts_and_core_have_to_stay_up() -> None:
    """A2, A4 of the EOMP paper; whoever looks beyond allows crashes."""
    where = arena("eomp", "published", CELLS)
    world = World(where)
    role = where.topology.role
    assert {role(node) for node in where.numbers if may_crash(world, node)} == {"station"}
    beyond = World(Arena(msgspec.structs.replace(where.setup, allows=("crash",)), REGISTRY))
    assert all(may_crash(beyond, node) for node in where.numbers)


def test_a_freedom_that_is_allowed_is_there_although_the_needs_rule_it_out() -> None:
    setup = arena("sb", "published").setup
    allowed = Arena(msgspec.structs.replace(setup, allows=("air_loss", "handoff")), REGISTRY)
    assert allowed.freedoms == {free.AIR_OVERTAKING, free.AIR_LOSS}


def test_users_answer_each_offer_once_and_give_members_commands_as_members() -> None:
    """M2MC offers a group again while the user has not decided; both offers may be accepted, or one declined."""
    world = World(arena("m2mc", "published", {**BROADCAST, "groups": {}}))
    founding = founding_of(world.arena)

    def sensible(command: Command) -> bool:
        return founding.is_sensible(world, 2, command)

    world.ask(1, CreateGroup("1"))
    assert not sensible(JoinGroup("1.A"))
    world.arrive()
    world.ask(2, Advertise())
    world.arrive()
    assert [sensible(command("1.A")) for command in (JoinGroup, RejectGroup, Synchronize)] == [True, True, False]
    world.ask(2, JoinGroup("1.A"))
    assert [sensible(command("1.A")) for command in (JoinGroup, RejectGroup, Synchronize)] == [True, True, True]
    world.ask(2, JoinGroup("1.A"))
    assert [sensible(command("1.A")) for command in (JoinGroup, RejectGroup, LeaveGroup)] == [False, False, True]


def test_what_a_wire_brings_to_a_node_that_is_down_waits_or_is_lost() -> None:
    """Both in half of the crashes; and what waits may be lost later, as in the simulator."""
    where = arena("eomp", "repaired", CELLS)
    station, left = where.topology.number("S1"), set()
    for seed in range(20):
        world = World(where)
        chances = Chances(world, Random(seed), LIMITS)
        for copy in [copy for copy in world.flying if copy.to != station]:
            world.lose(copy)
        world.submit(where.topology.number("h2"), "a", 1)
        while not any(copy.to == station and copy.wired for copy in world.flying):
            world.receive(world.flying[0])
        chances.crash(station)
        waiting = [copy for copy in world.flying if copy.to == station]
        left.add(bool(waiting))
        world.trace.clear()
        while waiting and not any(what == "lose" for what, *_ in world.trace):
            world.flying = list(waiting)
            chances.lost = 0
            chances.lose()
            assert chances.lost <= 1
    assert left == {True, False}


def test_a_result_that_needs_doubled_copies_does_not_hold_on_a_reliable_air() -> None:
    allowed = {free.AIR_LOSS, free.AIR_DUPLICATION}
    assert free.needs_in_words({free.AIR_DUPLICATION}, allowed) == ["needs duplication on the air"]
    assert free.needs_in_words({free.AIR_LOSS}, allowed) == ["needs loss on the air"]
    assert free.needs_in_words((), allowed) == ["holds even on a reliable air"]


def test_needs_take_freedoms_away() -> None:
    assert arena("sb", "published").freedoms == {free.AIR_OVERTAKING}
    assert arena("relm", "published").freedoms.isdisjoint({free.CRASH, free.ABSENCE, free.WIRE_OVERTAKING})
    assert {free.CRASH, free.AMNESIA, free.ABSENCE, free.AIR_LOSS} <= arena("sb", "repaired").freedoms


def test_the_end_brings_everybody_back_and_everything_to_rest() -> None:
    world = World(arena("sb", "repaired"))
    world.submit(1, "a", 1)
    for copy in list(world.flying):
        world.lose(copy)
    world.crash(2)
    world.move(3, 0)
    assert [len(world.delivered[node]) for node in (1, 2, 3)] == [1, 0, 0]
    settle(world)
    assert violations_of(world) == []
    assert all(len(world.delivered[node]) == 1 for node in (1, 2, 3))


def test_the_seed_of_a_setup_is_the_chance_of_its_machines() -> None:
    one, same, other = (World(Arena(Setup("sb", "repaired", BROADCAST, seed=seed), REGISTRY)) for seed in (1, 1, 2))
    assert one.timers == same.timers
    assert one.timers != other.timers
