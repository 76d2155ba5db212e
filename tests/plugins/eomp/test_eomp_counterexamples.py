"""Where EOMP as published breaks what the paper claims: for each, the shortest schedule we found and the step at fault.

All keep the paper's assumptions (reliable FIFO wires of any delay, a radio that may miss frames, nobody crashes) unless
the name says otherwise. `Net.play` refuses a copy that would overtake another on a wire.
"""

from __future__ import annotations

import pytest
from eomp_bench import G, Net

from castbed_plugins.eomp import Join
from castbed_plugins.eomp.host import T_NACK, T_REQ


def test_a_request_repeated_in_another_region_is_numbered_twice() -> None:
    """C-1, C-2 against E2, E7: the other coordinator accepts the bit until the SYNCSEQ reaches it."""
    net = Net()
    net.submit("a", b"x")
    net.settle_but("C1>C2", "M1~>a MCASTACK")
    assert net.lines() == ["C1>C2 SYNCSEQ(1,a)", "M1~>a MCASTACK(0,G)"]
    net.move("a", "M3")
    net.settle_but("C1>C2")
    net.expire("a", T_REQ)
    net.settle_but("C1>C2")
    net.settle(net.may_pass)
    assert [net.payloads(host) for host in "abc"] == ["x x"] * 3
    assert net.machines["T"].next_seq == {G: 3}
    assert set(net.broken()) == {"no_duplication", "exactly_once"}


def test_a_new_request_in_another_region_is_taken_for_a_duplicate() -> None:
    """C-1, C-2 against E1: acknowledged, for duplicates are, and never numbered."""
    net = Net()
    net.submit("a", b"x")
    net.settle_but("C1>C2")
    assert net.machines["a"].outstanding is None
    net.move("a", "M3")
    net.submit("a", b"y")
    net.settle_but("C1>C2")
    net.settle()
    assert (net.machines["a"].outstanding, len(net.machines["a"].send_queue)) == (None, 0)
    assert [net.payloads(host) for host in "abc"] == ["x"] * 3
    assert set(net.broken()) == {"validity", "exactly_once", "liveness"}


def test_a_late_copy_of_an_old_request_is_new_again_after_two_bits() -> None:
    """C-1 (R1) against E2, E7 and E1, within one region: one bit is too short for a path that changes."""
    net = Net()
    net.submit("a", b"x")
    net.expire("a", T_REQ)
    late = "M1>C1 MCASTREQ(x,G,a,{G:0},{},0)"
    net.play("a~>M1 MCASTREQ(x,G,{G:0},0)\na~>M1 MCASTREQ(x,G,{G:0},0)\n" + late)
    net.settle_but(late)
    assert net.lines() == [late]
    net.move("a", "M2")
    net.submit("a", b"y")
    net.settle_but(late)
    net.play(late)
    net.settle()
    net.submit("a", b"z")
    net.settle()
    assert [net.payloads(host) for host in "abc"] == ["x y x"] * 3
    assert set(net.broken()) == {"no_duplication", "exactly_once", "validity", "liveness"}


def test_a_late_acknowledgement_stands_for_a_request_that_nobody_heard() -> None:
    """MH-3 against E1. Needs a radio on which copies overtake each other, which the paper does not exclude."""
    net = Net()
    net.submit("a", b"x")
    net.expire("a", T_REQ)
    net.settle_but("M1~>a MCASTACK")
    net.play("M1~>a MCASTACK(0,G)")
    net.submit("a", b"y")
    net.settle_but("MCASTACK(0,G)")
    net.submit("a", b"z")
    net.play("lost a~>M1 MCASTREQ(z,G,{G:2},0)\nM1~>a MCASTACK(0,G)")
    net.settle()
    assert net.machines["a"].outstanding is None
    assert [net.payloads(host) for host in "abc"] == ["x y"] * 3
    assert set(net.broken()) == {"validity", "exactly_once", "liveness"}


def lacking_one(messages: tuple[bytes, ...]) -> Net:
    """a misses m2 and hears the others; all copies for it are still on the air."""
    net = Net().after(1)
    for payload in (b"m2", *messages):
        net.submit("c", payload)
        net.settle_but("M1~>a MCASTDEL")
    net.play("lost M1~>a MCASTDEL(m2,2,G)")
    return net


def test_two_reports_of_one_gap_bring_two_copies() -> None:
    """MH-7 step 6 and MSS-4 against E5, E6: the second report was sent before the first was answered."""
    net = lacking_one((b"m3", b"m4"))
    net.rest("""
        M1~>a MCASTDEL(m3,3,G)
        M1~>a MCASTDEL(m4,4,G)
        a~>M1 NACK({G:1})
        M1>C1 NACK({G:1},a)
        C1>M1 RETRANS(m2,2,G,a)
        M1~>a RETRANS(m2,2,G)
        a~>M1 NACK({G:1})
        M1>C1 NACK({G:1},a)
        C1>M1 RETRANS(m2,2,G,a)
        M1~>a RETRANS(m2,2,G)
    """)
    assert net.radio_duplicates() == ["a c2"]
    assert net.broken() == {}


def test_a_copy_in_the_new_cell_before_the_greetack_costs_a_second_one() -> None:
    """MH-7 step 2 (R9) against E5: the radio decoded the first copy, too."""
    net = Net().after(1)
    net.move("a", "M3")
    net.submit("c", b"m2")
    net.settle_but("GREET")
    net.settle()
    assert net.count("M3~>a MCASTDEL(m2") == net.count("M3~>a RETRANS(m2") == 1
    assert net.broken() == {}


def test_a_message_is_released_before_a_coordinator_hears_of_the_joiner_that_lacks_it() -> None:
    """C-6, C-8, C-11 against E1, E11, E12: the joiner moves faster than the INSERT."""
    net = Net(members="c")
    net.ask("b", Join("1"))
    net.settle_but("C1>C2")
    assert net.machines["b"].last_seq_recv == {G: 0}
    net.submit("c", b"m1")
    net.settle_but("C1>C2", "M2~>b MCASTDEL")
    net.move("b", "M3")
    net.expire("c", T_NACK)
    net.settle_but("C1>C2", "b~>M3")
    assert net.buffered("C2") == []
    net.settle(net.may_pass)
    net.submit("c", b"m2")
    net.settle(net.may_pass)
    for _ in range(3):
        net.expire("b", T_NACK)
        net.settle(net.may_pass)
    assert net.payloads("b") == ""
    assert sorted(net.machines["b"].reorder[G]) == [2]
    assert set(net.broken()) == {"liveness"}


def test_order_is_by_group_only() -> None:
    """R20: the check `total` asks for one order over all groups, which per-group numbers do not give."""
    net = Net(groups={1: "ab", 2: "ab"})
    net.submit("a", b"x", group=1)
    net.settle_but("M2~>b MCASTDEL(x")
    net.play("lost M2~>b MCASTDEL(x,1,G)")
    net.submit("a", b"y", group=2)
    net.settle()
    net.expire("b", T_NACK)
    net.settle()
    assert (net.payloads("a"), net.payloads("b")) == ("x y", "y x")
    assert set(net.broken()) == {"total"}


@pytest.mark.parametrize("node", ["C1", "T"])
def test_a_coordinator_or_sequencer_that_crashes_ends_the_guarantees(node: str) -> None:
    """A2 is needed: nothing of theirs is kept, and no need of the network can say so."""
    net = Net()
    net.submit("a", b"x")
    net.settle()
    net.crash(node)
    net.start(node)
    net.submit("a", b"y")
    net.settle()
    assert [net.payloads(host) for host in "abc"] == ["x"] * 3
    assert set(net.broken()) == {"validity", "exactly_once", "liveness"}


def test_a_host_that_crashes_ends_the_guarantees() -> None:
    """A4 is needed: in its new life the host begins with bit 0 and with nothing received."""
    net = Net()
    net.submit("a", b"x")
    net.settle()
    net.crash("a")
    net.start("a")
    net.submit("a", b"y")
    net.settle()
    assert (net.payloads("b"), net.payloads("c")) == ("x", "x")
    assert set(net.broken()) == {"exactly_once", "liveness"}
