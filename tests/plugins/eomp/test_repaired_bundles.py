"""Bundles of repaired EOMP: which messages go together, and that each is delivered once and in order all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from eomp_bench import G
from repaired_bench import RepairedNet

from castbed import Codec, Kind, Message, Mid, Packet, PeerError, load_registry
from castbed.capture import FrameHeader
from castbed.events import Received
from castbed.wire import HAS_MID, HEADER
from castbed_plugins.eomp import Options
from castbed_plugins.eomp.host import RADIO_DUPLICATE
from castbed_plugins.eomp.repaired import outbox
from castbed_plugins.eomp.repaired.bundles import Contents, bundled
from castbed_plugins.eomp.repaired.host import T_REQ
from castbed_plugins.eomp.repaired.packets import (
    REPAIRED_PACKETS,
    BundleNumbered,
    BundleRepeat,
    BundleRequest,
    Numbered,
    Report,
    Request,
)
from eomp_storms import random_run, violations

ONE_AT_A_TIME = Options(window=1)
BUNDLE = "BundleNumbered"


def waiting(*payloads: bytes, options: Options = ONE_AT_A_TIME, **more: Any) -> RepairedNet:
    """NET where `a` has sent `x`, which nobody has heard yet, and these wait behind it."""
    net = RepairedNet(options=options, **more)
    for payload in (b"x", *payloads):
        net.submit("a", payload)
    return net


def kinds(net: RepairedNet, sender: str) -> list[str]:
    """What a node has sent over the radio or the wire and what is still on its way."""
    return [type(copy.packet).__name__ for copy in net.in_flight if copy.sender == sender]


def sizes(net: RepairedNet) -> list[list[int]]:
    """The sizes of the messages in every request that reached the leader, in order."""
    found: list[list[int]] = []
    while net.in_flight:
        copy = next(copy for copy in net.in_flight if net.may_pass(copy))
        if copy.to == "T" and isinstance(copy.packet, Request | BundleRequest):
            bundle = isinstance(copy.packet, BundleRequest)
            found.append(list(copy.packet.sizes) if bundle else [len(copy.packet.payload)])
        net.arrive(copy)
    return found


def bundle(first: int, *payloads: bytes, sender: int = 9) -> Contents:
    return bundled([Message(Mid(sender, first + at), G, payload) for at, payload in enumerate(payloads)])


# --- what goes together ----------------------------------------------------------------------------------------------


def test_a_message_goes_at_once_while_the_window_is_open() -> None:
    net = waiting(b"y", b"z", options=Options())
    assert kinds(net, "a") == ["Request"] * 3


def test_messages_that_had_to_wait_go_together() -> None:
    net = waiting(b"y", b"", b"z")
    assert kinds(net, "a") == ["Request"]
    assert sizes(net) == [[1], [1, 0, 1]]
    net.all_have("x y  z")
    assert net.broken() == {}


def test_no_more_go_together_than_the_option_says() -> None:
    net = waiting(*[b"ten bytes."] * 5, options=Options(window=1, bundle_bytes=27))
    assert sizes(net) == [[1], [10, 10], [10, 10], [10]]


def test_a_message_that_is_larger_than_a_bundle_goes_alone() -> None:
    net = waiting(b"y", bytes(2000), b"z", b"z")
    assert sizes(net) == [[1], [1], [2000], [1, 1]]


def test_a_bundle_is_for_one_group() -> None:
    net = RepairedNet(options=ONE_AT_A_TIME, groups={1: "abc", 2: "abc"})
    for group in (1, 1, 1, 2, 2, 1):
        net.submit("a", b"m", group)
    assert sizes(net) == [[1], [1, 1], [1, 1], [1]]
    assert net.broken() == {}


def test_what_messages_answer_goes_along() -> None:
    net = RepairedNet(options=ONE_AT_A_TIME)
    first = net.submit("a", b"x")
    net.submit("a", b"y")
    net.submit("a", b"z", parent=first)
    net.settle()
    assert [message.parent for message in net.messages["c"]] == [None, None, first]


def test_every_message_of_a_bundle_is_submitted_and_delivered_by_itself() -> None:
    net = waiting(b"y", b"z")
    net.settle()
    mids = [net.mid_of("a", number) for number in (1, 2, 3)]
    assert [event.mid for event in net.events if event.kind is Kind.SUBMIT] == mids
    assert [event.mid for event in net.events if event.kind is Kind.DELIVER and event.node == net.number("b")] == mids


# --- on the wire -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "packet",
    [
        BundleRequest(*bundle(4, b"ab", b"", b"c")),
        BundleNumbered(*bundle(4, b"ab", b"c"), 7, 8, ((2, 3),)),
        BundleRepeat(*bundle(4, b"ab", b"c"), 7, 8, (), 11, True),
    ],
)
def test_a_bundle_travels_with_the_sizes_in_its_header_and_no_identity(packet: Packet) -> None:
    """As with all packets of several messages, the header names none of them."""
    codec = Codec({"eomp": REPAIRED_PACKETS})
    frame = codec.encode(packet, 3)
    assert codec.decode(frame) == (packet, 3)
    header = FrameHeader._make(HEADER.unpack_from(frame))
    assert (header.group, header.payload_bytes, header.flags & HAS_MID) == (G, 3, 0)


@pytest.mark.parametrize(
    "contents",
    [
        (G, Mid(7, 1), b"abc", (1, 1), ()),
        (G, Mid(7, 1), b"", (), ()),
        (G, Mid(7, 1), b"ab", (1, 1), ((2, Mid(7, 1)),)),
        (G, Mid(7, 1), bytes(2000), (1,) * 2000, ()),
    ],
)
def test_the_leader_takes_no_bundle_that_is_none(contents: Contents) -> None:
    net = RepairedNet()
    with pytest.raises(PeerError, match="bundle"):
        net.machines["T"].step(Received(BundleRequest(*contents), net.number("C1")), 0)
    net.settle()
    net.all_have("")


def test_a_station_passes_no_bundle_of_one_host_for_another() -> None:
    net = RepairedNet()
    with pytest.raises(PeerError, match="speaks for"):
        net.machines["M1"].step(Received(BundleRequest(*bundle(1, b"x", b"y", sender=8)), net.number("a")), 0)


# --- losses and copies -----------------------------------------------------------------------------------------------


def test_a_bundle_that_is_lost_on_its_way_up_is_repeated_as_it_was() -> None:
    net = waiting(b"y", b"z")
    net.settle_but("a~>M1 BundleRequest")
    assert net.lose(lambda copy: isinstance(copy.packet, BundleRequest)) == 1
    net.submit("a", b"late")
    net.expire("a", T_REQ)
    assert sizes(net) == [[1, 1], [4]]
    net.all_have("x y z late")


def test_a_second_copy_of_a_bundle_is_dropped() -> None:
    net = RepairedNet()
    packet = BundleNumbered(*bundle(1, b"x", b"y"), 1, 1, ())
    for _ in range(2):
        net.step("a", Received(packet, net.number("M1")))
    assert net.payloads("a") == "x y"
    assert [event.text for event in net.events if event.kind is Kind.NOTE] == [RADIO_DUPLICATE]


def test_a_station_passes_a_bundle_on_once() -> None:
    net = RepairedNet()
    for coordinator in ("C1", "C2"):
        net.step("M1", Received(BundleNumbered(*bundle(1, b"x", b"y"), 1, 1, ()), net.number(coordinator)))
    net.step("M1", Received(Numbered(G, Mid(9, 3), b"z", None, 3, 3, ()), net.number("C1")))
    assert kinds(net, "M1") == [BUNDLE, "Numbered"]


def test_a_bundle_that_is_missed_is_repeated_from_the_shelf_and_later_messages_wait_for_it() -> None:
    net = waiting(b"y", b"z")
    net.settle_but(f"M2~>b {BUNDLE}")
    assert net.lose(lambda copy: isinstance(copy.packet, BundleNumbered)) == 1
    net.submit("c", b"next")
    net.settle_but("M2>C1 ReportFrom")
    assert net.payloads("b") == "x"
    assert [event.kind for event in net.events if event.node == net.number("b")][-1] is Kind.HOLD
    net.settle()
    assert net.count("M2~>b BundleRepeat") == 1
    net.all_have("x y z next")
    assert net.broken() == {}


def test_a_bundle_that_comes_early_is_named_in_the_report_and_not_repeated() -> None:
    net = RepairedNet()
    net.step("b", Received(BundleNumbered(*bundle(2, b"y", b"z"), 2, 2, ()), net.number("M2")))
    assert [copy.packet.early for copy in net.copies(Report, sender="b")] == [((G, 2, 3),)]
    assert [event.mid for event in net.events if event.kind is Kind.HOLD] == [Mid(9, 2), Mid(9, 3)]


# --- hosts that move and crash ---------------------------------------------------------------------------------------


def test_a_host_that_moves_within_a_bundle_repeats_it_in_the_new_cell_and_it_counts_once() -> None:
    net = waiting(b"y", b"z")
    net.settle_but("M1>C1 BundleRequest")
    net.move("a", "M3")
    net.settle_but("M1>C1 BundleRequest")
    net.all_have("x y z")
    net.settle()
    net.all_have("x y z")
    assert net.count("C1>T BundleRequest") + net.count("C2>T BundleRequest") == 1
    assert net.broken() == {}


def test_a_host_that_restarts_makes_its_bundles_anew_and_what_was_numbered_stays_so() -> None:
    """`y` and `z` have their numbers, which their sender never heard; `u` and `v` were not sent yet."""
    net = waiting(b"y", b"z")
    net.settle_but("M1~>a Taken", f"M1~>a {BUNDLE}")
    net.lose()
    for payload in (b"u", b"v"):
        net.submit("a", payload)
    net.crash("a")
    net.start("a")
    assert kinds(net, "a") == ["Enter", "BundleRequest"]
    net.pass_time(2)
    net.all_have("x y z u v")
    assert net.broken() == {}


def test_a_host_that_crashes_after_a_bundle_gets_no_message_of_it_again() -> None:
    net = waiting(b"y", b"z")
    net.settle()
    net.crash("b")
    net.start("b")
    net.submit("c", b"next")
    net.pass_time(2)
    net.all_have("x y z next")
    assert net.last("b") == [4]


def test_a_host_that_is_down_when_a_bundle_comes_gets_all_of_it_later() -> None:
    net = waiting(b"y", b"z")
    net.settle_but(BUNDLE)
    net.crash("b")
    net.settle()
    net.start("b")
    net.pass_time(2)
    net.all_have("x y z")
    assert net.broken() == {}


@pytest.mark.parametrize("prepared", [True, False])
def test_a_sequencer_that_crashes_with_a_bundle_loses_nothing_and_numbers_nothing_twice(prepared: bool) -> None:
    net = waiting(b"y", b"z")
    net.settle_but("C1>T BundleRequest")
    if prepared:
        net.settle_but("T>C2", "PrepareOk")
    net.crash("T")
    net.lose(lambda copy: copy.sender == "T")
    net.pass_time(5)
    net.all_have("x y z")
    assert net.broken() == {}


# --- flow ------------------------------------------------------------------------------------------------------------


def test_hosts_that_take_much_say_so_before_the_buffers_are_full() -> None:
    net = RepairedNet(options=Options(buffer_max=16, queue_max=200))
    began = net.now
    for number in range(100):
        net.submit("a", b"%d" % number)
        net.settle()
    assert net.payloads("c").split() == [str(number) for number in range(100)]
    assert net.now == began, "nothing had to wait for a timer"


# --- storms ----------------------------------------------------------------------------------------------------------


def stormy(seed: int) -> dict[str, Any]:
    """A storm of `eomp_storms` in which hosts send more than the window lets through."""
    experiment = random_run(seed)
    options = {"window": 1 + seed % 3, "bundle_bytes": ("200B", "1200B")[seed % 2]}
    workload = {**experiment["workload"], "rate": 60, "count": 80}
    protocol = {**experiment["protocol"], "options": options}
    return {**experiment, "protocol": protocol, "workload": workload, "drain": "60s"}


def storms_with_bundles(seeds: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many bundles were sent in these storms, none of which broke a promise."""
    made: list[int] = []

    def counted(messages: Sequence[Message]) -> Contents:
        made.append(len(messages))
        return bundled(messages)

    monkeypatch.setattr(outbox, "bundled", counted)
    registry = load_registry()
    for seed in seeds:
        assert violations(registry, stormy(seed)) == {}, f"seed {seed}"
    return len(made)


def test_storms_break_no_promise_when_messages_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    assert storms_with_bundles(range(12), monkeypatch) > 100


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 1200, 100))
def test_many_storms_break_no_promise_when_messages_go_together(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert storms_with_bundles(range(first, first + 100), monkeypatch) > 1000
