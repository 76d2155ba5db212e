"""The paper's claims M2-S1 to M2-S15, each as far as it is true, on both variants."""

from __future__ import annotations

import pytest
from m2mc_bench import SECOND, all_broken, create, gid, join, last_view, m2mc_bench, members, sync_timer
from test_m2mc_vectors import after_v3

from castbed import Received
from castbed.history import Kind
from castbed.packets import Packet
from castbed.parts import AntiEntropyOptions, Repair
from castbed.testing import Bench
from castbed_plugins import m2mc
from castbed_plugins.m2mc.packets import Data, GroupList, Roster, SyncId, SyncReq, SyncResp

both = pytest.mark.parametrize("variant", ["published", "repaired"])
G = "1.A"


def offers(bench: Bench, node: str) -> list[int]:
    return [notice.info.group for notice in bench.notices[node] if isinstance(notice, m2mc.GroupOffered)]


def sent(bench: Bench, kind: type[Packet]) -> list[str]:
    return sorted({copy.sender for copy in bench.copies(kind)})


def refused(bench: Bench) -> list[str]:
    return [event.text for event in bench.events if event.kind == Kind.REFUSE]


@both
def test_s1_whoever_advertises_hears_of_the_groups_of_each_process_in_range(variant: str) -> None:
    bench = m2mc_bench("ABCD", variant)
    first = create(bench, "A")
    second = create(bench, "B")
    bench.lose()
    bench.ask("D", m2mc.Advertise())
    bench.run(SECOND // 2)
    assert {first, second} <= set(offers(bench, "D"))


@both
def test_s2_an_unknown_group_is_offered_and_joined_only_on_request(variant: str) -> None:
    bench = m2mc_bench("AB", variant)
    group = create(bench, "A", "chess")
    bench.settle()
    assert [notice.info.desc for notice in bench.notices["B"]] == ["chess"]
    assert bench.submit("B", b"", group) is None
    join(bench, G, "B")
    assert bench.submit("B", b"", group) is not None


@both
def test_s3_a_declined_group_is_offered_again_only_after_an_own_advertisement(variant: str) -> None:
    bench = m2mc_bench("AB", variant)
    group = create(bench, "A")
    bench.settle()
    bench.ask("B", m2mc.RejectGroup(G))
    bench.ask("A", m2mc.Advertise())
    bench.run(3 * SECOND)
    assert offers(bench, "B") == [group]
    bench.ask("B", m2mc.Advertise())
    bench.run(3 * SECOND)
    assert offers(bench, "B") == [group, group]


@both
def test_s4_a_member_that_hears_a_join_lists_the_joiner(variant: str) -> None:
    bench = m2mc_bench("ABC", variant)
    members(bench, G, "A", "B", "C")
    assert last_view(bench, "A") == last_view(bench, "C") == "ABC"


@both
def test_s5_a_member_that_hears_a_leave_no_longer_lists_the_leaver(variant: str) -> None:
    bench = m2mc_bench("ABC", variant)
    members(bench, G, "A", "B", "C")
    bench.ask("B", m2mc.LeaveGroup(G))
    bench.settle()
    assert last_view(bench, "A") == last_view(bench, "C") == "AC"


@both
def test_s6_a_departure_missed_in_absence_is_learned_and_not_undone(variant: str) -> None:
    bench = m2mc_bench("ABC", variant)
    members(bench, G, "A", "B", "C")
    bench.away("C")
    bench.ask("B", m2mc.LeaveGroup(G))
    bench.settle()
    assert last_view(bench, "C") == "ABC"
    bench.back("C")
    bench.run(SECOND)
    assert last_view(bench, "A") == last_view(bench, "C") == "AC"


@both
def test_s7_groups_of_one_name_have_their_own_identities(variant: str) -> None:
    bench = m2mc_bench("AB", variant)
    groups = [create(bench, "A", "chat"), create(bench, "A", "chat"), create(bench, "B", "chat")]
    assert groups == [gid(bench, text) for text in ("1.A", "2.A", "1.B")]


@both
def test_s8_what_is_recovered_is_ordered_like_what_is_received(variant: str) -> None:
    bench = m2mc_bench("ABC", variant)
    group = members(bench, G, "A", "B", "C")
    bench.away("C")
    bench.submit("A", b"", group)
    bench.settle()
    bench.submit("B", b"", group, "A1")
    answer = bench.copies(Data, "B", "A")[0].packet
    bench.settle()
    bench.step("C", Received(answer, 2))
    assert bench.delivered("C") == []
    bench.back("C")
    bench.run(3 * SECOND)
    assert bench.delivered("C") == ["A1", "B1"]


@both
def test_s9_identities_are_unique_within_a_group(variant: str) -> None:
    bench = m2mc_bench("AB", variant)
    group = members(bench, G, "A", "B")
    mids = [bench.submit(node, b"", group) for node in "AABB"]
    assert [bench.text(mid) for mid in mids] == ["A1", "A2", "B1", "B2"]


@both
def test_s10_a_joiner_and_a_returner_get_what_they_missed(variant: str) -> None:
    bench = m2mc_bench("ABC", variant)
    group = members(bench, G, "A", "B")
    bench.away("B")
    bench.submit("A", b"", group)
    bench.settle()
    bench.back("B")
    join(bench, G, "C")
    bench.run(3 * SECOND)
    assert bench.delivered("B") == bench.delivered("C") == ["A1"]


@both
def test_s11_members_learn_from_a_returner_what_it_wrote_in_absence(variant: str) -> None:
    bench = m2mc_bench("ABC", variant)
    group = members(bench, G, "A", "B", "C")
    bench.away("C")
    bench.submit("C", b"", group)
    bench.settle()
    assert bench.delivered("A") == []
    bench.back("C")
    bench.run(3 * SECOND)
    assert bench.delivered("A") == bench.delivered("B") == ["C1"]


def test_s12_a_published_responder_does_not_repeat_what_it_heard_in_a_response() -> None:
    bench = m2mc_bench("ABC", "published")
    group = members(bench, G, "A", "B")
    bench.submit("A", b"", group)
    bench.settle()
    join(bench, G, "C")
    bench.settle()
    bench.expire("B", sync_timer(bench, G, "C", 1))
    assert len(bench.copies(SyncResp, "B", "C")[0].packet.messages) == 1
    bench.settle()
    bench.expire("A", sync_timer(bench, G, "C", 1))
    assert bench.copies(SyncResp, "A", "C")[0].packet.messages == ()


def test_s12_a_repaired_member_sends_no_repair_that_another_one_sent() -> None:
    bench = m2mc_bench("ABC", "repaired")
    group = members(bench, G, "A", "B")
    bench.submit("A", b"", group)
    bench.run(SECOND)
    join(bench, G, "C")
    bench.now += AntiEntropyOptions().repair_grace
    bench.expire("C", (f"log {group}", "digest"))
    bench.settle()
    bench.expire("B", (f"log {group}", "repair"))
    assert sent(bench, Repair) == ["B"]
    bench.settle()
    bench.expire("A", (f"log {group}", "repair"))
    assert sent(bench, Repair) == []


def test_s13_an_overtaken_request_is_discarded() -> None:
    """The overtaking response is M2-V5c."""
    bench = m2mc_bench("AB", "published")
    group = members(bench, G, "A", "B")
    bench.ask("B", m2mc.Synchronize(G))
    old = bench.copies(SyncReq, "B", "A")
    bench.ask("B", m2mc.Synchronize(G))
    new = [copy for copy in bench.copies(SyncReq, "B", "A") if copy not in old]
    bench.arrive(new[0])
    bench.arrive(old[0])
    assert list(bench.machines["A"].instances[group].msp.pending) == [SyncId(2, 3)]


@both
def test_s14_data_of_a_group_reaches_its_members_only(variant: str) -> None:
    bench = m2mc_bench("ABC", variant)
    group = members(bench, G, "A", "B")
    bench.submit("A", b"", group)
    bench.run(3 * SECOND)
    assert (bench.delivered("B"), bench.delivered("C")) == (["A1"], [])
    assert bench.submit("C", b"", group) is None
    assert refused(bench) == ["not a member of the group"]


@both
def test_s15_a_group_goes_on_without_its_creator(variant: str) -> None:
    bench = m2mc_bench("ABCD", variant)
    group = members(bench, G, "A", "B", "C")
    bench.submit("A", b"", group)
    bench.settle()
    bench.crash("A")
    bench.submit("B", b"", group, "A1")
    bench.ask("D", m2mc.Advertise())
    bench.run(SECOND)
    join(bench, G, "D")
    bench.run(3 * SECOND)
    assert bench.delivered("C") == bench.delivered("D") == ["A1", "B1"]


@both
def test_a_reply_needs_a_parent_that_was_delivered(variant: str) -> None:
    """SB-S7: nobody answers what it has not seen."""
    bench = m2mc_bench("AB", variant)
    group = members(bench, G, "A", "B")
    assert bench.submit("A", b"", group, "B1") is None
    assert refused(bench) == ["the message that it answers was not delivered here"]


def test_the_published_variant_answers_an_advertisement_once_per_process() -> None:
    """Section 6 of the spec: one Adv and N lists, the advertiser's own included."""
    bench = m2mc_bench("ABCD", "published")
    bench.ask("A", m2mc.Advertise())
    bench.arrive_all()
    assert sent(bench, GroupList) == list("ABCD")


def test_a_repaired_process_without_groups_answers_no_advertisement() -> None:
    """M2-R7."""
    bench = m2mc_bench("AB", "repaired")
    bench.ask("A", m2mc.Advertise())
    bench.run(SECOND)
    assert sent(bench, Roster) == []


def test_the_paper_s_own_example_keeps_all_claims() -> None:
    """M2-V1 to V3 without disturbance: the counterexamples are needed to see anything wrong."""
    assert all_broken(after_v3()) == {}
