"""The schedules that break EOMP as published (`test_eomp_counterexamples.py`), and crashes: repaired, all holds."""

from __future__ import annotations

import pytest
from eomp_bench import G
from repaired_bench import RepairedNet

from castbed_plugins.eomp import Join, Leave, Options
from castbed_plugins.eomp.repaired import Missed
from castbed_plugins.eomp.repaired.host import T_GAP, T_NACK, T_REQ

UNHEARD = ("M1~>a Taken", "M1~>a Numbered")


def test_a_request_repeated_in_another_region_is_numbered_once() -> None:
    """1, E7: whoever leads knows which requests have numbers."""
    net = RepairedNet()
    net.submit("a", b"x")
    net.settle_but("C1>C2", *UNHEARD)
    net.move("a", "M3")
    net.settle_but("C1>C2", *UNHEARD)
    assert net.count("M3>C2 Request(a1)") == 1
    net.settle(net.may_pass)
    net.lose()
    net.pass_time(3)
    net.all_have("x")
    assert net.machines["T"].ledger.sent() == {G: 1}
    assert net.broken() == {}


def test_a_new_request_in_another_region_is_not_taken_for_a_duplicate() -> None:
    """2, E1."""
    net = RepairedNet()
    net.submit("a", b"x")
    net.settle_but("C1>C2")
    net.move("a", "M3")
    net.submit("a", b"y")
    net.settle_but("C1>C2")
    net.settle()
    net.all_have("x y")
    assert net.broken() == {}


def test_a_late_copy_of_an_old_request_stays_old() -> None:
    """3, E7: numbers do not repeat as a bit does."""
    net = RepairedNet()
    net.submit("a", b"x")
    net.expire("a", T_REQ)
    late = "M1>C1 Request(a1)"
    net.play(f"a~>M1 Request(a1)\na~>M1 Request(a1)\n{late}")
    net.settle_but(late)
    net.move("a", "M2")
    net.submit("a", b"y")
    net.settle_but(late)
    net.play(late)
    net.settle(net.may_pass)
    net.submit("a", b"z")
    net.settle(net.may_pass)
    net.all_have("x y z")
    assert net.broken() == {}


def test_a_late_acknowledgement_stands_for_its_own_request_only() -> None:
    """4, E1."""
    net = RepairedNet(members="bc", options=Options(window=1))
    net.submit("a", b"x")
    net.settle_but("M1~>a Taken")
    net.expire("a", T_REQ)
    net.settle_but("M1~>a Taken")
    net.play("M1~>a Taken(a1)")
    net.submit("a", b"y")
    net.settle_but("Taken(a1)")
    net.submit("a", b"z")
    net.play("lost a~>M1 Request(a3)\nM1~>a Taken(a1)")
    net.settle()
    assert net.machines["a"].outbox.messages == 1
    net.expire("a", T_REQ)
    net.settle()
    net.all_have("x y z", "bc")
    assert net.broken() == {}


def test_a_gap_that_two_messages_show_brings_one_copy() -> None:
    """5, E5, E6: a report is not repeated before its answer can be there."""
    net = RepairedNet().after(1)
    for payload in (b"m2", b"m3", b"m4"):
        net.submit("c", payload)
        net.settle_but("M1~>a Numbered")
    net.play("lost M1~>a Numbered(c2,2)")
    net.settle()
    net.all_have("m1 m2 m3 m4")
    assert net.count("M1~>a Repeat") == 1
    assert net.radio_duplicates() == []


def test_a_copy_in_the_new_cell_counts_before_the_host_is_registered() -> None:
    """5, R9."""
    net = RepairedNet().after(1)
    net.move("a", "M3")
    net.submit("c", b"m2")
    net.settle_but("Enter")
    net.all_have("m1 m2")
    net.settle()
    assert net.count("M3~>a Numbered(c2") == 1
    assert net.broken() == {}


def test_no_message_is_released_before_a_joiner_that_lacks_it_has_it() -> None:
    """6, E11, E12: joining has its place among the numbers, so nobody is behind the joiner."""
    net = RepairedNet(members="c")
    net.ask("b", Join("1"))
    net.settle_but("C1>C2")
    net.submit("c", b"m1")
    net.settle_but("C1>C2", "M2~>b Numbered")
    net.lose(lambda copy: "M2~>b" in net.line(copy))
    net.move("b", "M3")
    net.expire("c", T_NACK)
    net.settle_but("C1>C2", "b~>M3")
    net.pass_time(3)
    net.submit("c", b"m2")
    net.pass_time(3)
    net.all_have("m1 m2", "bc")
    assert net.broken() == {}


def test_there_is_one_order_over_all_groups() -> None:
    """7: y names x as what group 1 had before, so b waits."""
    net = RepairedNet(groups={1: "ab", 2: "ab"})
    net.submit("a", b"x", group=1)
    net.settle_but("M2~>b Numbered")
    net.lose(lambda copy: net.line(copy).startswith("M2~>b"))
    net.submit("a", b"y", group=2)
    net.settle_but("b~>M2 Report")
    assert (net.payloads("a"), net.payloads("b")) == ("x y", "")
    net.settle()
    assert net.payloads("b") == "x y"
    assert net.broken() == {}


@pytest.mark.parametrize("node", ["C1", "C2", "T"])
def test_a_coordinator_or_the_sequencer_may_crash_and_come_back(node: str) -> None:
    """A2 is not needed any more."""
    net = RepairedNet()
    net.submit("a", b"x")
    net.settle()
    net.crash(node)
    net.submit("a", b"y")
    net.pass_time(3)
    net.all_have("x y")
    net.start(node)
    net.pass_time(3)
    net.submit("a", b"z")
    net.pass_time(1)
    net.all_have("x y z")
    assert {machine.ledger.number for name, machine in net.machines.items() if name in ("T", "C1", "C2")} == {3}
    assert net.broken() == {}


def test_a_host_that_comes_back_with_its_storage_is_caught_up() -> None:
    """A4 is not needed any more: what it delivered is not delivered again, what it lacks comes."""
    net = RepairedNet()
    net.submit("a", b"x")
    net.settle()
    net.submit("a", b"y")
    net.lose()
    net.crash("a")
    net.submit("b", b"z")
    net.settle()
    net.start("a")
    net.submit("a", b"w")
    net.pass_time(3)
    net.all_have("x z y w")
    assert net.notices["a"] == []
    assert net.broken() == {}


def test_a_host_that_lost_its_storage_is_told_what_it_will_not_get() -> None:
    net = RepairedNet()
    net.submit("a", b"x")
    net.settle()
    net.crash("a", keep_storage=False)
    net.submit("b", b"y")
    net.settle()
    net.start("a")
    net.pass_time(1)
    net.submit("a", b"z")
    net.pass_time(1)
    assert net.notices["a"] == [Missed(G, 2)]
    net.all_have("x y z", "bc")
    assert net.payloads("a") == "x z"
    assert net.broken() == {}


def test_a_host_that_lost_its_storage_is_no_member_of_what_it_joined_before() -> None:
    """Otherwise messages would be kept for it for ever."""
    net = RepairedNet(members="bc")
    net.ask("a", Join("1"))
    net.pass_time(1)
    assert net.number("a") in net.machines["C2"].ledger.members[G]
    net.crash("a", keep_storage=False)
    net.start("a")
    net.pass_time(3)
    assert net.number("a") not in net.machines["C2"].ledger.members[G]


def test_a_host_that_crashes_while_it_joins_goes_on_with_that() -> None:
    net = RepairedNet(members="bc")
    net.ask("a", Join("1"))
    net.lose()
    net.crash("a")
    net.start("a")
    net.submit("b", b"x")
    net.pass_time(1)
    net.submit("b", b"y")
    net.pass_time(1)
    assert net.payloads("a").endswith("y")
    net.ask("a", Leave("1"))
    net.pass_time(1)
    assert net.machines["a"].inbox.last == {}
    net.crash("a")
    net.start("a")
    net.submit("b", b"z")
    net.pass_time(2)
    assert net.payloads("a").endswith("y")


def test_an_open_gap_is_reported_again_until_it_is_closed() -> None:
    net = RepairedNet().after(1)
    for payload in (b"m2", b"m3"):
        net.submit("c", payload)
        net.settle_but("M1~>a Numbered")
    net.play("lost M1~>a Numbered(c2,2)")
    net.settle_but("M1~>a Repeat")
    for _ in range(3):
        net.lose(lambda copy: "M1~>a Repeat" in net.line(copy))
        net.expire("a", T_GAP)
        net.settle_but("M1~>a Repeat")
    net.settle()
    net.all_have("m1 m2 m3")


def test_a_message_that_waits_for_a_group_joined_meanwhile_gets_what_it_waits_for() -> None:
    """What a held message waits for may belong to a group that was not this host's when the message came."""
    net = RepairedNet(groups={1: "ac", 2: "c"})
    net.submit("c", b"x", group=1)
    net.settle_but("M1~>a Numbered")
    net.ask("a", Join("2"))
    net.settle_but("M1~>a")
    net.submit("c", b"y", group=2)
    net.settle_but("M1~>a")
    net.submit("c", b"z", group=1)
    net.settle_but("M1~>a")
    net.play("lost M1~>a Numbered(c1,1)\nlost M1~>a Numbered(c2,1)\nM1~>a Numbered(c3,2)")
    net.settle()
    net.pass_time(1)
    assert net.payloads("a") == "x y z"
    assert net.broken() == {}
