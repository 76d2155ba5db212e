"""The two tables of the spec: how GJLP merges member lists (M2-V7), and what MSP does with a number (M2-V8)."""

from __future__ import annotations

import pytest
from m2mc_bench import gid, letters, m2mc_bench, numbers, sync_timer

from castbed import Packet, PeerError, Received
from castbed.testing import Bench
from castbed.values import created_group
from castbed_plugins import m2mc
from castbed_plugins.m2mc.gjlp import NA, Row
from castbed_plugins.m2mc.packets import GroupInfo, GroupList, Join, Leave, SyncId, SyncReq, SyncResp

G = "1.C"
R = 4


def merged(own: tuple[str, str] | None, heard: tuple[str, str]) -> tuple[str, str] | None:
    bench = m2mc_bench("ABCD", "published")
    group = gid(bench, G)
    table = bench.machines["A"].gjlp.groups
    table[group] = NA if own is None else Row(GroupInfo(group, "g", numbers(bench, own[0]), numbers(bench, own[1])))
    info = GroupInfo(group, "another name", numbers(bench, heard[0]), numbers(bench, heard[1]))
    bench.step("A", Received(GroupList((info,)), 2))
    assert bench.notices["A"] == []
    if table[group] is NA:
        return None
    after = table[group].info()
    assert after.desc == "g"
    return letters(bench, after.current), letters(bench, after.departed)


@pytest.mark.parametrize(
    ("own", "heard", "result"),
    [
        (("AB", ""), ("AC", ""), ("ABC", "")),
        (("AB", ""), ("A", "B"), ("A", "B")),
        (("A", "B"), ("AB", ""), ("A", "B")),
        (("AB", ""), ("", ""), ("AB", "")),
        (("A", ""), ("A", "B"), ("A", "B")),
        (("AB", "C"), ("ACD", "B"), ("AD", "BC")),
        (None, ("AB", "C"), None),
    ],
)
def test_v7_departures_first_then_new_members(
    own: tuple[str, str] | None, heard: tuple[str, str], result: tuple[str, str] | None
) -> None:
    assert merged(own, heard) == result


def test_v7_an_unknown_group_is_offered_and_makes_no_row() -> None:
    bench = m2mc_bench("ABC", "published")
    info = GroupInfo(gid(bench, G), "g", (1,), (2,))
    bench.step("C", Received(GroupList((info,)), 1))
    assert bench.machines["C"].gjlp.groups == {}
    assert bench.notices["C"] == [m2mc.GroupOffered(info)]


def request(bench: Bench, number: int) -> None:
    bench.step("A", Received(SyncReq(gid(bench, G), SyncId(R, number), ()), R))


def response(bench: Bench, number: int) -> None:
    bench.step("A", Received(SyncResp(gid(bench, G), 2, SyncId(R, number), ()), 2))


def at(stored: int | None, pending: bool) -> Bench:
    """A as a member that knows `stored` as the last number of R, with or without an open answer to it."""
    bench = m2mc_bench("ABCD", "published")
    bench.machines["A"].open(gid(bench, G))
    if stored:
        request(bench, stored)
        if not pending:
            bench.expire("A", sync_timer(bench, G, "D", stored))
    return bench


def outcome(bench: Bench) -> tuple[int, list[int], list[int]]:
    """The number now known, the requests with an open answer, and those whose counter runs."""
    msp = bench.machines["A"].instances[gid(bench, G)].msp
    running = [timer[1][1].number for node, timer in bench.timers if node == "A"]
    return msp.latest_sync.get(R, 0), [sync_id.number for sync_id in msp.pending], running


@pytest.mark.parametrize(
    ("stored", "pending", "incoming", "after_request", "after_response"),
    [
        (None, False, 1, (1, [1], [1]), (1, [1], [])),
        (1, True, 2, (2, [1, 2], [1, 2]), (2, [1, 2], [1])),
        (2, True, 2, (2, [2], [2]), (2, [2], [2])),
        (2, False, 2, (2, [], []), (2, [], [])),
        (2, False, 1, (2, [], []), (2, [], [])),
    ],
)
def test_v8_what_a_number_means(
    stored: int | None,
    pending: bool,
    incoming: int,
    after_request: tuple[int, list[int], list[int]],
    after_response: tuple[int, list[int], list[int]],
) -> None:
    bench = at(stored, pending)
    request(bench, incoming)
    assert outcome(bench) == after_request
    bench = at(stored, pending)
    response(bench, incoming)
    assert outcome(bench) == after_response


# --- blame -----------------------------------------------------------------------------------------------------------

SOME, STRANGE = created_group(1, 3), created_group(1, 65537)


@pytest.mark.parametrize(
    "packet",
    [
        GroupList((GroupInfo(SOME, "g", (3,), ()), GroupInfo(STRANGE, "g", (3,), ()))),
        GroupList((GroupInfo(SOME, "g", (3, 5), ()),)),
        GroupList((GroupInfo(SOME, "g", (3,), (0,)),)),
        Join(SOME, 5),
        Leave(STRANGE, 3),
        SyncReq(SOME, SyncId(5, 1), ()),
        SyncResp(SOME, 2, SyncId(5, 1), ()),
    ],
)
def test_what_names_nobody_is_blamed_on_its_sender(packet: Packet) -> None:
    machine = m2mc_bench("ABCD", "published").machines["A"]
    with pytest.raises(PeerError, match="there is no node"):
        machine.step(Received(packet, 2), 0)
    assert (machine.gjlp.groups, machine.gjlp.offers) == ({}, {})
