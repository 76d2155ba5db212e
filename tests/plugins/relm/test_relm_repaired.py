"""What `repaired` adds to handoff step 4: the new supervisor sends what it has and the host lacks, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from relm_bench import SECOND, THREE_DOMAINS, VARIANTS, broken, key, leftovers, line, move, number, play, relm_bench

from castbed.testing import Bench
from castbed.testing.bench import Copy
from castbed_plugins.relm import PROTOCOL, Join, Leave
from castbed_plugins.relm.packets import Data, Downward, Forward, Moved

FOUR_CELLS = {"SH1": ("M1", "M4"), "SH2": ("M2",), "SH3": ("M3",)}


def slow_to_sh2(messages: int = 1, group: int = 1) -> Bench:
    """SH3's messages are at SH1, where a has them, and on a slow wire to SH2, which is responsible for c."""
    bench = relm_bench(FOUR_CELLS, variant="repaired")
    for _ in range(messages):
        bench.submit("SH3", group=group)
    settle_but_slow(bench)
    return bench


def settle_but_slow(bench: Bench) -> None:
    slow = bench.copies(Data, sender="SH3", to="SH2")
    bench.settle(lambda copy: copy not in slow)


def play_but(bench: Bench, stays: Callable[[Copy], bool]) -> list[str]:
    """Let everything arrive in order but what stays on its way; returns what did."""
    lines = []
    while going := [copy for copy in bench.in_flight if not stays(copy)]:
        lines.append(line(bench, going[0]))
        bench.arrive(going[0])
    return lines


def test_the_new_supervisor_sends_what_the_host_lacks() -> None:
    """Handoff step 4; the counterexample to M1, step by step: before MOVED comes, all is on its way."""
    bench = slow_to_sh2()
    slow = bench.copies(Data)
    move(bench, "c", "M1")
    lines = play_but(bench, slow.__contains__)
    assert lines[-6:] == [
        "SH2>SH1 Pulled", "SH1>SH2 Moved", "SH1>M1 Downward 1", "M1>~c Data 1", "c>~M1 Ack 1", "M1>SH1 Ack 1",
    ]  # fmt: skip
    assert bench.delivered("c") == ["SH3.1"]
    assert play(bench) == ["SH3>SH2 Data 1", "SH2>SH3 Delivered 1", "SH3>SH1 Discard 1", "SH3>SH2 Discard 1"]
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_what_the_new_supervisor_sent_is_its_own_until_the_host_acknowledges() -> None:
    """`handed_in` and the queue of the station outlive DISCARD."""
    bench = slow_to_sh2()
    slow = bench.copies(Data)
    move(bench, "c", "M1")
    bench.settle(lambda copy: copy not in slow and not (copy.to == "c" and isinstance(copy.packet, Data)))
    assert bench.machines["SH1"].handed_in == {(number(bench, "c"), key(bench, "SH3.1"))}
    bench.lose(lambda copy: copy.to == "c")
    play(bench)
    assert leftovers(bench) == {"handed_in": 1, "queue": 1}
    bench.run(SECOND)
    assert bench.delivered("c") == ["SH3.1"]
    assert leftovers(bench) == {}


def test_what_the_host_has_delivered_is_not_sent_again() -> None:
    """HELLO says it: SH1 still has the message, for the acknowledgement of b is missing."""
    bench = relm_bench(THREE_DOMAINS, {"b": "M2", "c": "M2"}, "repaired")
    bench.submit("SH3")
    bench.settle(lambda copy: copy.to != "b")
    assert bench.delivered("c") == ["SH3.1"]
    assert key(bench, "SH3.1") in bench.machines["SH1"].buffer
    move(bench, "c", "M1")
    transcript = play_but(bench, lambda copy: copy.to == "b")
    assert transcript[-1] == "SH1>SH2 Moved"


def test_what_came_with_the_host_is_not_sent_twice() -> None:
    """Handoff step 3 forwards the first message; SH2 has not received the second one."""
    bench = relm_bench(THREE_DOMAINS, variant="repaired")
    bench.submit("SH3")
    bench.settle(lambda copy: copy.to != "c")
    bench.lose(lambda copy: copy.to == "c")
    bench.submit("SH3")
    settle_but_slow(bench)
    move(bench, "c", "M1")
    bench.settle(lambda copy: not (copy.sender == "SH1" and copy.to == "M1") and copy.sender != "SH3")
    to_m1 = [(type(copy.packet), copy.packet.mid.seqno) for copy in bench.copies(sender="SH1", to="M1")[1:]]
    assert to_m1 == [(Forward, 1), (Downward, 2)]
    bench.settle()
    assert bench.delivered("c") == ["SH3.1", "SH3.2"]
    assert leftovers(bench) == {}


def test_of_other_groups_nothing_is_sent() -> None:
    bench = slow_to_sh2(group=2)
    assert key(bench, "SH3.1", group=2) in bench.machines["SH1"].buffer
    slow = bench.copies(Data)
    move(bench, "c", "M1")
    assert play_but(bench, slow.__contains__)[-1] == "SH1>SH2 Moved"


def test_what_came_before_the_host_joined_is_not_sent() -> None:
    """JOIN: from the next message on that the supervisor receives; JOINACK and then HELLO say where that was."""
    bench = relm_bench(THREE_DOMAINS, {"b": "M1", "c": "M2"}, "repaired")
    bench.ask("b", Join("2"))
    play(bench)
    bench.submit("SH3", group=2)
    bench.settle(lambda copy: copy.to != "b")  # so that all supervisors have it and keep it
    bench.ask("c", Join("2"))
    bench.settle(lambda copy: copy.to != "b")
    move(bench, "c", "M1")
    bench.settle(lambda copy: copy.to != "b")
    assert key(bench, "SH3.1", group=2) in bench.machines["SH1"].buffer
    bench.submit("SH3", group=2)
    bench.settle()
    assert bench.delivered("c") == ["SH3.2"]
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_what_was_left_and_joined_again_is_not_owed() -> None:
    bench = slow_to_sh2()
    bench.ask("c", Leave("1"))
    settle_but_slow(bench)
    move(bench, "c", "M1")
    settle_but_slow(bench)
    bench.ask("c", Join("1"))
    bench.settle()
    assert bench.delivered("c") == []
    bench.submit("SH3")
    bench.run(SECOND)
    assert bench.delivered("c") == ["SH3.2"]
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_from_cell_to_cell_of_one_domain_only_the_old_station_forwards() -> None:
    """Everything that the supervisor has for the host is in the queue of the old station already."""
    bench = relm_bench(FOUR_CELLS, variant="repaired")
    bench.submit("SH3")
    bench.settle(lambda copy: copy.to != "a")
    move(bench, "a", "M4")
    transcript = play(bench)
    assert "SH1>M4 Forward 1" in transcript
    assert "SH1>M4 Downward 1" not in transcript
    assert bench.machines["SH1"].handed_in == set()
    assert bench.delivered("a") == ["SH3.1"]


def test_a_host_that_comes_back_is_sent_what_came_meanwhile() -> None:
    """SH2 hears of the message when c is with SH1, which hears of it when c is back."""
    bench = relm_bench(THREE_DOMAINS, variant="repaired")
    bench.submit("SH3")
    (to_sh1,), (to_sh2,) = bench.copies(Data, to="SH1"), bench.copies(Data, to="SH2")
    move(bench, "c", "M1")
    bench.settle(lambda copy: copy not in (to_sh1, to_sh2))
    bench.arrive(to_sh2)
    bench.settle(lambda copy: copy != to_sh1)
    move(bench, "c", "M2")
    bench.settle(lambda copy: copy != to_sh1)
    assert bench.delivered("c") == ["SH3.1"]
    bench.settle()
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_a_message_follows_a_host_that_went_on_before_it_came() -> None:
    """c is sent what it lacks at M1, goes to M3 unreached, and gets it there as any message that waits at a station."""
    bench = slow_to_sh2(messages=2)
    slow = bench.copies(Data)
    move(bench, "c", "M1")
    bench.settle(lambda copy: copy not in slow and not (copy.to == "c" and isinstance(copy.packet, Data)))
    move(bench, "c", "M3")
    transcript = play_but(bench, slow.__contains__)
    forwards = [text for text in transcript if "Forward" in text]
    assert forwards == [f"{way} Forward {number}" for way in ("M1>SH1", "SH1>SH3", "SH3>M3") for number in (1, 2)]
    assert bench.delivered("c") == ["SH3.1", "SH3.2"]
    bench.settle()
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_a_forward_that_is_late_may_bring_a_second_copy_but_no_second_delivery() -> None:
    """The message reaches SH2 between PULL and MOVED (step 7), when SH1 has sent it already."""
    bench = slow_to_sh2()
    slow = bench.copies(Data)
    move(bench, "c", "M1")
    bench.settle(lambda copy: copy not in slow and not isinstance(copy.packet, Moved))
    bench.arrive(slow[0])
    transcript = play(bench)
    assert "SH2>SH1 Forward 1" in transcript
    assert bench.delivered("c") == ["SH3.1"]
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_the_repair_adds_no_packet_to_a_handoff_that_misses_nothing() -> None:
    """RV5 with three supervisors: the transcripts of both variants are equal."""
    transcripts = []
    for variant in VARIANTS:
        bench = relm_bench(THREE_DOMAINS, variant=variant)
        bench.submit("SH3")
        play(bench)
        move(bench, "c", "M1")
        transcripts.append(play(bench))
    assert transcripts[0] == transcripts[1]


def test_both_variants_need_and_guarantee_the_same() -> None:
    published, repaired = PROTOCOL.variants["published"], PROTOCOL.variants["repaired"]
    assert (repaired.needs, repaired.guarantees) == (published.needs, published.guarantees)
    assert PROTOCOL.default_variant == "repaired"
