"""Where the published variant is wrong: minimal schedules, all legal under M2-A1 to M2-A8, and the check each breaks.

The repaired variant stands every one of them: at the end all that it guarantees holds.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from m2mc_bench import SECOND, all_broken, broken, create, gid, join, m2mc_bench, members

from castbed.testing import Bench, Copy
from castbed.wire import FrameTooLargeError
from castbed_plugins import m2mc
from castbed_plugins.m2mc.packets import Data, Join, Leave, Roster

G = "1.A"
QUIET = 10 * SECOND
Schedule = Callable[[Bench], None]


def hold_back(bench: Bench, late: Callable[[Copy], bool]) -> list[Copy]:
    """Take copies out of the air, for `let_go`: they are slow, not lost."""
    slow = [copy for copy in bench.in_flight if late(copy)]
    bench.lose(late)
    return slow


def let_go(bench: Bench, slow: list[Copy]) -> None:
    bench.in_flight += slow
    bench.settle()


def data_to(*names: str) -> Callable[[Copy], bool]:
    return lambda copy: isinstance(copy.packet, Data) and copy.to in names


def leave(bench: Bench, *nodes: str) -> None:
    for node in nodes:
        bench.ask(node, m2mc.LeaveGroup(G))


def rejoin(bench: Bench, node: str) -> None:
    """As a user does: advertise, get the offer, accept it."""
    bench.ask(node, m2mc.Advertise())
    bench.run(2 * SECOND)
    join(bench, G, node)
    bench.run(2 * SECOND)


# --- the schedules ---------------------------------------------------------------------------------------------------


def a_copy_arrives_after_the_message_was_recovered(bench: Bench) -> None:
    """C's copy of A1 is slow; C joins and gets A1 in a response; then the copy arrives."""
    group = members(bench, G, "A", "B")
    bench.submit("A", b"", group)
    slow = hold_back(bench, data_to("C"))
    bench.settle()
    join(bench, G, "C")
    bench.run(2 * SECOND)
    let_go(bench, slow)


def a_member_that_joined_again_counts_from_one(bench: Bench) -> None:
    """B sends, leaves, joins again and sends: its counter died with the first membership."""
    group = members(bench, G, "A", "B")
    bench.submit("B", b"first", group)
    bench.settle()
    leave(bench, "B")
    bench.settle()
    rejoin(bench, "B")
    bench.submit("B", b"second", group)
    bench.settle()


def a_member_that_joined_again_stays_departed(bench: Bench) -> None:
    """B leaves and joins again; the next list that is merged takes B out, for it is still among the departed."""
    members(bench, G, "A", "B")
    leave(bench, "B")
    bench.settle()
    rejoin(bench, "B")
    bench.ask("A", m2mc.Advertise())
    bench.settle()


def a_member_that_joined_again_asks_in_vain(bench: Bench) -> None:
    """B's request after joining again has number 1, which A answered when B was a member before."""
    group = members(bench, G, "A", "B")
    leave(bench, "B")
    bench.settle()
    bench.submit("A", b"", group)
    bench.settle()
    rejoin(bench, "B")


def an_open_answer_outlives_the_membership_that_asked(bench: Bench) -> None:
    """A's counter for B's first request still runs when B has left and joined again: the answer is as old as it."""
    group = create(bench, "A")
    bench.settle()
    join(bench, G, "B")
    bench.settle()
    leave(bench, "B")
    bench.settle()
    bench.submit("A", b"", group)
    bench.settle()
    join(bench, G, "B")
    bench.settle()


def a_message_passes_a_joiner_on_both_sides(bench: Bench) -> None:
    """A1 reaches B before B joins and A itself only after A has answered B's request."""
    group = create(bench, "A")
    bench.settle()
    bench.submit("A", b"", group)
    slow = hold_back(bench, data_to("A"))
    bench.settle()
    join(bench, G, "B")
    bench.run(2 * SECOND)
    let_go(bench, slow)


def a_message_passes_a_member_that_returns(bench: Bench) -> None:
    """A1 is sent while C is away, and reaches A and B only after they have answered C's request."""
    group = members(bench, G, "A", "B", "C")
    bench.away("C")
    bench.submit("A", b"", group)
    slow = hold_back(bench, data_to("A", "B"))
    bench.back("C")
    bench.run(2 * SECOND)
    let_go(bench, slow)


def a_bystander_lets_what_it_lacks_go_by(bench: Bench) -> None:
    """C lacks A1 as in the schedule before; then D joins and A1 is sent to D, in front of C."""
    a_message_passes_a_member_that_returns(bench)
    rejoin(bench, "D")


def an_offer_is_accepted_twice(bench: Bench) -> None:
    """B was offered the group by A and by C and accepts both: the second time destroys the state of the first."""
    group = members(bench, G, "A", "C")
    bench.submit("A", b"", group)
    bench.settle()
    rejoin(bench, "B")
    bench.submit("B", b"", group, "A1")
    slow = hold_back(bench, data_to("B"))
    bench.settle()
    join(bench, G, "B")
    bench.run(2 * SECOND)
    let_go(bench, slow)


def an_answer_waits_for_what_was_delivered_before_a_leave(bench: Bench) -> None:
    """B delivered A1, left and joined again; it holds the answer to A1 until somebody sends A1 to it once more."""
    group = members(bench, G, "A", "B")
    bench.submit("A", b"", group)
    bench.settle()
    leave(bench, "B")
    bench.settle()
    rejoin(bench, "B")
    bench.submit("A", b"", group, "A1")
    bench.run(SECOND)
    bench.ask("B", m2mc.Synchronize(G))
    bench.run(2 * SECOND)


def a_join_is_heard_before_the_own_one(bench: Bench) -> None:
    """C joins while B still thinks about the offer, which does not list C; nobody will tell B again."""
    create(bench, "A")
    bench.settle()
    join(bench, G, "C")
    bench.settle()
    join(bench, G, "B")
    bench.settle()


def a_join_overtakes_a_leave(bench: Bench) -> None:
    """B leaves and joins again at once; at A the two come in the other order."""
    members(bench, G, "A", "B")
    leave(bench, "B")
    slow = hold_back(bench, lambda copy: isinstance(copy.packet, Leave | Roster) and copy.to == "A")
    join(bench, G, "B")
    assert bench.copies(Join) or bench.copies(Roster)
    bench.settle()
    let_go(bench, slow)


def a_member_leaves_while_it_is_away(bench: Bench) -> None:
    """Nobody hears B leave, and B, back in range, has nothing to say about the group."""
    members(bench, G, "A", "B")
    bench.away("B")
    leave(bench, "B")
    bench.settle()
    bench.back("B")
    bench.settle()


COUNTEREXAMPLES: list[tuple[Schedule, list[tuple[str, str]]]] = [
    (a_copy_arrives_after_the_message_was_recovered, [("no_duplication", "repeated")]),
    (a_member_that_joined_again_counts_from_one, [("integrity", "reused-identity")]),
    (a_member_that_joined_again_stays_departed, [("convergent_views", "absent-member")]),
    (a_member_that_joined_again_asks_in_vain, [("recovery", "missing")]),
    (an_open_answer_outlives_the_membership_that_asked, [("recovery", "missing")]),
    (a_message_passes_a_joiner_on_both_sides, [("recovery", "missing")]),
    (a_message_passes_a_member_that_returns, [("agreement", "missing"), ("liveness", "undelivered")]),
    (a_bystander_lets_what_it_lacks_go_by, [("agreement", "missing")]),
    (an_offer_is_accepted_twice, [("validity", "own-message"), ("liveness", "held")]),
    (an_answer_waits_for_what_was_delivered_before_a_leave, [("no_needless_wait", "needless-hold")]),
    (a_join_is_heard_before_the_own_one, [("convergent_views", "different")]),
    (a_join_overtakes_a_leave, [("convergent_views", "different")]),
    (a_member_leaves_while_it_is_away, [("convergent_views", "not-a-member")]),
]
NAMES = [schedule.__name__ for schedule, _ in COUNTEREXAMPLES]


def after(schedule: Schedule, variant: str) -> Bench:
    bench = m2mc_bench("ABCD", variant)
    schedule(bench)
    bench.run(QUIET)
    return bench


@pytest.mark.parametrize(("schedule", "breaks"), COUNTEREXAMPLES, ids=NAMES)
def test_the_published_variant_breaks_its_promise_when(schedule: Schedule, breaks: list[tuple[str, str]]) -> None:
    bench = after(schedule, "published")
    for check, kind in breaks:
        assert kind in {violation.kind for violation in broken(bench, check)}, check


@pytest.mark.parametrize("schedule", [schedule for schedule, _ in COUNTEREXAMPLES], ids=NAMES)
def test_the_repaired_variant_keeps_all_its_promises_when(schedule: Schedule) -> None:
    assert all_broken(after(schedule, "repaired")) == {}


def test_every_published_claim_but_semantic_order_is_refuted() -> None:
    refuted = {check for _, breaks in COUNTEREXAMPLES for check, _ in breaks}
    assert set(m2mc.PROTOCOL.variants["published"].guarantees) - refuted == {"semantic"}


# --- what is wrong without breaking a check --------------------------------------------------------------------------


def test_a_published_request_outgrows_every_frame() -> None:
    """M2-R3: the request is the whole log; the repaired one is a digest."""
    for variant in ("published", "repaired"):
        bench = m2mc_bench("AB", variant)
        group = members(bench, G, "A", "B")
        for _ in range(300):
            bench.submit("A", bytes(1000), group)
        bench.settle()
        if variant == "published":
            with pytest.raises(FrameTooLargeError):
                bench.ask("B", m2mc.Synchronize(G))
        else:
            bench.ask("B", m2mc.Synchronize(G))
            bench.run(SECOND)


def test_a_published_answer_that_was_overheard_before_joining_is_never_forgotten() -> None:
    """M2-R6: C joins between B's request and A's response, and keeps an open answer whose counter never starts."""
    bench = m2mc_bench("ABC", "published")
    create(bench, "A")
    bench.settle()
    join(bench, G, "B")
    bench.settle()
    join(bench, G, "C")
    bench.run(10 * SECOND)
    assert len(bench.machines["C"].instances[gid(bench, G)].msp.pending) == 1
    assert not bench.timers
