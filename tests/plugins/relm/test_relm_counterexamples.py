"""Where M1 (exactly once) fails in `published` within what RelM needs: wires, reliable and FIFO, of different delays.

One: the old supervisor forwards what it has received, the new one passes on what it receives from step 4 on. A message
that reaches the new one before that and the old one after MOVED is nobody's. The source is neither of the two.

Two: a supervisor that gave up a host, because its pull was stale, forgets about it. A later greeting there asks nobody,
and a later pull that came there is not answered. For the first of these two supervisors are enough.
"""

from __future__ import annotations

import pytest
from relm_bench import (
    SECOND,
    THREE_DOMAINS,
    TWO_DOMAINS,
    VARIANTS,
    broken,
    leftovers,
    line,
    move,
    number,
    play,
    relm_bench,
)
from relm_trials import trial

from castbed.testing import Bench
from castbed_plugins.relm.packets import Data


def between_two_supervisors(variant: str = "published") -> Bench:
    """SH3's message is at SH1 before c comes there from SH2, and on a slow wire to SH2 until c is gone."""
    bench = relm_bench(THREE_DOMAINS, variant=variant)
    bench.submit("SH3")
    slow = bench.copies(Data, to="SH2")
    assert [line(bench, copy) for copy in slow] == ["SH3>SH2 Data 1"]
    bench.settle(lambda copy: copy not in slow)
    move(bench, "c", "M1")
    bench.settle(lambda copy: copy not in slow)
    return bench


def test_a_message_can_fall_between_the_old_and_the_new_supervisor() -> None:
    """M1 refuted: c stays a member all the time and never gets the message."""
    bench = between_two_supervisors()
    assert play(bench) == ["SH3>SH2 Data 1", "SH2>SH3 Delivered 1", "SH3>SH1 Discard 1", "SH3>SH2 Discard 1"]
    assert bench.delivered("a") == ["SH3.1"]
    assert bench.delivered("c") == []
    assert leftovers(bench) == {}
    assert broken(bench)["exactly_once"] == ["SH3 submitted SH3.1, but c never delivered it."]
    assert broken(bench)["agreement"] == ["a delivered SH3.1, but c never delivered it."]


def test_repaired_lets_nothing_fall_between_the_old_and_the_new_supervisor() -> None:
    """The same schedule, and then more of that source."""
    bench = between_two_supervisors("repaired")
    assert bench.delivered("c") == ["SH3.1"]
    bench.settle()
    for _ in range(3):
        bench.submit("SH3")
    bench.run(SECOND)
    assert bench.delivered("c") == [f"SH3.{number}" for number in (1, 2, 3, 4)]
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_after_the_gap_the_host_hears_no_more_of_that_source() -> None:
    """M1 and FIFO (M2) together: everything later waits for ever for what nobody keeps any more."""
    bench = between_two_supervisors()
    bench.settle()
    for _ in range(3):
        bench.submit("SH3")
    bench.submit("SH1")
    bench.run(SECOND)
    assert bench.delivered("c") == ["SH1.1"]
    assert "c still holds SH3.2 at the end, waiting for SH3.1." in broken(bench)["liveness"]
    assert leftovers(bench) == {"buffer": 9, "pending": 3, "awaiting": 3, "queue": 3}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("source", ["SH1", "SH2"])
def test_nothing_falls_between_when_one_of_the_two_is_the_source(source: str, variant: str) -> None:
    """The message and MOVED then travel on one FIFO wire, or the message is there from the start."""
    bench = relm_bench(THREE_DOMAINS, variant=variant)
    bench.submit(source)
    slow = bench.copies(Data)
    bench.settle(lambda copy: copy not in slow and copy.to not in ("SH1", "SH2"))
    move(bench, "c", "M1")
    bench.settle()
    bench.run(SECOND)
    assert bench.delivered("c") == [f"{source}.1"]
    assert broken(bench) == {}


def test_the_simulator_finds_it_with_three_supervisors_and_uneven_wires() -> None:
    failed = [set(trial(seed, supervisors=3, wire_ms=60).failed) for seed in range(1, 6)]
    assert {"exactly_once", "agreement", "liveness"} in failed


def test_in_the_same_runs_repaired_stands() -> None:
    assert [trial(seed, supervisors=3, wire_ms=60, variant="repaired").failure for seed in range(1, 6)] == [""] * 5


def walk(bench: Bench, slow_to: str) -> None:
    """c goes to M1, back to where it was without hearing the HELLOACK, and on; SH1's wire to its supervisor is slow."""
    cell, back, last = {"SH2": ("M1", "M2", "M1"), "SH3": ("M1", "M3", "M2")}[slow_to]
    for station, deaf in ((cell, ()), (back, ("c",)), (last, ())):
        move(bench, "c", station)
        settle_but(bench, slow_to, deaf)
    bench.settle()


def settle_but(bench: Bench, slow_to: str, deaf: tuple[str, ...]) -> None:
    bench.settle(lambda copy: (copy.sender, copy.to) != ("SH1", slow_to) and copy.to not in deaf)


def turned_away_and_back(variant: str) -> Bench:
    """The pull for c's first move is late; SH2, of which c was, calls it stale, and SH1 gives c up. Then c is back."""
    bench = relm_bench(variant=variant)
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "c")
    walk(bench, slow_to="SH2")
    return bench


def test_a_supervisor_takes_a_host_in_that_it_gave_up_and_asks_nobody() -> None:
    """M1 refuted with two supervisors: the message stays at M2, for both believe that c is theirs."""
    bench = turned_away_and_back("published")
    bench.run(SECOND)
    assert all(number(bench, "c") in bench.machines[name].location for name in TWO_DOMAINS)
    assert broken(bench)["exactly_once"] == ["SH1 submitted SH1.1, but c never delivered it."]
    assert leftovers(bench) == {"buffer": 2, "pending": 1, "awaiting": 1, "queue": 1}


def test_repaired_asks_whoever_called_the_pull_stale() -> None:
    """The same schedule: SH2 has heard of the later move."""
    bench = turned_away_and_back("repaired")
    assert number(bench, "c") not in bench.machines["SH2"].location
    assert bench.delivered("c") == ["SH1.1"]
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def pull_that_finds_nobody(variant: str) -> Bench:
    """SH1 gives c up, for c is back at SH3; a pull of SH2 for a later move has come to SH1 meanwhile."""
    bench = relm_bench(THREE_DOMAINS, {"c": "M3"}, variant)
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "c")
    walk(bench, slow_to="SH3")
    return bench


def test_a_pull_is_not_answered_where_the_host_was_given_up() -> None:
    """M1 refuted: SH2 waits for ever, and c is in no domain."""
    bench = pull_that_finds_nobody("published")
    bench.run(SECOND)
    assert broken(bench)["exactly_once"] == ["SH1 submitted SH1.1, but c never delivered it."]
    assert leftovers(bench)["arrivals"] == 1


def test_repaired_passes_the_pull_on_to_whoever_called_its_own_stale() -> None:
    bench = pull_that_finds_nobody("repaired")
    assert bench.machines["SH2"].location == {number(bench, "c"): number(bench, "M2")}
    assert bench.delivered("c") == ["SH1.1"]
    assert leftovers(bench) == {}
    assert broken(bench) == {}
