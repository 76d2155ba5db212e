"""The air of `udp`, socket by socket: who hears what, what is dropped and counted, and what travels together."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest
from udp_radios import TOKEN, Radio, loopback_groups, on_air, settled

from castbed.links import NOWHERE, SHARED_AIR, Arrival
from castbed_adapters.udp.addresses import Groups
from castbed_adapters.udp.air import ENVELOPE, MAGIC, QUEUE_CONGESTED, QUEUE_MAX, SLIP, VERSION, checked


@pytest.fixture
def groups() -> Groups:
    return loopback_groups()


def test_a_frame_is_heard_in_its_cell_by_those_it_is_for(groups: Groups) -> None:
    async def play(*radios: Radio) -> list[list[bytes]]:
        radios[0].transmit(b"all", ())
        radios[0].transmit(b"two", (2,))
        radios[0].transmit(b"two and three", (2, 3))
        radios[0].flush()
        await settled()
        return [radio.heard for radio in radios]

    heard = on_air(groups, play, 7, 7, 7, 8)
    assert heard == [[], [b"all", b"two", b"two and three"], [b"all", b"two and three"], []]


def test_frames_for_one_and_for_all_stay_in_order(groups: Groups) -> None:
    frames = [(str(number).encode(), (2,) if number % 3 else ()) for number in range(300)]

    async def play(sender: Radio, receiver: Radio) -> list[bytes]:
        for frame, to in frames:
            sender.transmit(frame, to)
        sender.flush()
        await settled()
        return receiver.heard

    assert on_air(groups, play, SHARED_AIR, SHARED_AIR) == [frame for frame, _ in frames]


def test_who_moves_hears_the_new_cell_and_who_is_away_hears_nothing(groups: Groups) -> None:
    async def play(*radios: Radio) -> list[bytes]:
        one, other, mover = radios
        for cell in (1, 2, NOWHERE):
            mover.tune(cell)
            for radio in (one, other):
                radio.transmit(b"%d while %d" % (radio._me, cell), ())
                radio.transmit(b"%d to you while %d" % (radio._me, cell), (3,))
                radio.flush()
            await settled()
        return mover.heard

    assert on_air(groups, play, 1, 2, 1) == [b"1 while 1", b"1 to you while 1", b"2 while 2", b"2 to you while 2"]


def test_small_frames_share_datagrams_of_the_size_that_is_set(groups: Groups) -> None:
    async def play(sender: Radio, receiver: Radio) -> tuple[list[int], int]:
        for _ in range(100):
            sender.transmit(bytes(64), ())
        assert sender.sizes[-1:] != []
        sender.flush()
        await settled()
        return sender.sizes, len(receiver.arrivals)

    sizes, arrived = on_air(groups, play, SHARED_AIR, SHARED_AIR)
    assert arrived == 100
    assert len(sizes) == 6
    assert 1400 - 64 - SLIP.size < sizes[0] <= 1400


def test_arrivals_have_the_time_of_the_kernel(groups: Groups) -> None:
    import time

    async def play(sender: Radio, receiver: Radio) -> tuple[int, int, int]:
        before = time.time_ns()
        sender.transmit(b"when?", ())
        sender.flush()
        after = time.time_ns()
        await settled()
        return before, receiver.arrivals[0].at, after

    before, at, after = on_air(groups, play, SHARED_AIR, SHARED_AIR)
    assert before <= at <= after


def test_what_the_interface_does_not_take_now_waits_and_the_queue_has_an_end(groups: Groups) -> None:
    class Stuck(Radio):
        stuck = True

        def _sent(self, data: bytes, address: Any, step: int) -> bool:
            return False if self.stuck else super()._sent(data, address, step)

    async def run() -> tuple[bool, bool, int, int]:
        sender, receiver = Stuck(1, groups), Radio(2, groups)
        sender.tune(SHARED_AIR)
        receiver.tune(SHARED_AIR)
        relaxed = sender.congested
        for number in range(QUEUE_MAX + 10):
            sender.transmit(number.to_bytes(4, "big"), ())
            sender.flush()
        congested = sender.congested
        sender.stuck = False
        for _ in range(200):
            await asyncio.sleep(0.002)
        result = relaxed, congested, sender.counters["queue_full"], len(receiver.arrivals)
        assert receiver.heard == [number.to_bytes(4, "big") for number in range(len(receiver.arrivals))]
        sender.close()
        receiver.close()
        return result

    relaxed, congested, full, arrived = asyncio.run(run())
    assert (relaxed, congested, full) == (False, True, 10)
    assert QUEUE_CONGESTED < arrived <= QUEUE_MAX


def test_what_still_waits_at_the_end_is_counted(groups: Groups) -> None:
    class Stuck(Radio):
        def _sent(self, *_: Any) -> bool:
            return False

    async def run() -> int:
        sender = Stuck(1, groups)
        sender.tune(SHARED_AIR)
        for _ in range(3):
            sender.transmit(b"late", ())
            sender.flush()
        sender.close()
        return sender.counters["unsent"]

    assert asyncio.run(run()) == 3


def test_foreign_and_malformed_datagrams_are_counted_and_never_heard(groups: Groups) -> None:
    whole = ENVELOPE.pack(MAGIC, VERSION, TOKEN, 1, SHARED_AIR) + SLIP.pack(3, 0) + b"abc"
    junk = {
        b"": "malformed",
        b"short": "malformed",
        bytes(64): "foreign",
        checked(whole.replace(TOKEN, b"that run")): "foreign",
        checked(whole[:-1]): "malformed",
        checked(whole + b"\0"): "malformed",
        checked(whole + SLIP.pack(1 << 31, 0)): "malformed",
        checked(whole + SLIP.pack(0, 60_000)): "malformed",
        checked(whole)[:-1] + b"\0": "malformed",
        whole: "malformed",
    }

    async def play(_: Radio, receiver: Radio) -> tuple[list[bytes], Counter[str]]:
        with groups.open_socket() as stranger:
            for datagram in junk:
                stranger.sendto(datagram, groups.reached_at(groups.of_cell(SHARED_AIR)))
            await settled()
        return receiver.heard, receiver.counters

    heard, counters = on_air(groups, play, SHARED_AIR, SHARED_AIR)
    counters.pop("small_buffer", None)  # who is not root may get no larger one
    assert heard == []
    assert counters == Counter(junk.values())


def fuzzed(random: Random, datagram: bytes) -> bytes:
    """Changed in one to four places, and perhaps cut."""
    changed = bytearray(datagram)
    for at in random.sample(range(len(changed)), random.randint(1, 4)):
        changed[at] ^= random.randint(1, 255)
    return bytes(changed[: random.choice((len(changed), random.randint(0, len(changed))))])


def test_no_fuzzed_datagram_is_heard_and_with_a_new_checksum_none_raises(groups: Groups) -> None:
    random = Random(5)
    whole = ENVELOPE.pack(MAGIC, VERSION, TOKEN, 1, SHARED_AIR)
    whole += SLIP.pack(3, 0) + b"abc" + SLIP.pack(4, 1) + (2).to_bytes(4, "big") + b"defg"

    async def play(_: Radio, receiver: Radio) -> tuple[int, int]:
        heard: list[Arrival] = []
        for _ in range(20_000):
            garbled, forged = fuzzed(random, checked(whole)), checked(fuzzed(random, whole))
            for datagram, arrivals in ((garbled, heard), (forged, [])):
                receiver._take(memoryview(datagram), 0, arrivals)
        return len(heard), sum(receiver.counters.values())

    heard, dropped = on_air(groups, play, SHARED_AIR, SHARED_AIR)
    assert heard == 0
    assert dropped > 30_000


def test_a_frame_for_one_goes_along_in_a_datagram_for_everybody(groups: Groups) -> None:
    async def play(one: Radio, other: Radio, third: Radio) -> tuple[int, list[bytes], list[bytes]]:
        one.transmit(b"all", ())
        one.transmit(b"you", (2,))
        one.transmit(b"all again", ())
        one.flush()
        await settled()
        return len(one.sizes), other.heard, third.heard

    heard = on_air(groups, play, SHARED_AIR, SHARED_AIR, SHARED_AIR)
    assert heard == (1, [b"all", b"you", b"all again"], [b"all", b"all again"])
