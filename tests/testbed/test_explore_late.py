"""One late copy: everything that may pass it does, and it comes when its user is at something else."""

from __future__ import annotations

from random import Random

import pytest
from explore_support import arena

from castbed.values import Mid
from castbed_plugins.eomp.coordinator import Coordinator
from castbed_plugins.eomp.host import Host
from castbed_plugins.eomp.packets import LeaveFrom, McastReq
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.chances import Chances, Limits
from castbed_testbed.explore.late import LateCopy
from castbed_testbed.explore.world import Copy, World

SCHEDULES = 200
ONE_CELL = {"kind": "three_tier", "hosts": {"h1": "S1"}, "coordinators": {"C1": ["S1"]}}


def left_behind(where: Arena, seed: int) -> tuple[World, list[Copy]]:
    """A schedule without its end, and what is still on its way of all messages but the last."""
    world = World(where)
    LateCopy(where, Random(seed)).schedule(Chances(world, Random(seed), Limits(messages=9)))
    last = list(world.accepted)[-1].encode()
    return world, [copy for copy in world.flying if copy.packet.payload != last]  # type: ignore[attr-defined]


@pytest.fixture
def everybody_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LateCopy, "MISSES", 0.0)


@pytest.mark.usefixtures("everybody_hears")
def test_all_others_pass_the_one_that_is_late() -> None:
    behind = [left_behind(arena("hasty", "published"), seed)[1] for seed in range(SCHEDULES)]
    assert {len(copies) for copies in behind} == {0, 1}


@pytest.mark.usefixtures("everybody_hears")
def test_where_the_order_is_kept_the_channel_waits_for_it() -> None:
    behind = [left_behind(arena("hasty", "fifo"), seed)[1] for seed in range(SCHEDULES)]
    assert max(map(len, behind)) > 1
    assert {len({(copy.sender, copy.to) for copy in copies}) for copies in behind} == {0, 1}


def test_a_user_that_asks_and_moves_does_so_in_some_arenas_only() -> None:
    where = arena("eomp", "published")
    drawn = {(one.users_ask, one.users_move) for one in (LateCopy(where, Random(seed)) for seed in range(40))}
    assert len(drawn) == 4


def test_nothing_is_lost_on_a_reliable_air() -> None:
    for seed in range(SCHEDULES):
        world, _ = left_behind(arena("hasty", "published"), seed)
        assert all(operation[0] != "lose" for operation in world.trace)


class Watched(World):
    """Remembers the requests that the station heard, and counts LEAVEs that end a membership that nobody is leaving."""

    def __init__(self, where: Arena) -> None:
        self.heard: set[Mid] = set()
        self.ended = 0
        super().__init__(where)

    def _arrived(self, copy: Copy) -> None:
        packet = copy.packet
        if isinstance(packet, McastReq):
            self.heard.add(packet.mid)
        elif isinstance(packet, LeaveFrom):
            host, coordinator = self.machines[packet.host], self.machines[copy.to]
            assert isinstance(host, Host)
            assert isinstance(coordinator, Coordinator)
            stays = packet.group in self.groups[packet.host] and packet.group not in host.leaving
            self.ended += stays and packet.host in coordinator.member_set[packet.group]
        super()._arrived(copy)

    def given_up(self) -> set[Mid]:
        """What was submitted, is neither to be sent nor on its way, and was never heard."""
        host = self.machines[self.arena.topology.number("h1")]
        assert isinstance(host, Host)
        waiting = {message.mid for message in (*host.send_queue, host.outstanding) if message is not None}
        flying = {copy.packet.mid for copy in self.flying if isinstance(copy.packet, McastReq)}
        return {mid for _, mid in self.accepted.values()} - waiting - flying - self.heard


def in_one_cell(schedules: int) -> list[Watched]:
    where = arena("eomp", "published", ONE_CELL)
    worlds = []
    for seed in range(schedules):
        world = Watched(where)
        LateCopy(where, Random(seed)).schedule(Chances(world, Random(seed), Limits()))
        worlds.append(world)
    return worlds


def test_a_late_acknowledgement_is_taken_for_that_of_a_lost_request() -> None:
    """EOMP, MH-3 against E1: one bit names a request."""
    assert any(world.given_up() for world in in_one_cell(SCHEDULES))


def test_a_late_leave_ends_the_next_membership() -> None:
    """EOMP, C-7 against E12: a repeated LEAVE cannot be told from a new one."""
    assert any(world.ended for world in in_one_cell(5 * SCHEDULES))
