"""M3: hosts join and leave groups at run time (spec section 5, JOIN and LEAVE)."""

from __future__ import annotations

import pytest
from relm_bench import SECOND, VARIANTS, broken, leftovers, move, number, play, relm_bench

from castbed.testing import Bench
from castbed_plugins.relm import Join, Leave
from castbed_plugins.relm.packets import JoinAck, JoinRequest, LeaveAck, LeaveRequest

pytestmark = pytest.mark.parametrize("variant", VARIANTS)


def test_a_host_that_joined_starts_with_the_next_message_of_its_supervisor(variant: str) -> None:
    """JOIN: what came before is not delivered, and does not count as a gap."""
    bench = relm_bench(variant=variant)
    bench.submit("SH1", group=2)
    play(bench)
    bench.ask("c", Join("2"))
    assert play(bench) == ["c>~M2 JoinRequest", "M2>SH2 JoinRequest", "SH2>M2 JoinAck", "M2>~c JoinAck"]
    bench.submit("SH1", group=2)
    play(bench)
    assert bench.delivered("c") == ["SH1.2"]
    assert broken(bench) == {}


def test_a_host_that_left_delivers_nothing_more_and_nothing_waits_for_it(variant: str) -> None:
    """LEAVE: out of the members and of all pending sets; copies on their way are acknowledged and dropped."""
    bench = relm_bench(variant=variant)
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "c")
    bench.ask("c", Leave("1"))
    assert bench.machines["SH2"].pending
    play(bench)
    bench.submit("SH1")
    play(bench)
    assert bench.delivered("c") == []
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_leaving_releases_what_was_pending(variant: str) -> None:
    """LEAVE, before the host has seen the message at all."""
    bench = relm_bench(variant=variant)
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "c")
    bench.lose(lambda copy: copy.to == "c")
    bench.ask("c", Leave("1"))
    bench.settle(lambda copy: copy.to != "c")
    assert bench.machines["SH2"].pending == {}
    assert bench.machines["SH1"].awaiting == {}


def test_a_lost_request_or_answer_is_repeated(variant: str) -> None:
    bench = relm_bench(variant=variant)
    bench.ask("c", Join("2"))
    assert bench.lose(lambda copy: isinstance(copy.packet, JoinRequest)) == 1
    bench.expire("c", 2)
    bench.settle(lambda copy: copy.to != "c")
    assert bench.lose(lambda copy: isinstance(copy.packet, JoinAck)) == 1
    bench.run(SECOND)
    assert 2 in bench.machines["c"].groups
    bench.ask("c", Leave("2"))
    bench.settle(lambda copy: copy.to != "c")
    assert bench.lose(lambda copy: isinstance(copy.packet, LeaveAck)) == 1
    bench.run(SECOND)
    assert bench.machines["c"].outstanding == {}
    assert bench.timers == {}


def test_a_join_overtakes_the_leave_before_it(variant: str) -> None:
    """Reading: requests are numbered, and a late one is ignored."""
    bench = relm_bench(variant=variant)
    bench.ask("c", Leave("1"))
    late = bench.copies(LeaveRequest)
    bench.ask("c", Join("1"))
    bench.settle(lambda copy: copy not in late)
    bench.settle()
    assert number(bench, "c") in bench.machines["SH2"].members[1]
    bench.submit("SH1")
    play(bench)
    assert bench.delivered("c") == ["SH1.1"]


def test_a_host_keeps_its_groups_when_it_moves(variant: str) -> None:
    """Reading: HELLO carries them."""
    bench = relm_bench(variant=variant)
    bench.ask("c", Join("2"))
    bench.ask("c", Leave("1"))
    play(bench)
    move(bench, "c", "M1")
    play(bench)
    bench.submit("SH2", group=1)
    bench.submit("SH2", group=2)
    play(bench)
    assert [(message.group, message.mid.seqno) for message in bench.messages["c"]] == [(2, 1)]
    assert not bench.machines["SH2"].members[2]


def test_a_host_that_moves_while_it_joins_is_a_member_where_it_comes_to(variant: str) -> None:
    bench = relm_bench(variant=variant)
    bench.ask("c", Join("2"))
    bench.settle(lambda copy: copy.to != "c")
    move(bench, "c", "M1")
    bench.run(SECOND)
    bench.submit("SH2", group=2)
    play(bench)
    assert bench.delivered("c") == ["SH2.1"]
    assert leftovers(bench) == {}


def held_then_left(bench: Bench) -> None:
    """c holds the second message because the first was lost, and leaves."""
    bench.submit("SH1")
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "c")
    bench.lose(lambda copy: copy.to == "c" and copy.packet.mid.seqno == 1)
    bench.settle()
    bench.ask("c", Leave("1"))
    bench.settle()


def test_what_waited_when_a_host_left_is_not_owed_to_it_when_it_is_back(variant: str) -> None:
    bench = relm_bench(variant=variant)
    held_then_left(bench)
    bench.ask("c", Join("1"))
    bench.run(SECOND)
    bench.submit("SH1")
    bench.run(SECOND)
    assert bench.delivered("c") == ["SH1.3"]
    assert broken(bench) == {}
    assert leftovers(bench) == {}


def test_joining_twice_and_leaving_what_one_is_not_in_change_nothing(variant: str) -> None:
    bench = relm_bench(variant=variant)
    assert list(bench.ask("c", Join("1"))) == []
    assert list(bench.ask("c", Leave("2"))) == []
