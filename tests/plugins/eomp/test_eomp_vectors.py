"""The worked examples of the spec as golden transcripts: TV1 to TV12 (TV13 is about the radio channel of section 5)."""

from __future__ import annotations

from eomp_bench import HOME, SECOND, G, Net

from castbed import Received
from castbed_plugins.eomp import Join, Leave, Options
from castbed_plugins.eomp.coordinator import T_SYNC
from castbed_plugins.eomp.host import T_GREET, T_JOIN, T_NACK, T_REQ
from castbed_plugins.eomp.packets import JoinAck

REQUEST = """
    a~>M1 MCASTREQ(p,G,{G:0},0)
    M1>C1 MCASTREQ(p,G,a,{G:0},{},0)
    C1>M1 MCASTACK(0,G,a)
    C1>C2 SYNCSEQ(1,a)
    C1>T MCASTSEQ(p,G)
    T>C1 MCASTDEL(p,1,G)
    T>C2 MCASTDEL(p,1,G)
    C1>M1 MCASTDEL(p,1,G)
    C1>M2 MCASTDEL(p,1,G)
    C2>M3 MCASTDEL(p,1,G)
"""
AIRED = """
    M1~>a MCASTDEL(p,1,G)
    M2~>b MCASTDEL(p,1,G)
    M3~>c MCASTDEL(p,1,G)
"""


def in_flight_for_a_handoff(got_it: bool, new_cell_too: bool) -> Net:
    """TV4 to TV7: message 2 is on its way when a leaves M1 for M3."""
    net = Net().after(1)
    net.submit("c", b"m2")
    net.settle_but("M1~>a MCASTDEL", "C2>M3 MCASTDEL")
    net.play("M1~>a MCASTDEL(m2,2,G)" if got_it else "lost M1~>a MCASTDEL(m2,2,G)")
    if new_cell_too:
        net.settle()
    net.move("a", "M3")
    return net


def assert_registered_at_m3(net: Net) -> None:
    """The end that TV4 to TV7 have in common."""
    a = net.machines["a"]
    assert (a.my_mss, a.my_coord, a.greeting) == (net.number("M3"), net.number("C2"), 0)
    assert not net.flag("M1", "retrans_needed", "a")
    assert not net.flag("M1", "mcast_flag", "a")
    assert net.last() == [2, 2, 2]
    assert [net.payloads(host) for host in "abc"] == ["m1 m2"] * 3
    assert net.count("CANCEL") == 1
    assert net.broken() == {}


def test_tv1_plain_multicast() -> None:
    """E1 to E4, E14."""
    net = Net()
    net.heard.clear()
    net.submit("a", b"p")
    assert ("a", T_REQ) in net.timers
    net.play(REQUEST)
    assert net.flag("M1", "mcast_flag", "a") is True
    assert not net.flag("M1", "retrans_needed", "a")
    assert [net.machines[c].rx_seq[net.number("a")] for c in ("C1", "C2")] == [1, 1]
    assert net.acked("C1", "a") == {G: 0}
    assert net.number("a") in net.machines["C1"].dirty_hosts
    assert net.machines["T"].next_seq == {G: 2}
    assert [net.machines[c].seq_sent for c in ("C1", "C2", "M1", "M2", "M3")] == [{G: 1}] * 5
    assert net.buffered("C1") == net.buffered("C2") == [1]
    net.play("M1~>a MCASTACK(0,G)")
    a = net.machines["a"]
    assert (a.tx_seq, a.outstanding) == (1, None)
    assert ("a", T_REQ) not in net.timers
    net.rest(AIRED)
    assert net.last() == [1, 1, 1]
    assert not any(a.reorder.values())
    assert [net.payloads(host) for host in "abc"] == ["p"] * 3
    assert len(net.heard) == 2 + 3 + 4 + 5
    assert net.broken() == {}


def test_tv2_lost_mcastack() -> None:
    """E7: the repeated request is acknowledged and not numbered again."""
    net = Net()
    net.submit("a", b"p")
    net.play(REQUEST + "lost M1~>a MCASTACK(0,G)" + AIRED)
    assert net.machines["a"].tx_seq == 0
    net.expire("a", T_REQ)
    assert net.now == 25_000_000
    net.rest("""
        a~>M1 MCASTREQ(p,G,{G:1},0)
        M1>C1 MCASTREQ(p,G,a,{G:1},{G:1},0)
        C1>M1 MCASTACK(0,G,a)
        M1~>a MCASTACK(0,G)
    """)
    assert not net.flag("M1", "retrans_needed", "a")
    assert net.acked("C1", "a") == {G: 1}
    assert (net.machines["a"].tx_seq, net.machines["a"].outstanding) == (1, None)
    assert net.machines["T"].next_seq == {G: 2}
    assert net.broken() == {}


def test_tv3_out_of_order_arrival_and_nack() -> None:
    """E1, E4."""
    net = Net().after(1)
    for payload in (b"m2", b"m3"):
        net.submit("c", payload)
        net.settle_but("M1~>a MCASTDEL")
    net.rest("""
        lost M1~>a MCASTDEL(m2,2,G)
        M1~>a MCASTDEL(m3,3,G)
        a~>M1 NACK({G:1})
        M1>C1 NACK({G:1},a)
        C1>M1 RETRANS(m2,2,G,a)
        M1~>a RETRANS(m2,2,G)
    """)
    assert net.flag("M1", "retrans_needed", "a") is False
    assert net.acked("C1", "a") == {G: 1}
    assert net.payloads("a") == "m1 m2 m3"
    assert net.last() == [3, 3, 3]
    assert net.machines["a"].reorder == {G: {}}
    assert net.broken() == {}


def test_tv3b_a_gap_of_two_needs_two_reports() -> None:
    """R6: one retransmission per report; the other number waits for T_NACK."""
    net = Net().after(1)
    for payload in (b"m2", b"m3", b"m4"):
        net.submit("c", payload)
        net.settle_but("M1~>a MCASTDEL")
    net.play("lost M1~>a MCASTDEL(m2,2,G)\nlost M1~>a MCASTDEL(m3,3,G)\nM1~>a MCASTDEL(m4,4,G)")
    net.settle()
    assert net.last("a") == [2]
    assert sorted(net.machines["a"].reorder[G]) == [4]
    net.expire("a", T_NACK)
    net.settle()
    assert net.payloads("a") == "m1 m2 m3 m4"


def test_tv4_a_host_ahead_of_its_new_cell_is_registered_when_the_cell_has_caught_up() -> None:
    """Lemma 1, case 1; E2, E10."""
    net = in_flight_for_a_handoff(got_it=True, new_cell_too=False)
    net.play("a~>M3 GREET(M1,C1,{G:2})\nM3>M1 CANCEL(a)")
    assert list(net.machines["M3"].held_greets) == [net.number("a")]
    assert net.lines() == ["C2>M3 MCASTDEL(m2,2,G)"]
    net.rest("""
        C2>M3 MCASTDEL(m2,2,G)
        M3~>a MCASTDEL(m2,2,G)
        M3~>c MCASTDEL(m2,2,G)
        M3>C2 GREET(a,{G:2},{G:2},C1)
        C2>M3 GREETACK(a)
        M3~>a GREETACK({G:2},C2)
    """)
    assert net.acked("C2", "a") == {G: 2}
    assert net.count("RETRANS") == 0
    assert_registered_at_m3(net)


def test_tv5_what_is_aired_before_the_greetack_is_ignored_and_asked_for() -> None:
    """Lemma 1, case 2, the note on the order; R7, R9."""
    net = in_flight_for_a_handoff(got_it=False, new_cell_too=False)
    net.rest("""
        a~>M3 GREET(M1,C1,{G:1})
        M3>M1 CANCEL(a)
        M3>C2 GREET(a,{G:1},{G:1},C1)
        C2>M3 MCASTDEL(m2,2,G)
        C2>M3 GREETACK(a)
        M3~>a MCASTDEL(m2,2,G)
        M3~>c MCASTDEL(m2,2,G)
        M3~>a GREETACK({G:2},C2)
        a~>M3 NACK({G:1})
        M3>C2 NACK({G:1},a)
        C2>M3 RETRANS(m2,2,G,a)
        M3~>a RETRANS(m2,2,G)
    """)
    assert_registered_at_m3(net)


def test_tv5_a_host_level_with_its_new_cell_hears_the_message_there() -> None:
    """Lemma 1, case 2."""
    net = Net().after(1)
    net.submit("c", b"m2")
    net.settle_but("M1~>a MCASTDEL", "T>C2 MCASTDEL")
    net.play("lost M1~>a MCASTDEL(m2,2,G)")
    net.move("a", "M3")
    net.rest("""
        a~>M3 GREET(M1,C1,{G:1})
        M3>M1 CANCEL(a)
        M3>C2 GREET(a,{G:1},{G:1},C1)
        C2>M3 GREETACK(a)
        M3~>a GREETACK({G:1},C2)
        T>C2 MCASTDEL(m2,2,G)
        C2>M3 MCASTDEL(m2,2,G)
        M3~>a MCASTDEL(m2,2,G)
        M3~>c MCASTDEL(m2,2,G)
    """)
    assert net.acked("C2", "a") == {G: 1}
    assert net.count("RETRANS") == 0
    assert_registered_at_m3(net)


def test_tv6_a_host_and_a_cell_that_both_have_the_message_need_nothing() -> None:
    """Lemma 1, case 3."""
    net = in_flight_for_a_handoff(got_it=True, new_cell_too=True)
    net.rest("""
        a~>M3 GREET(M1,C1,{G:2})
        M3>M1 CANCEL(a)
        M3>C2 GREET(a,{G:2},{G:2},C1)
        C2>M3 GREETACK(a)
        M3~>a GREETACK({G:2},C2)
    """)
    assert_registered_at_m3(net)


def test_tv7_a_host_behind_its_new_cell_gets_a_retransmission() -> None:
    """Lemma 1, case 4."""
    net = in_flight_for_a_handoff(got_it=False, new_cell_too=True)
    net.rest("""
        a~>M3 GREET(M1,C1,{G:1})
        M3>M1 CANCEL(a)
        M3>C2 GREET(a,{G:1},{G:2},C1)
        C2>M3 RETRANS(m2,2,G,a)
        C2>M3 GREETACK(a)
        M3~>a RETRANS(m2,2,G)
        M3~>a GREETACK({G:2},C2)
    """)
    assert net.flag("M3", "retrans_needed", "a") is False
    assert_registered_at_m3(net)


def test_tv8_an_oscillating_host_gets_one_copy_because_of_cancel() -> None:
    """Figure 2 of the paper; E5."""
    net = Net().after(1)
    for payload in (b"m2", b"m3"):
        net.submit("c", payload)
        net.settle_but("M1~>a MCASTDEL")
    net.play("""
        lost M1~>a MCASTDEL(m2,2,G)
        M1~>a MCASTDEL(m3,3,G)
        a~>M1 NACK({G:1})
    """)
    assert net.flag("M1", "retrans_needed", "a") is True
    net.move("a", "M3")
    net.play("a~>M3 GREET(M1,C1,{G:1})")
    assert net.flag("M3", "retrans_needed", "a") is True
    net.play("M3>M1 CANCEL(a)")
    assert (net.flag("M1", "retrans_needed", "a"), net.flag("M1", "mcast_flag", "a")) == (False, False)
    net.rest("""
        M1>C1 NACK({G:1},a)
        C1>M1 RETRANS(m2,2,G,a)
        M3>C2 GREET(a,{G:1},{G:3},C1)
        C2>M3 RETRANS(m2,2,G,a)
        C2>M3 GREETACK(a)
        M3~>a RETRANS(m2,2,G)
        M3~>a GREETACK({G:3},C2)
    """)
    assert net.last("a") == [3]
    net.move("a", "M1")
    net.rest("""
        a~>M1 GREET(M3,C2,{G:3})
        M1>M3 CANCEL(a)
        M1>C1 GREET(a,{G:3},{G:3},C2)
        C1>M1 GREETACK(a)
        M1~>a GREETACK({G:3},C1)
    """)
    copies = [net.count(f"~>a {tag}(m{k},") for k in (2, 3) for tag in ("MCASTDEL", "RETRANS")]
    assert copies == [0, 1, 1, 0]
    assert net.broken() == {}


def crashed_before_forwarding() -> Net:
    """TV9: M1 goes with the request of a, and with its copy of message 2."""
    net = Net().after(1)
    net.submit("a", b"x")
    net.crash("M1")
    net.submit("c", b"m2")
    net.settle()
    assert [net.payloads(host) for host in "abc"] == ["m1", "m1 m2", "m1 m2"]
    return net


def test_tv9a_station_crash_the_host_moves() -> None:
    """E8."""
    net = crashed_before_forwarding()
    net.move("a", "M2")
    net.rest("""
        a~>M2 GREET(M1,C1,{G:1})
        M2>C1 GREET(a,{G:1},{G:2},C1)
        C1>M2 RETRANS(m2,2,G,a)
        C1>M2 GREETACK(a)
        M2~>a RETRANS(m2,2,G)
        M2~>a GREETACK({G:2},C1)
    """)
    assert net.machines["a"].my_mss == net.number("M2")
    net.expire("a", T_REQ)
    net.play("a~>M2 MCASTREQ(x,G,{G:2},0)")
    net.settle()
    assert [net.payloads(host) for host in "abc"] == ["m1 m2 x"] * 3
    assert net.broken() == {}


def test_tv9b_station_crash_a_replacement_comes() -> None:
    """E8; how the replacement learns its state is ours (MSS-11)."""
    net = crashed_before_forwarding()
    net.start("M1")
    net.rest("M1>C1 REPLACED()\nC1>M1 RESTORED({G:2},G)")
    m1 = net.machines["M1"]
    assert (m1.seq_sent, m1.served_groups) == ({G: 2}, {G})
    assert (m1.retrans_needed, m1.mcast_flag) == ({}, {})
    net.expire("a", T_NACK)
    net.rest("""
        a~>M1 NACK({G:1})
        M1>C1 NACK({G:1},a)
        C1>M1 RETRANS(m2,2,G,a)
        M1~>a RETRANS(m2,2,G)
    """)
    net.expire("a", T_REQ)
    net.settle()
    assert [net.payloads(host) for host in "abc"] == ["m1 m2 x"] * 3
    assert net.broken() == {}


def with_a_newcomer() -> Net:
    net = Net({**HOME, "d": "M1"}).after(3)
    net.ask("d", Join("1"))
    return net


JOINED = """
    d~>M1 JOIN(G)
    M1>C1 JOIN(d,G)
    C1>C2 INSERT(d,G)
    C1>M1 JOINACK(d,G)
"""


def test_tv10_join() -> None:
    """E11: a joiner starts right after the number it is told."""
    net = with_a_newcomer()
    net.rest(JOINED + "M1~>d JOINACK(G,{G:3})")
    d = net.machines["d"]
    assert (d.last_seq_recv, d.my_mss) == ({G: 3}, net.number("M1"))
    assert all(net.number("d") in net.machines[c].member_set[G] for c in ("C1", "C2"))
    net.submit("c", b"m4")
    net.settle()
    assert net.payloads("d") == "m4"
    assert net.broken() == {}


def test_tv10_a_repeated_join_is_answered_and_not_told_again() -> None:
    net = with_a_newcomer()
    net.play(JOINED + "lost M1~>d JOINACK(G,{G:3})")
    net.expire("d", (T_JOIN, G))
    net.rest("d~>M1 JOIN(G)\nM1>C1 JOIN(d,G)\nC1>M1 JOINACK(d,G)\nM1~>d JOINACK(G,{G:3})")
    net.submit("c", b"m4")
    net.settle()
    net.step("d", Received(JoinAck(G, ((G, 3),)), net.number("M1")))
    assert net.machines["d"].last_seq_recv == {G: 4}


def test_tv11_leave() -> None:
    """E11, R18."""
    net = with_a_newcomer()
    net.settle()
    net.submit("c", b"m4")
    net.settle()
    net.ask("d", Leave("1"))
    net.rest("""
        d~>M1 LEAVE(G)
        M1>C1 LEAVE(d,G)
        C1>C2 DELETE(d,G)
        C1>M1 LEAVEACK(d,G)
        M1~>d LEAVEACK(G,{G:4})
    """)
    assert net.machines["d"].last_seq_recv == {}
    assert not any(net.number("d") in net.machines[c].member_set[G] for c in ("C1", "C2"))
    net.submit("c", b"m5")
    net.settle()
    assert net.payloads("d") == "m4"
    assert net.machines["M1"].served_groups == {G}
    assert net.broken() == {}


def test_tv12_buffers_are_released_by_syncack() -> None:
    """E12."""
    net = Net().after(3)
    for host in "abc":
        net.expire(host, T_NACK)
    net.settle()
    assert net.count("RETRANS") == 0
    assert (net.acked("C1", "a"), net.acked("C1", "b"), net.acked("C1", "c")) == ({G: 3}, {G: 3}, None)
    assert net.buffered("C1") == net.buffered("C2") == [1, 2, 3]
    net.expire("C1", T_SYNC)
    net.rest("C1>C2 SYNCACK({a:{G:3},b:{G:3}})")
    assert (net.buffered("C1"), net.buffered("C2")) == ([1, 2, 3], [])
    net.expire("C2", T_SYNC)
    net.rest("C2>C1 SYNCACK({c:{G:3}})")
    assert net.buffered("C1") == []
    net.expire("C1", T_SYNC)
    net.expire("C2", T_SYNC)
    assert net.lines() == []


def test_tv12_a_host_out_of_range_keeps_the_buffers_full() -> None:
    """E12: nothing is dropped that somebody lacks."""
    net = Net()
    net.move("a", None)
    net.after(3)
    net.run(5 * SECOND)
    assert net.buffered("C1") == net.buffered("C2") == [1, 2, 3]
    net.move("a", "M2")
    net.run(5 * SECOND)
    assert net.buffered("C1") == net.buffered("C2") == []
    assert net.payloads("a") == "m1 m2 m3"


def test_an_unanswered_greet_is_repeated() -> None:
    """MH-5."""
    net = Net().after(1)
    net.move("a", "M3")
    net.play("lost a~>M3 GREET(M1,C1,{G:1})")
    net.expire("a", T_GREET)
    net.play("a~>M3 GREET(M1,C1,{G:1})")
    net.settle()
    assert net.machines["a"].my_mss == net.number("M3")
    assert ("a", T_GREET) not in net.timers


def test_a_station_with_a_cache_answers_itself() -> None:
    """MSS-4, first step (R12): a hit is not forwarded."""
    net = Net(options=Options(cache_size=1)).after(1)
    net.submit("c", b"m2")
    net.settle_but("M1~>a MCASTDEL")
    net.play("lost M1~>a MCASTDEL(m2,2,G)")
    net.expire("a", T_NACK)
    net.rest("a~>M1 NACK({G:1})\nM1~>a RETRANS(m2,2,G)")
    assert list(net.machines["M1"].cache) == [(G, 2)]
    assert net.payloads("a") == "m1 m2"
