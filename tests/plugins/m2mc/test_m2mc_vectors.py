"""The worked examples M2-V1 to M2-V6 and M2-V9 of the spec, step by step, on the published variant."""

from __future__ import annotations

import pytest
from m2mc_bench import SECOND, create, gid, join, m2mc_bench, row, sync_timer

from castbed import Received
from castbed.testing import Bench
from castbed_plugins import m2mc
from castbed_plugins.m2mc.packets import Adv, Data, GroupInfo, GroupList, Join, Logged, SyncId, SyncReq, SyncResp

G = "1.C"
A, B, C, D, E = 1, 2, 3, 4, 5


def instance(bench: Bench, node: str, group: str = G):
    return bench.machines[node].instances[gid(bench, group)]


def log(bench: Bench, node: str) -> str:
    return " ".join(bench.text(mid) for mid in instance(bench, node).msp.log)


def delivered_numbers(bench: Bench, node: str) -> str:
    """The ordering list as the spec writes it: `A:[1-1] C:[1-2]`."""
    lists = instance(bench, node).mop.ordering.delivered
    return " ".join(
        f"{bench.topology.name(pid)}:" + "".join(f"[{low}-{high}]" for low, high in numbers.intervals())
        for (pid, _), numbers in sorted(lists.items())
    )


def pending(bench: Bench, node: str, requester: str, number: int) -> str | None:
    waiting = instance(bench, node).msp.pending.get(SyncId(bench.topology.number(requester), number))
    return None if waiting is None else " ".join(bench.text(mid) for mid in waiting)


def texts(bench: Bench, messages: tuple[Logged, ...]) -> str:
    return " ".join(bench.text(entry.mid) for entry in messages)


def kind(packet_type: type):
    return lambda copy: isinstance(copy.packet, packet_type)


def after_v1() -> Bench:
    """C created 1.C, A and B are members, D declined; E is not there yet."""
    bench = m2mc_bench("ABCDE", "published", start="ABCD")
    create(bench, "C")
    bench.settle(kind(GroupList))
    join(bench, G, "A", "B")
    bench.ask("D", m2mc.RejectGroup(G))
    bench.run(SECOND)
    return bench


def after_v2() -> Bench:
    bench = after_v1()
    group = gid(bench, G)
    bench.submit("C", b"Did you visit Delhi?", group)
    bench.submit("C", b"Did you visit Chennai?", group)
    bench.settle()
    bench.submit("A", b"No", group, "C2")
    bench.settle()
    bench.submit("B", b"Yes", group, "C1")
    bench.settle()
    return bench


def after_v3() -> Bench:
    bench = after_v2()
    bench.start("E")
    bench.ask("E", m2mc.Advertise())
    bench.settle()
    join(bench, G, "E")
    bench.settle()
    for node in "ABC":
        bench.expire(node, sync_timer(bench, G, "E", 1))
        bench.settle()
    return bench


def test_v1_a_group_is_created_offered_joined_and_declined() -> None:
    bench = m2mc_bench("ABCDE", "published", start="ABCD")
    group = create(bench, "C")
    assert group == gid(bench, G)
    assert bench.notices["C"] == [m2mc.GroupCreated(group, "chat")]
    assert row(bench, "C", G) == ("C", "")
    info = GroupInfo(group, "chat", (C,), ())
    assert {(copy.to, copy.packet) for copy in bench.in_flight} == {(n, GroupList((info,))) for n in "ABCD"}

    bench.arrive_all()
    assert row(bench, "C", G) == ("C", "")
    for node in "ABD":
        assert bench.notices[node] == [m2mc.GroupOffered(info)]

    for node, number in (("A", A), ("B", B)):
        join(bench, G, node)
        assert row(bench, node, G) == ("C", "")
        sent = [copy.packet for copy in bench.copies(sender=node, to="C")]
        assert sent == [Join(group, number), SyncReq(group, SyncId(number, 1), ())]
    bench.ask("D", m2mc.RejectGroup(G))
    assert bench.machines["D"].gjlp.groups == {group: None}

    bench.arrive_all(kind(Join))
    assert all(row(bench, node, G) == ("ABC", "") for node in "ABC")
    assert bench.machines["D"].gjlp.groups == {group: None}

    bench.run(SECOND)
    assert instance(bench, "C").msp.latest_sync == {A: 1, B: 1}
    assert instance(bench, "A").msp.latest_sync == {B: 1}
    assert instance(bench, "B").msp.latest_sync == {A: 1}
    assert all(not instance(bench, node).msp.pending and not bench.delivered(node) for node in "ABC")


def test_v2_the_two_questions_inside_the_group() -> None:
    bench = after_v1()
    group = gid(bench, G)
    bench.submit("C", b"Did you visit Delhi?", group)
    bench.submit("C", b"Did you visit Chennai?", group)
    bench.settle()
    assert all((log(bench, n), delivered_numbers(bench, n)) == ("C1 C2", "C:[1-2]") for n in "ABC")
    bench.submit("A", b"No", group, "C2")
    bench.settle()
    assert all((log(bench, n), delivered_numbers(bench, n)) == ("C1 C2 A1", "A:[1-1] C:[1-2]") for n in "ABC")
    bench.submit("B", b"Yes", group, "C1")
    bench.settle()
    for node in "ABC":
        assert bench.delivered(node) == ["C1", "C2", "A1", "B1"]
        assert log(bench, node) == "C1 C2 A1 B1"
        assert delivered_numbers(bench, node) == "A:[1-1] B:[1-1] C:[1-2]"
    assert bench.delivered("D") == []


def test_v3_a_newcomer_discovers_joins_and_recovers_with_suppression() -> None:
    bench = after_v2()
    group = gid(bench, G)
    bench.start("E")
    bench.ask("E", m2mc.Advertise())
    assert sorted(copy.to for copy in bench.copies(Adv)) == list("ABCDE")

    bench.arrive_all(kind(Adv))
    answers = {copy.sender: copy.packet.groups for copy in bench.copies(GroupList, to="E")}
    info = answers["C"][0]
    assert (sorted(info.current), info.departed) == ([A, B, C], ())
    assert {name: len(groups) for name, groups in answers.items()} == {"A": 1, "B": 1, "C": 1, "D": 0, "E": 0}

    bench.arrive(bench.copies(GroupList, "C", "E")[0])
    join(bench, G, "E")
    assert row(bench, "E", G) == ("ABC", "")
    assert bench.copies(SyncReq, "E", "A")[0].packet == SyncReq(group, SyncId(E, 1), ())

    bench.arrive_all(kind(GroupList))
    assert len(bench.notices["E"]) == 1
    assert row(bench, "E", G) == ("ABC", "")
    bench.arrive_all(kind(Join))
    assert all(row(bench, node, G) == ("ABCE", "") for node in "ABCE")

    bench.arrive_all(kind(SyncReq))
    for node in "ABC":
        assert pending(bench, node, "E", 1) == "C1 C2 A1 B1"
        assert instance(bench, node).msp.latest_sync[E] == 1

    bench.expire("A", sync_timer(bench, G, "E", 1))
    response = bench.copies(SyncResp, "A", "E")[0].packet
    assert (response.responder, response.sync_id) == (A, SyncId(E, 1))
    assert texts(bench, response.messages) == "C1 C2 A1 B1"
    assert pending(bench, "A", "E", 1) is None

    bench.arrive_all()
    assert bench.delivered("E") == ["C1", "C2", "A1", "B1"]
    assert delivered_numbers(bench, "E") == "A:[1-1] B:[1-1] C:[1-2]"
    assert (pending(bench, "B", "E", 1), pending(bench, "C", "E", 1)) == ("", "")

    for node in "BC":
        bench.expire(node, sync_timer(bench, G, "E", 1))
        assert bench.copies(SyncResp, node, "E")[0].packet.messages == ()
    bench.settle()
    assert bench.delivered("E") == ["C1", "C2", "A1", "B1"]
    assert all(pending(bench, node, "E", 1) is None for node in "ABC")


def test_v4_absence_a_leave_and_a_return_with_recovery() -> None:
    bench = after_v3()
    group = gid(bench, G)
    bench.away("E")
    bench.submit("A", b"", group, "B1")
    bench.settle()
    bench.submit("B", b"", group, "A2")
    bench.settle()
    assert all(log(bench, node) == "C1 C2 A1 B1 A2 B2" for node in "ABC")
    assert all(delivered_numbers(bench, node) == "A:[1-2] B:[1-2] C:[1-2]" for node in "ABC")

    bench.submit("E", b"", group, "A1")
    bench.settle()
    assert log(bench, "E") == "C1 C2 A1 B1 E1"
    assert delivered_numbers(bench, "E") == "A:[1-1] B:[1-1] C:[1-2] E:[1-1]"

    bench.ask("A", m2mc.LeaveGroup(G))
    bench.settle()
    assert bench.machines["A"].gjlp.groups == {group: None}
    assert bench.machines["A"].instances == {}
    assert row(bench, "B", G) == row(bench, "C", G) == ("BCE", "A")
    assert row(bench, "E", G) == ("ABCE", "")

    # Step 4: E hears B3 as it comes into range, before it knows that it is back.
    bench.submit("B", b"", group, "B2")
    b3 = bench.copies(Data, "B", "C")[0].packet
    bench.settle()
    bench.step("E", Received(b3, B))
    assert bench.delivered("C")[-1] == "B3"
    assert log(bench, "E") == "C1 C2 A1 B1 E1 B3"
    assert "B3" not in bench.delivered("E")

    bench.back("E")
    bench.arrive_all(kind(Adv))
    bench.arrive_all(kind(GroupList))
    assert all(row(bench, node, G) == ("BCE", "A") for node in "BCE")

    request = bench.copies(SyncReq, "E", "B")[0].packet
    assert (request.sync_id, texts(bench, request.messages)) == (SyncId(E, 2), "C1 C2 A1 B1 E1 B3")
    bench.arrive_all(kind(SyncReq))
    for node in "BC":
        assert bench.delivered(node)[-1] == "E1"
        assert pending(bench, node, "E", 2) == "A2 B2"
        assert instance(bench, node).msp.latest_sync[E] == 2

    bench.expire("C", sync_timer(bench, G, "E", 2))
    assert texts(bench, bench.copies(SyncResp, "C", "E")[0].packet.messages) == "A2 B2"
    bench.settle()
    assert delivered_numbers(bench, "E") == "A:[1-2] B:[1-3] C:[1-2] E:[1-1]"
    assert instance(bench, "E").mop.ordering.held() == []
    assert pending(bench, "B", "E", 2) == ""

    bench.expire("B", sync_timer(bench, G, "E", 2))
    assert bench.copies(SyncResp, "B", "E")[0].packet.messages == ()
    bench.settle()
    assert bench.delivered("E") == ["C1", "C2", "A1", "B1", "E1", "A2", "B2", "B3"]
    assert bench.delivered("B") == bench.delivered("C") == ["C1", "C2", "A1", "B1", "A2", "B2", "B3", "E1"]
    assert log(bench, "B") == log(bench, "C") == "C1 C2 A1 B1 A2 B2 B3 E1"
    assert log(bench, "E") == "C1 C2 A1 B1 E1 B3 A2 B2"


PARENTS = {"C1": None, "C2": None, "A1": "C2", "B1": "C1", "B2": "A1"}


def v5() -> Bench:
    """A, B and J are members of 1.C, whose author left; nobody ever asked for anything. A has not got B2 yet."""
    bench = m2mc_bench("ABCJ", "published")
    for node, has in (("A", "C1 C2 A1 B1"), ("B", "C1 C2 A1 B1 B2"), ("J", "C1")):
        bench.machines[node].open(gid(bench, G))
        for text in has.split():
            give(bench, node, text, PARENTS[text])
    bench.ask("J", m2mc.Synchronize(G))
    return bench


def give(bench: Bench, node: str, text: str, parent: str | None) -> None:
    mid = bench.mid(text)
    packet = Data(gid(bench, G), mid, b"", None if parent is None else bench.mid(parent))
    bench.step(node, Received(packet, mid.sender))


def test_v5a_the_second_responder_adds_what_the_first_did_not_have() -> None:
    bench = v5()
    bench.arrive_all()
    assert pending(bench, "A", "J", 1) == "C2 A1 B1"
    assert pending(bench, "B", "J", 1) == "C2 A1 B1 B2"
    bench.expire("A", sync_timer(bench, G, "J", 1))
    bench.settle()
    assert bench.delivered("J") == ["C1", "C2", "A1", "B1"]
    assert pending(bench, "B", "J", 1) == "B2"
    bench.expire("B", sync_timer(bench, G, "J", 1))
    assert texts(bench, bench.copies(SyncResp, "B", "J")[0].packet.messages) == "B2"
    bench.settle()
    assert bench.delivered("J")[-1] == "B2"
    assert delivered_numbers(bench, "J") == "A:[1-1] B:[1-2] C:[1-2]"


def test_v5b_a_bystander_is_silenced_and_takes_nothing_from_a_response() -> None:
    bench = v5()
    bench.arrive_all()
    bench.expire("B", sync_timer(bench, G, "J", 1))
    bench.settle()
    assert bench.delivered("J") == ["C1", "C2", "A1", "B1", "B2"]
    assert pending(bench, "A", "J", 1) == ""
    assert "B2" not in log(bench, "A")
    bench.expire("A", sync_timer(bench, G, "J", 1))
    assert bench.copies(SyncResp, "A", "J")[0].packet.messages == ()
    give(bench, "A", "B2", "A1")
    assert bench.delivered("A")[-1] == "B2"


def test_v5c_a_response_overtakes_its_request() -> None:
    bench = v5()
    bench.arrive(bench.copies(SyncReq, "J", "B")[0])
    bench.expire("B", sync_timer(bench, G, "J", 1))
    bench.arrive(bench.copies(SyncResp, "B", "A")[0])
    assert instance(bench, "A").msp.latest_sync == {4: 1}
    assert pending(bench, "A", "J", 1) == "C1"
    assert ("A", sync_timer(bench, G, "J", 1)) not in bench.timers
    bench.arrive(bench.copies(SyncReq, "J", "A")[0])
    assert pending(bench, "A", "J", 1) == ""
    bench.expire("A", sync_timer(bench, G, "J", 1))
    assert bench.copies(SyncResp, "A", "J")[0].packet.messages == ()


def test_v5d_two_responses_with_the_same_messages() -> None:
    bench = v5()
    bench.arrive_all()
    bench.expire("A", sync_timer(bench, G, "J", 1))
    bench.expire("B", sync_timer(bench, G, "J", 1))
    bench.arrive(bench.copies(SyncResp, "B", "J")[0])
    assert bench.delivered("J") == ["C1", "C2", "A1", "B1", "B2"]
    bench.arrive(bench.copies(SyncResp, "A", "J")[0])
    assert bench.delivered("J") == ["C1", "C2", "A1", "B1", "B2"]


def test_v6_a_response_that_lists_a_child_first() -> None:
    bench = m2mc_bench("ABCJ", "published")
    for node in "BJ":
        bench.machines[node].open(gid(bench, G))
    give(bench, "B", "A1", "C2")
    give(bench, "B", "C2", None)
    bench.ask("J", m2mc.Synchronize(G))
    bench.run(SECOND)
    assert bench.delivered("J") == ["C2", "A1"]
    assert log(bench, "J") == log(bench, "B") == "A1 C2"


@pytest.mark.parametrize("variant", ["published", "repaired"])
def test_v9_two_groups_are_apart(variant: str) -> None:
    bench = m2mc_bench("ABC", variant)
    first = create(bench, "C", "one")
    bench.settle()
    second = create(bench, "C", "two")
    assert (first, second) == (gid(bench, "1.C"), gid(bench, "2.C"))
    if variant == "published":
        assert [info.group for info in bench.copies(GroupList, to="A")[0].packet.groups] == [first, second]
    bench.settle()
    join(bench, "2.C", "A")
    bench.run(2 * SECOND)
    bench.submit("C", b"x", first)
    bench.submit("C", b"y", second)
    assert [copy.packet.group for copy in bench.copies(Data, to="A")] == [first, second]
    bench.settle()
    assert [(m.group, bench.text(m.mid)) for m in bench.messages["C"]] == [(first, "C1"), (second, "C1")]
    assert [(m.group, bench.text(m.mid)) for m in bench.messages["A"]] == [(second, "C1")]
