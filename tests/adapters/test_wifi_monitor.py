"""Links in monitor mode: a make-believe interface with radiotap headers, in a namespace that the test makes."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from wifi_ears import TOKEN, Ear, frame, links
from wifi_space import in_namespace, monitor

from castbed.links import SHARED_AIR
from castbed.wire import ETHERTYPE
from castbed_adapters.wifi.envelope import letter_bytes
from castbed_adapters.wifi.framing import MonitorFraming
from castbed_adapters.wifi.links import DEFAULT_BSSID


def in_monitor_mode(work: Callable[[int], Awaitable[None]], **how: Any) -> None:
    """`work` gets the descriptor that is the air of the interface mon0."""

    async def all_of_it(air: int) -> None:
        await work(air)

    def inside() -> None:
        air = monitor(**how)
        try:
            asyncio.run(all_of_it(air))
        finally:
            os.close(air)

    in_namespace(inside)


def injected(air: int) -> list[bytes]:
    """What went out so far."""
    frames = []
    with suppress(BlockingIOError):
        while True:
            frames.append(os.read(air, 65_536))
    return frames


@pytest.mark.parametrize("mtu", [1500, 3000], ids=["of a cable", "as large as 802.11 has"])
def test_what_is_too_long_for_one_injected_frame_goes_in_pieces_that_the_interface_takes(mtu: int) -> None:
    async def work(air: int) -> None:
        sender, receiver = links(1, "mon0", mode="monitor"), links(2, "mon0", mode="monitor")
        async with Ear(sender, receiver) as ear:
            sent = [frame(bytes(size)) for size in (1_300, 1_400, 2_200, 2_304, 10_000)]
            for one in sent:
                sender.transmit(one, ())
                sender.flush()
            assert [arrival.frame for arrival in await ear.heard(len(sent))] == sent
            assert max(map(len, injected(air))) <= mtu
            assert not +sender.counters

    in_monitor_mode(work, mtu=mtu)


RECEIVED = struct.pack("<BxHI", 0, 8, 0)  # a radiotap header without any field
REPORTED = struct.pack("<BxHIBxHBx", 0, 14, 1 << 2 | 1 << 15 | 1 << 17, 2, 8, 0)
"""Radiotap as of mac80211's report of a transmission: rate, TX flags, and how often it was tried again."""


def dot11(wrapped: bytes) -> bytes:
    """What is behind the radiotap header of a frame that was wrapped for injection."""
    return wrapped[wrapped.index(b"\x08\x00", 12) :]


def test_on_a_shared_monitor_interface_the_drivers_report_of_a_frame_is_not_heard_as_another_one() -> None:
    async def work(air: int) -> None:
        one, two = links(1, "mon0", mode="monitor"), links(2, "mon0", mode="monitor")
        async with Ear(one, two) as ear:
            one.transmit(frame(), ())
            one.flush()
            os.write(air, REPORTED + dot11(injected(air)[0]))
            assert [arrival.frame for arrival in await ear.heard(1)] == [frame()]
            assert two.counters["foreign"] == 1

    in_monitor_mode(work)


def test_frames_are_injected_and_captured_in_monitor_mode() -> None:
    async def work(air: int) -> None:
        me = links(1, "mon0", mode="monitor")
        async with Ear(me) as ear:
            me.transmit(frame(), ())
            me.flush()
            await asyncio.sleep(0.05)
            framing = MonitorFraming(b"\x02\xcb\0\0\0\2", bytes.fromhex(DEFAULT_BSSID.replace(":", "")))
            assert framing.unwrapped(injected(air)[0], True) == (
                ETHERTYPE,
                letter_bytes(TOKEN, frame(), SHARED_AIR, ()),
            )
            letter = letter_bytes(TOKEN, frame(sender=2), SHARED_AIR, ())
            os.write(air, RECEIVED + dot11(framing.wrapped(ETHERTYPE, letter)))
            assert [arrival.frame for arrival in await ear.heard(1)] == [frame(sender=2)]

    in_monitor_mode(work)


def padded(framing: MonitorFraming, letter: bytes, with_time: bool) -> bytes:
    """A frame as of a driver that pads the 802.11 header to four bytes: QoS data, radiotap with flags."""
    present = 0b11 if with_time else 0b10
    fields = (bytes(8) if with_time else b"") + b"\x20"
    radiotap = struct.pack("<BxHI", 0, 8 + len(fields), present) + fields
    plain = dot11(framing.wrapped(ETHERTYPE, letter))
    return radiotap + b"\x88" + plain[1:24] + bytes(2) + bytes(2) + plain[24:]


@pytest.mark.parametrize("with_time", [False, True])
def test_the_padding_that_radiotap_tells_of_is_passed_over(with_time: bool) -> None:
    framing = MonitorFraming(b"\x02\xcb\0\0\0\2", bytes.fromhex(DEFAULT_BSSID.replace(":", "")))
    letter = letter_bytes(TOKEN, frame(), SHARED_AIR, ())
    assert framing.unwrapped(padded(framing, letter, with_time), True) == (ETHERTYPE, letter)
