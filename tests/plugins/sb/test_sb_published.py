"""The published machine: what the paper's text says, and where its assumptions end."""

from __future__ import annotations

from random import Random

import pytest
from sb_notation import message

from castbed import Kind, Message, Mid, Received
from castbed import actions as do
from castbed.properties import check
from castbed.testing import Bench
from castbed.topology import broadcast
from castbed.wire import HEADER_BYTES
from castbed_plugins.sb import PROTOCOL, Data, Options


def make_bench(nodes: str = "ABC", **options: object) -> Bench:
    return Bench(PROTOCOL, tuple(nodes), variant="published", options=Options(**options))


def violated(bench: Bench) -> set[str]:
    """The guarantees of the variant that the history refutes."""
    return {name for name, found in check(bench.history(), bench.chosen.variant.guarantees).items() if found}


def refusals(bench: Bench) -> list[str]:
    return [event.text for event in bench.events if event.kind == Kind.REFUSE]


def test_a_message_is_one_broadcast_and_is_delivered_with_the_own_copy() -> None:
    """SB-S10, S11, Q20."""
    bench = make_bench()
    bench.submit("A", b"hello")
    assert [copy.to for copy in bench.in_flight] == ["A", "B", "C"]
    assert bench.delivered("A") == []
    bench.settle()
    assert bench.delivered("A") == bench.delivered("B") == bench.delivered("C") == ["A1"]
    assert bench.timers == {}


def test_the_ordering_header_does_not_grow_with_the_group() -> None:
    """SB-S11, R18: own identity and parent identity, whatever n."""
    packet = Data(1, Mid(3, 70_000), b"hello", Mid(2, 70_000))
    sizes = {len(make_bench(nodes).codec.encode(packet, 1)) for nodes in ("AB", "ABCDEFGHIJKLMNOP")}
    assert len(sizes) == 1
    assert sizes.pop() - HEADER_BYTES - len(b"hello") <= 16


def test_a_reply_waits_for_its_parent_and_says_so_once() -> None:
    """SB-S3, S5."""
    bench = make_bench()
    bench.submit("A")
    bench.arrive_all(lambda copy: copy.to != "C")
    bench.submit("B", parent="A1")
    (reply,) = [copy for copy in bench.copies(to="C") if copy.sender == "B"]
    assert bench.arrive(reply) == [do.Hold(Message(bench.mid("B1"), parent=bench.mid("A1")), (bench.mid("A1"),))]
    bench.settle()
    assert bench.delivered("C") == ["A1", "B1"]
    assert len([event for event in bench.events if event.kind == Kind.HOLD]) == 1


def test_a_message_sent_after_another_but_not_in_reply_never_waits_for_it() -> None:
    """SB-S8."""
    bench = make_bench()
    bench.submit("A")
    bench.arrive_all(lambda copy: copy.to == "B")
    bench.submit("B")
    bench.arrive(bench.copies(sender="B", to="C")[0])
    assert bench.delivered("C") == ["B1"]


def test_a_reply_to_an_undelivered_message_is_refused_unless_allowed() -> None:
    """SB-S7, Q11."""
    bench = make_bench()
    assert bench.submit("A", parent="B1") is None
    assert refusals(bench) == ["it answers a message that was not delivered here"]
    assert bench.in_flight == []
    assert make_bench(answer_undelivered=True).submit("A", parent="B1") == Mid(1, 1)


def test_addressed_messages_and_groups_of_others_are_refused() -> None:
    bench = Bench(PROTOCOL, broadcast(("A", "B"), {1: (1, 2), 2: (2,)}), variant="published")
    assert bench.submit("A", to=["B"]) is None
    assert bench.submit("A", group=2) is None
    assert refusals(bench) == ["sb sends to whole groups only", "not a member of the group"]


def test_each_group_has_an_ordering_and_numbers_of_its_own() -> None:
    bench = Bench(PROTOCOL, broadcast(("A", "B", "C"), {1: (1, 2), 2: (2, 3)}), variant="published")
    assert bench.submit("B", group=1) == bench.submit("B", group=2) == Mid(2, 1)
    bench.settle()
    assert [one.group for one in bench.messages["A"]] == [1]
    assert [one.group for one in bench.messages["B"]] == [1, 2]
    assert [one.group for one in bench.messages["C"]] == [2]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("store", ["indexed", "literal"])
def test_everything_it_promises_holds_on_the_network_it_needs(seed: int, store: str) -> None:
    """SB-S1 to S6, I6 under A1 to A8: copies overtake each other at will."""
    random = Random(seed)
    bench = make_bench("ABCD", store=store)
    for _ in range(30):
        node = random.choice("ABCD")
        known = bench.messages[node]
        bench.submit(node, parent=random.choice(known).mid if known and random.random() < 0.7 else None)
        for copy in random.sample(bench.in_flight, len(bench.in_flight) // 2):
            bench.arrive(copy)
    for copy in random.sample(bench.in_flight, len(bench.in_flight)):
        bench.arrive(copy)
    assert {frozenset(bench.delivered(node)) for node in "ABCD"} == {frozenset(bench.delivered("A"))}
    assert [len(bench.delivered(node)) for node in "ABCD"] == [30] * 4
    assert violated(bench) == set()


# --- where the assumptions end: counterexamples that the repaired variant answers -------------------------------------


def test_published_delivers_a_duplicated_copy_twice() -> None:
    """Why SB-R3: integrity of the channel is assumed and never stated."""
    bench = make_bench("AB")
    bench.submit("A")
    (copy,) = bench.copies(to="B")
    bench.settle()
    bench.step("B", Received(copy.packet, 1))
    assert bench.delivered("B") == ["A1", "A1"]
    assert violated(bench) == {"no_duplication", "exactly_once"}


def test_published_holds_for_ever_what_answers_a_lost_message() -> None:
    """Why SB-R1: A3 assumes that nothing is lost."""
    bench = make_bench()
    bench.submit("A")
    bench.lose(lambda copy: copy.to == "C")
    bench.settle()
    bench.submit("B", parent="A1")
    bench.settle()
    bench.run(10**12)
    assert bench.delivered("C") == []
    assert violated(bench) == {"agreement", "exactly_once", "liveness"}


def test_published_reuses_identities_after_a_restart() -> None:
    """Why SB-R5: A1 knows no crash."""
    bench = make_bench("AB")
    first = bench.submit("A", b"before")
    bench.settle()
    bench.crash("A")
    bench.start("A")
    assert bench.submit("A", b"after") == first
    bench.settle()
    assert violated(bench) >= {"integrity", "no_duplication"}


def test_published_keeps_a_message_that_answers_itself_for_ever() -> None:
    """Why SB-R13."""
    bench = make_bench("AB")
    assert bench.step("B", Received(Data.of(message("A1(A1)")), 1))[0].waiting_for == (Mid(1, 1),)
