"""Where M1 (exactly once) fails within what RelM needs: wires that are reliable and FIFO, but of different delays.

The old supervisor forwards what it has received, the new one passes on what it receives from step 4 on. A message that
reaches the new one before that and the old one after MOVED is nobody's. It takes a source that is neither of the two.
"""

from __future__ import annotations

import pytest
from relm_bench import SECOND, broken, leftovers, line, move, play, relm_bench
from relm_trials import trial

from castbed.testing import Bench
from castbed_plugins.relm.packets import Data

THREE_DOMAINS = {"SH1": ("M1",), "SH2": ("M2",), "SH3": ("M3",)}


def fallen_between_two_supervisors() -> Bench:
    """SH3's message is at SH1 before c comes there from SH2, and on a slow wire to SH2 until c is gone."""
    bench = relm_bench(THREE_DOMAINS)
    bench.submit("SH3")
    slow = bench.copies(Data, to="SH2")
    assert [line(bench, copy) for copy in slow] == ["SH3>SH2 Data 1"]
    bench.settle(lambda copy: copy not in slow)
    move(bench, "c", "M1")
    bench.settle(lambda copy: copy not in slow)
    return bench


def test_a_message_can_fall_between_the_old_and_the_new_supervisor() -> None:
    """M1 refuted: c stays a member all the time and never gets the message."""
    bench = fallen_between_two_supervisors()
    assert play(bench) == ["SH3>SH2 Data 1", "SH2>SH3 Delivered 1", "SH3>SH1 Discard 1", "SH3>SH2 Discard 1"]
    assert bench.delivered("a") == ["SH3.1"]
    assert bench.delivered("c") == []
    assert leftovers(bench) == {}
    assert broken(bench)["exactly_once"] == ["SH3 submitted SH3.1, but c never delivered it."]
    assert broken(bench)["agreement"] == ["a delivered SH3.1, but c never delivered it."]


def test_after_the_gap_the_host_hears_no_more_of_that_source() -> None:
    """M1 and FIFO (M2) together: everything later waits for ever for what nobody keeps any more."""
    bench = fallen_between_two_supervisors()
    bench.settle()
    for _ in range(3):
        bench.submit("SH3")
    bench.submit("SH1")
    bench.run(SECOND)
    assert bench.delivered("c") == ["SH1.1"]
    assert "c still holds SH3.2 at the end, waiting for SH3.1." in broken(bench)["liveness"]
    assert leftovers(bench) == {"buffer": 9, "pending": 3, "awaiting": 3, "queue": 3}


@pytest.mark.parametrize("source", ["SH1", "SH2"])
def test_nothing_falls_between_when_one_of_the_two_is_the_source(source: str) -> None:
    """The message and MOVED then travel on one FIFO wire, or the message is there from the start."""
    bench = relm_bench(THREE_DOMAINS)
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
