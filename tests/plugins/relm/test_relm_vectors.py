"""The minimal test vectors RV1 to RV5 of the spec (section 8), as transcripts: the same for both variants."""

from __future__ import annotations

import pytest
from relm_bench import VARIANTS, broken, expire, leftovers, line, move, play, relm_bench

from castbed.testing import Bench
from castbed_plugins.relm.packets import Ack, Data

pytestmark = pytest.mark.parametrize("variant", VARIANTS)


def test_rv1_a_message_goes_to_both_domains_and_is_released(variant: str) -> None:
    """RV1; Source-1, SH-1, MSS-1, MH-1, SH-2, Source-2, SH-3 in a row."""
    bench = relm_bench(variant=variant)
    bench.submit("SH1", b"hello")
    assert play(bench) == [
        "SH1>SH2 Data 1",
        "SH1>M1 Downward 1",
        "SH2>M2 Downward 1",
        "M1>~a Data 1",
        "M2>~c Data 1",
        "a>~M1 Ack 1",
        "c>~M2 Ack 1",
        "M1>SH1 Ack 1",
        "M2>SH2 Ack 1",
        "SH2>SH1 Delivered 1",
        "SH1>SH2 Discard 1",
    ]
    assert bench.delivered("a") == bench.delivered("c") == ["SH1.1"]
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_rv2_a_lost_message_is_sent_again(variant: str) -> None:
    """RV2: radio loss at c, then T_ARQ."""
    bench = relm_bench(variant=variant)
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "c")
    assert bench.lose() == 1
    assert leftovers(bench) == {"buffer": 2, "pending": 1, "awaiting": 1, "queue": 1}
    expire(bench, "M2", "c", "SH1.1")
    assert play(bench) == ["M2>~c Data 1", "c>~M2 Ack 1", "M2>SH2 Ack 1", "SH2>SH1 Delivered 1", "SH1>SH2 Discard 1"]
    assert bench.delivered("c") == ["SH1.1"]
    assert leftovers(bench) == {}


def test_rv3_a_lost_acknowledgement_costs_a_second_copy_but_no_second_delivery(variant: str) -> None:
    """RV3: the host drops the second copy and acknowledges again."""
    bench = relm_bench(variant=variant)
    bench.submit("SH1")
    bench.settle(lambda copy: not (isinstance(copy.packet, Ack) and copy.sender == "c"))
    assert bench.lose() == 1
    expire(bench, "M2", "c", "SH1.1")
    assert play(bench)[:3] == ["M2>~c Data 1", "c>~M2 Ack 1", "M2>SH2 Ack 1"]
    assert bench.delivered("c") == ["SH1.1"]
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def two_undelivered_at_m2(variant: str) -> Bench:
    """SH1 sent two messages, of which c has received none."""
    bench = relm_bench(variant=variant)
    bench.submit("SH1")
    bench.submit("SH1")
    bench.settle(lambda copy: copy.to != "c")
    bench.lose(lambda copy: copy.to == "c")
    return bench


def test_rv4_undelivered_messages_follow_the_host_in_order(variant: str) -> None:
    """RV4; handoff steps 1 to 6."""
    bench = two_undelivered_at_m2(variant)
    move(bench, "c", "M1")
    assert play(bench) == [
        "c>~M1 Hello",
        "M1>SH1 Hello",
        "SH1>M1 HelloAck",
        "SH1>SH2 Pull",
        "M1>~c HelloAck",
        "SH2>M2 Pull",
        "M2>SH2 Forward 1",
        "M2>SH2 Forward 2",
        "M2>SH2 Pulled",
        "SH2>SH1 Forward 1",
        "SH2>SH1 Forward 2",
        "SH2>SH1 Pulled",
        "SH1>M1 Forward 1",
        "SH1>M1 Forward 2",
        "SH1>SH2 Moved",
        "M1>~c Data 1",
        "M1>~c Data 2",
        "SH2>SH1 Delivered 1",
        "SH2>SH1 Delivered 2",
        "c>~M1 Ack 1",
        "c>~M1 Ack 2",
        "SH1>SH2 Discard 1",
        "SH1>SH2 Discard 2",
        "M1>SH1 Ack 1",
        "M1>SH1 Ack 2",
    ]
    assert bench.delivered("c") == ["SH1.1", "SH1.2"]
    assert leftovers(bench) == {}
    assert broken(bench) == {}


def test_rv4_what_was_handed_in_is_kept_over_a_discard(variant: str) -> None:
    """RV4: DISCARD drops the buffer, `handed_in` stays until the host acknowledges (section 3)."""
    bench = two_undelivered_at_m2(variant)
    move(bench, "c", "M1")
    bench.settle(lambda copy: not isinstance(copy.packet, Data))
    assert leftovers(bench) == {"handed_in": 2, "queue": 2}
    bench.settle()
    assert leftovers(bench) == {}


def test_rv5_a_host_that_misses_nothing_costs_no_forward(variant: str) -> None:
    """RV5: the answer to the pull is empty."""
    bench = relm_bench(variant=variant)
    bench.submit("SH1")
    play(bench)
    move(bench, "c", "M1")
    assert play(bench) == [
        "c>~M1 Hello",
        "M1>SH1 Hello",
        "SH1>M1 HelloAck",
        "SH1>SH2 Pull",
        "M1>~c HelloAck",
        "SH2>M2 Pull",
        "M2>SH2 Pulled",
        "SH2>SH1 Pulled",
        "SH1>SH2 Moved",
    ]
    bench.submit("SH2")
    assert [line(bench, copy) for copy in bench.in_flight] == ["SH2>SH1 Data 1"]
    play(bench)
    assert bench.delivered("c") == ["SH1.1", "SH2.1"]
