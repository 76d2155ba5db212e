"""One test per action of the spec (section 5) and per limit, on the bench."""

from __future__ import annotations

from collections import Counter

import pytest
from relm_bench import SECOND, broken, expire, key, leftovers, line, move, number, play, relm_bench

from castbed import Duration, Message, Mid, PeerError
from castbed.events import Received
from castbed.history import Kind
from castbed.testing import Bench
from castbed_plugins import relm
from castbed_plugins.relm.packets import (
    Ack,
    Data,
    Delivered,
    Downward,
    Forward,
    Hello,
    HelloAck,
    JoinAck,
    Moved,
    Pull,
    Pulled,
)

FOUR_CELLS = {"SH1": ("M1", "M3"), "SH2": ("M2", "M4")}


def lines(bench: Bench) -> list[str]:
    return [line(bench, copy) for copy in bench.in_flight]


# --- sources and supervisors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", ["a", "M1", "Q"])
def test_only_supervisor_hosts_are_sources(node: str) -> None:
    """M4: neither a mobile host nor a station nor the sequencer, which RelM has no use for."""
    bench = relm_bench()
    assert bench.submit(node) is None
    assert [event.text for event in bench.events if event.kind == Kind.REFUSE] == ["only supervisor hosts are sources"]


def test_numbers_count_per_source_and_group() -> None:
    """Source-1: `next_seq`."""
    bench = relm_bench()
    bench.submit("SH1", group=1)
    bench.submit("SH1", group=2)
    bench.submit("SH2", group=1)
    assert [copy.packet.mid.seqno for copy in bench.copies(Data)] == [1, 1, 1]


def test_a_source_waits_for_all_domains_and_then_discards_once() -> None:
    """Source-2; without members in a domain that one reports at once (SH-1 step 4)."""
    bench = relm_bench({"SH1": ("M1",), "SH2": ("M2",), "SH3": ("M3",)})
    bench.submit("SH1")
    source = bench.machines["SH1"]
    bench.settle(lambda copy: not isinstance(copy.packet, Delivered) and copy.to not in ("a", "c"))
    assert lines(bench) == ["SH3>SH1 Delivered 1", "M1>~a Data 1", "M2>~c Data 1"]
    bench.settle(lambda copy: copy.to != "c")
    assert source.awaiting == {key(bench, "SH1.1"): {number(bench, "SH2")}}
    assert [len(bench.machines[name].buffer) for name in ("SH1", "SH2", "SH3")] == [1, 1, 1]
    assert play(bench)[-2:] == ["SH1>SH2 Discard 1", "SH1>SH3 Discard 1"]
    assert leftovers(bench) == {}


@pytest.mark.parametrize(("copies", "hosts"), [("per_mss", [("a", "b")]), ("per_mh", [("a",), ("b",)])])
def test_wired_copies_go_per_station_or_per_host(copies: str, hosts: list[tuple[str, ...]]) -> None:
    """SH-1 step 3, section 4; the last hop is one unicast per host in both cases (MSS-1)."""
    bench = relm_bench(hosts={"a": "M1", "b": "M1"}, wired_copies=copies)
    bench.submit("SH1")
    sent = [tuple(map(bench.topology.name, copy.packet.hosts)) for copy in bench.copies(Downward)]
    assert sent == hosts
    bench.arrive_all()
    assert [line for line in lines(bench) if "Data" in line] == ["M1>~a Data 1", "M1>~b Data 1"]


def test_a_supervisor_reports_after_the_last_acknowledgement() -> None:
    """SH-2: one DELIVERED for all hosts of a domain."""
    bench = relm_bench(hosts={"b": "M2", "c": "M2"})
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "c")
    assert bench.machines["SH2"].pending == {key(bench, "SH1.1"): {number(bench, "c")}}
    assert [text for text in play(bench) if "Delivered" in text] == ["SH2>SH1 Delivered 1"]


@pytest.mark.parametrize("hosts", [1, 5, 20])
def test_the_cost_of_a_message_grows_with_the_hosts(hosts: int) -> None:
    """Section 6: one unicast, one ack on the air and one on the wire per host; DATA, DELIVERED, DISCARD per domain."""
    bench = relm_bench(hosts={f"h{at}": ("M1", "M2")[at % 2] for at in range(2 * hosts)})
    bench.submit("SH1")
    transcript = play(bench)
    kinds = Counter(text.split()[1] for text in transcript)
    assert kinds == {"Data": 1 + 2 * hosts, "Downward": 2, "Ack": 4 * hosts, "Delivered": 1, "Discard": 1}


def test_too_many_undelivered_messages_are_refused() -> None:
    bench = relm_bench(awaiting_max=2)
    assert [bench.submit("SH1") is None for _ in range(3)] == [False, False, True]
    play(bench)
    assert bench.submit("SH1") is not None


def test_a_message_to_some_of_a_group_is_refused() -> None:
    assert relm_bench().submit("SH1", to=["a"]) is None


# --- hosts -----------------------------------------------------------------------------------------------------------


def test_an_early_message_waits_and_is_acknowledged_when_delivered() -> None:
    """MH-1, gap: M2 says FIFO per source."""
    bench = relm_bench(hosts={"a": "M1"})
    bench.submit("SH1")
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "a")
    first, second = bench.copies(Data, to="a")
    bench.arrive(second)
    assert bench.copies(Ack) == []
    assert [event.waiting_for for event in bench.events if event.kind == Kind.HOLD] == [(bench.mid("SH1.1"),)]
    bench.arrive(first)
    assert [copy.packet.mid.seqno for copy in bench.copies(Ack)] == [1, 2]
    assert bench.delivered("a") == ["SH1.1", "SH1.2"]


def test_sources_do_not_wait_for_each_other() -> None:
    """M2: no total order. Two hosts deliver messages of two sources in different orders."""
    bench = relm_bench()
    bench.submit("SH1")
    bench.submit("SH2")
    bench.settle()
    assert (bench.delivered("a"), bench.delivered("c")) == (["SH1.1", "SH2.1"], ["SH2.1", "SH1.1"])


def test_a_host_with_no_room_for_early_messages_drops_them_and_gets_them_again() -> None:
    bench = relm_bench(hosts={"a": "M1"}, early_max=1)
    for _ in range(3):
        bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "a")
    bench.lose(lambda copy: copy.packet == bench.copies(Data, to="a")[0].packet)
    bench.settle()
    assert [list(held) for held in bench.machines["a"].early.values()] == [[2]]
    bench.run(SECOND)
    assert bench.delivered("a") == ["SH1.1", "SH1.2", "SH1.3"]


def test_a_station_repeats_until_the_host_answers() -> None:
    """MSS-2: every T_ARQ, 25 ms unless set otherwise."""
    bench = relm_bench(hosts={"a": "M1"}, arq=Duration(10 * 10**6))
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "a")
    for _ in range(3):
        assert bench.lose() == 1
        expire(bench, "M1", "a", "SH1.1")
    assert bench.now == 30 * 10**6
    assert bench.timers == {("M1", (number(bench, "a"), key(bench, "SH1.1"))): 40 * 10**6}
    assert relm.Options().arq == 25 * 10**6


def test_an_acknowledged_message_has_no_timer() -> None:
    """MSS-3."""
    bench = relm_bench()
    bench.submit("SH1")
    play(bench)
    assert bench.timers == {}


# --- handoff ---------------------------------------------------------------------------------------------------------


def test_a_switch_within_a_domain_needs_no_other_supervisor() -> None:
    """Handoff step 2, same SH: one hop less, nothing is handed in."""
    bench = relm_bench(FOUR_CELLS)
    bench.submit("SH2")
    bench.settle(lambda copy: copy.to != "c")
    move(bench, "c", "M4")
    transcript = play(bench)
    assert transcript[:7] == [
        "c>~M4 Hello",
        "M4>SH2 Hello",
        "SH2>M4 HelloAck",
        "SH2>M2 Pull",
        "M4>~c HelloAck",
        "M2>SH2 Forward 1",
        "M2>SH2 Pulled",
    ]
    assert not [text for text in transcript if "Moved" in text or ("SH1" in text.split()[0] and "Pull" in text)]
    assert bench.delivered("c") == ["SH2.1"]
    assert leftovers(bench) == {}


def test_a_message_that_comes_to_the_old_side_after_the_pull_is_sent_after_the_host() -> None:
    """Handoff step 7."""
    bench = relm_bench()
    move(bench, "c", "M1")
    bench.settle(lambda copy: not isinstance(copy.packet, Pulled))
    bench.submit("SH2")
    bench.settle(lambda copy: not isinstance(copy.packet, Pulled))
    assert [line(bench, copy) for copy in bench.copies(Pulled)] == ["M2>SH2 Pulled"]
    bench.settle()
    assert bench.delivered("c") == ["SH2.1"]
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_what_was_delivered_and_not_acknowledged_is_not_forwarded() -> None:
    """PULL carries `last`: the old station takes it for the acknowledgement that got lost."""
    bench = relm_bench()
    bench.submit("SH1")
    bench.settle(lambda copy: not (isinstance(copy.packet, Ack) and copy.sender == "c"))
    move(bench, "c", "M1")
    transcript = play(bench)
    assert not [text for text in transcript if "Forward" in text]
    assert "M2>SH2 Ack 1" in transcript
    assert leftovers(bench) == {}


def test_a_lost_greeting_is_repeated() -> None:
    """Reading: HELLO is repeated until answered, for a host that nobody knows about gets nothing."""
    bench = relm_bench()
    move(bench, "c", "M1")
    assert bench.lose(lambda copy: isinstance(copy.packet, Hello)) == 1
    bench.submit("SH1")
    bench.run(SECOND)
    assert bench.delivered("c") == ["SH1.1"]
    assert [timer for timer in bench.timers if timer[0] == "c"] == []


def test_a_host_that_went_on_before_its_greeting_was_answered_is_found() -> None:
    """Reading: a supervisor remembers whom it handed a host to, and a pull follows."""
    bench = relm_bench({"SH1": ("M1",), "SH2": ("M2",), "SH3": ("M3",)})
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "c")
    move(bench, "c", "M1")
    bench.settle(lambda copy: copy.to != "c")
    move(bench, "c", "M3")
    assert [copy.packet.old_station for copy in bench.copies(Hello)] == [number(bench, "M2")]
    transcript = play(bench)
    assert [text for text in transcript if text.endswith("Pull")] == [
        "SH3>SH2 Pull", "SH2>SH1 Pull", "SH1>M1 Pull",
    ]  # fmt: skip
    assert bench.delivered("c") == ["SH1.1"]
    assert leftovers(bench) == {}


def test_a_late_greeting_does_not_bring_a_host_back() -> None:
    """Reading: moves are numbered; the supervisor that is too late is told so."""
    bench = relm_bench({"SH1": ("M1",), "SH2": ("M2",), "SH3": ("M3",)})
    bench.move("c", "M1")
    late = bench.copies(Hello, to="M1")
    bench.move("c", "M3")
    bench.settle(lambda copy: copy not in late)
    assert play(bench) == [
        "c>~M1 Hello",
        "M1>SH1 Hello",
        "SH1>M1 HelloAck",
        "SH1>SH2 Pull",
        "M1>~c HelloAck",
        "SH2>SH1 Pulled",
    ]
    assert bench.machines["SH1"].location == {number(bench, "a"): number(bench, "M1")}
    assert bench.machines["SH3"].location == {number(bench, "c"): number(bench, "M3")}
    bench.submit("SH2")
    bench.settle()
    assert bench.delivered("c") == ["SH2.1"]


def test_a_host_that_starts_nowhere_is_welcome_anywhere() -> None:
    bench = relm_bench(hosts={"a": ""})
    move(bench, "a", "M2")
    assert play(bench) == ["a>~M2 Hello", "M2>SH2 Hello", "SH2>M2 HelloAck", "M2>~a HelloAck"]
    bench.submit("SH1")
    play(bench)
    assert bench.delivered("a") == ["SH1.1"]


# --- blame -----------------------------------------------------------------------------------------------------------

SOME = Mid(2, 1)


@pytest.mark.parametrize(
    ("node", "sender", "packet"),
    [
        pytest.param("a", "M2", Data(1, SOME, b"", None), id="from another cell"),
        pytest.param("M1", "M2", Downward(1, SOME, b"", None, ()), id="not from the supervisor"),
        pytest.param("M1", "SH1", Downward(1, SOME, b"", None, (99,)), id="for a stranger"),
        pytest.param("M1", "SH1", Forward(1, SOME, b"", None, 99, 1, 2), id="forward for a stranger"),
        pytest.param("M1", "SH1", Pull(99, 1, 2, ()), id="pull of a stranger"),
        pytest.param("M1", "SH1", Pull(6, 1, 99, ()), id="pull to no supervisor"),
        pytest.param("M1", "SH1", HelloAck(99, 1), id="answer for nobody"),
        pytest.param("M1", "SH1", JoinAck(1, 3, 1, ()), id="answer for no host"),
        pytest.param("a", "M1", JoinAck(1, 6, 1, ((1, 5, 7),)), id="source that is none"),
        pytest.param("M1", "a", Ack(1, SOME, 99), id="acknowledges for another"),
        pytest.param("M1", "a", Hello(99, 1, 0, (), ()), id="greets for another"),
        pytest.param("SH2", "SH1", Data(1, Mid(2, 2), b"", None), id="leaves a gap"),
        pytest.param("SH2", "SH1", Data(1, Mid(3, 1), b"", None), id="of another source"),
        pytest.param("SH2", "M1", Hello(7, 1, 0, (), ()), id="greets another domain"),
        pytest.param("SH2", "M2", Hello(7, 1, 99, (), ()), id="from no cell"),
        pytest.param("SH1", "SH2", Delivered(1, SOME), id="nothing awaited"),
        pytest.param("SH1", "SH2", Pull(99, 1, 3, ()), id="supervisor never had it"),
        pytest.param("SH1", "M2", Moved(6, 1, ()), id="no supervisor"),
    ],
)
def test_what_cannot_be_is_blamed_on_its_sender(node: str, sender: str, packet: Data) -> None:
    bench = relm_bench()
    with pytest.raises(PeerError):
        bench.machines[node].step(Received(packet, number(bench, sender)), 0)
    assert leftovers(bench) == {}


def test_a_wish_without_a_group_number_is_the_callers_mistake() -> None:
    with pytest.raises(Exception, match="is no group"):
        relm_bench().ask("a", relm.Join("x"))


def test_durations_and_limits_are_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        relm.Options(arq=Duration(0))


def test_the_parent_of_a_message_travels_with_it() -> None:
    bench = relm_bench(hosts={"a": "M1"})
    bench.submit("SH1", b"x", parent=Mid(2, 9))
    play(bench)
    assert bench.messages["a"] == [Message(Mid(2, 1), 1, b"x", Mid(2, 9))]
