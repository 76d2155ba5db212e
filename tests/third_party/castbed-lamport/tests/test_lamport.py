"""What the plugin does, on Castbed's bench: every copy of every packet arrives when the test says so."""

from __future__ import annotations

from typing import Any

import pytest
from castbed import ConfigurationError, Duration, Kind, PeerError, topology
from castbed.events import Received
from castbed.testing import Bench
from castbed.units import convert
from hypothesis import given, settings
from hypothesis import strategies as st

from castbed_lamport import PROTOCOL, Ack, Data, Options
from castbed_lamport.line import EARLY_MAX
from castbed_lamport.machine import CLOCK_MAX

NAMES = ("A", "B", "C")


def test_a_message_waits_until_everybody_was_heard_later() -> None:
    bench = Bench(PROTOCOL, NAMES)
    bench.submit("A")
    bench.arrive_all(lambda copy: copy.to == "B")
    assert bench.delivered("B") == []
    bench.settle()
    assert all(bench.delivered(name) == ["A1"] for name in NAMES)


def test_equal_clocks_are_ordered_by_node() -> None:
    bench = Bench(PROTOCOL, NAMES)
    for name in reversed(NAMES):
        bench.submit(name)
    bench.settle()
    assert all(bench.delivered(name) == ["A1", "B1", "C1"] for name in NAMES)


def test_a_reply_follows_what_it_answers() -> None:
    bench = Bench(PROTOCOL, NAMES)
    bench.submit("C")
    bench.settle()
    bench.submit("A", parent="C1")
    bench.settle()
    assert bench.delivered("B") == ["C1", "A1"]
    assert bench.messages["B"][1].parent == bench.mid("C1")


def test_a_packet_that_overtook_another_waits_for_it() -> None:
    bench = Bench(PROTOCOL, ("A", "B"))
    bench.submit("A", b"first")
    bench.submit("A", b"second")
    first, second = bench.copies(Data, to="B")
    bench.arrive(second)
    assert bench.delivered("B") == []
    bench.arrive(first)
    assert [message.payload for message in bench.messages["B"]] == [b"first", b"second"]


def test_a_message_of_ones_own_saves_the_acknowledgement() -> None:
    bench = Bench(PROTOCOL, ("A", "B"))
    bench.submit("A")
    bench.submit("B")
    bench.arrive_all()
    assert len(bench.copies(Ack)) == 1  # B's message is later than A's; only A has something to acknowledge


def test_the_first_message_that_waits_names_the_one_before_it() -> None:
    bench = Bench(PROTOCOL, NAMES)
    bench.submit("A")
    bench.submit("A")
    held = bench.history().of(Kind.HOLD)
    assert [event.waiting_for for event in held] == [(), (bench.mid("A1"),)]


def test_a_lonely_member_delivers_at_once() -> None:
    bench = Bench(PROTOCOL, ("A",))
    bench.submit("A")
    assert bench.delivered("A") == ["A1"]


def test_members_of_overlapping_groups_agree_on_the_order() -> None:
    shape = topology.broadcast(("A", "B", "C", "D"), {1: (1, 2, 3), 2: (2, 3, 4)})
    bench = Bench(PROTOCOL, shape)
    bench.submit("D", group=2)
    bench.submit("A", group=1)
    bench.settle()
    assert bench.delivered("B") == bench.delivered("C") == ["A1", "D1"]
    assert (bench.delivered("A"), bench.delivered("D")) == (["A1"], ["D1"])


def test_what_cannot_be_ordered_is_refused() -> None:
    bench = Bench(PROTOCOL, topology.broadcast(NAMES, {1: (1, 2)}))
    assert bench.submit("C") is None
    assert bench.submit("A", to=["B"]) is None
    reasons = [event.text for event in bench.history().of(Kind.REFUSE)]
    assert [reason.split()[0] for reason in reasons] == ["not", "the"]


# --- the option ------------------------------------------------------------------------------------------------------


def test_one_late_acknowledgement_answers_many_messages() -> None:
    bench = Bench(PROTOCOL, ("A", "B"), options=convert({"ack_delay": "5ms"}, Options))
    for _ in range(10):
        bench.submit("A")
    bench.arrive_all()
    assert bench.delivered("A") == []
    bench.expire("B", "acknowledge")
    assert len(bench.copies(Ack)) == 1
    bench.settle()
    assert len(bench.delivered("A")) == 10


def test_steady_traffic_does_not_put_the_acknowledgement_off() -> None:
    bench = Bench(PROTOCOL, ("A", "B"), options=Options(ack_delay=Duration(10)))
    bench.submit("A")
    bench.arrive_all()
    due = bench.timers["B", "acknowledge"]
    bench.now = 5
    bench.submit("A")
    bench.arrive_all()
    assert bench.timers["B", "acknowledge"] == due


def test_a_message_sent_while_gathering_is_the_acknowledgement() -> None:
    bench = Bench(PROTOCOL, ("A", "B"), options=Options(ack_delay=Duration(10)))
    bench.submit("A")
    bench.arrive_all()
    bench.submit("B")
    bench.expire("B", "acknowledge")
    assert bench.copies(Ack) == []


def test_a_delay_without_a_unit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="ack_delay"):
        convert({"ack_delay": 5}, Options)


# --- peers that are wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packet", "sender"),
    [
        pytest.param(Ack(number=1, clock=1), 9, id="stranger"),
        pytest.param(Ack(number=1, clock=CLOCK_MAX + 1), 2, id="clock"),
        pytest.param(Ack(number=1 + EARLY_MAX, clock=1), 2, id="number"),
    ],
)
def test_nonsense_is_blamed_on_the_peer(packet: Ack, sender: int) -> None:
    bench = Bench(PROTOCOL, NAMES)
    with pytest.raises(PeerError):
        bench.machines["A"].step(Received(packet, sender), 0)


def test_a_message_in_the_name_of_another_is_dropped() -> None:
    bench = Bench(PROTOCOL, NAMES)
    bench.submit("A")
    bench.step("B", Received(bench.in_flight[0].packet, 3))
    assert [event.text for event in bench.history().of(Kind.DROP)] == ["3 sent a message of 1"]


def test_a_second_copy_changes_nothing() -> None:
    bench = Bench(PROTOCOL, ("A", "B"))
    bench.submit("A")
    copy = bench.in_flight[0]
    bench.arrive(copy)
    bench.step("B", Received(copy.packet, 1))
    bench.settle()
    assert bench.delivered("B") == ["A1"]


# --- any run ---------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(data=st.data(), ack_delay=st.sampled_from([0, 10]))
def test_all_members_deliver_everything_in_one_order_that_respects_causality(data: Any, ack_delay: int) -> None:
    bench = Bench(PROTOCOL, NAMES, options=Options(ack_delay=Duration(ack_delay)))
    known: dict[str, set[str]] = {}  # by message, what its sender had delivered before
    for _ in range(data.draw(st.integers(1, 30), label="steps")):
        _do_anything(bench, data, known)
    while bench.in_flight or bench.timers:
        _do_anything(bench, data, known, submit=False)
    order = bench.delivered("A")
    assert sorted(order) == sorted(known)
    assert all(bench.delivered(name) == order for name in NAMES)
    for message, before in known.items():
        assert all(order.index(earlier) < order.index(message) for earlier in before)


def _do_anything(bench: Bench, data: Any, known: dict[str, set[str]], submit: bool = True) -> None:
    """One submission, one arrival or one timer, whichever hypothesis likes."""
    choices: list[Any] = list(NAMES) if submit else []
    choices += bench.in_flight + list(bench.timers)
    chosen = data.draw(st.sampled_from(choices))
    if isinstance(chosen, str):
        before = set(bench.delivered(chosen)) | {text for text in known if text.startswith(chosen)}
        known[bench.text(bench.submit(chosen))] = before
    elif isinstance(chosen, tuple):
        bench.expire(*chosen)
    else:
        bench.arrive(chosen)
