"""Links on raw interfaces: cables, in a namespace that the test makes."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from wifi_ears import TOKEN, Ear, frame, links
from wifi_space import cable, in_namespace, set_link

from castbed import ConfigurationError, UnavailableError
from castbed.links import NOWHERE, SHARED_AIR
from castbed_adapters import receiving
from castbed_adapters.pieces import PIECE_OVERHEAD, PIECES_MAX
from castbed_adapters.receive_buffer import ReceiveBuffer
from castbed_adapters.receiving import make_room
from castbed_adapters.wifi import links as wifi_links
from castbed_adapters.wifi.links import QUEUE_MAX, WifiLinks
from castbed_adapters.wifi.options import WifiOptions
from castbed_adapters.wifi.sockets import open_packet_socket


def on_a_cable(work: Callable[[], Awaitable[None]], loop: Any = asyncio.new_event_loop, **how: Any) -> None:
    async def all_of_it() -> None:
        await work()

    def inside() -> None:
        cable(**how)
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(all_of_it())

    in_namespace(inside)


def test_a_frame_arrives_as_it_was_with_the_kernels_time() -> None:
    async def work() -> None:
        sender, receiver = links(1, "one"), links(2, "other")
        async with Ear(sender, receiver) as ear:
            before = time.time_ns()
            sender.transmit(frame(), ())
            sender.flush()
            (arrival,) = await ear.heard(1)
            assert (arrival.on_wire, arrival.to, arrival.frame) == (False, (), frame())
            assert before <= arrival.at <= time.time_ns()

    on_a_cable(work)


def test_many_frames_arrive_in_order_and_the_largest_in_pieces() -> None:
    async def work() -> None:
        sender, receiver = links(1, "one"), links(2, "other")
        async with Ear(sender, receiver) as ear:
            sent = [frame(bytes([number % 256]) * (number * 37 % 4000)) for number in range(300)]
            for one in (*sent, frame(bytes(200_000))):
                sender.transmit(one, ())
                sender.flush()
            arrivals = await ear.heard(301)
            assert [arrival.frame for arrival in arrivals] == [*sent, frame(bytes(200_000))]
            assert not +receiver.counters

    on_a_cable(work)


def test_frames_that_nobody_reads_in_time_are_counted() -> None:
    async def work() -> None:
        options = WifiOptions(interface="other", receive_buffer=ReceiveBuffer(4_096))
        sender, receiver = links(1, "one"), WifiLinks(2, TOKEN, "other", options)
        for end in (sender, receiver):
            await end.open()
            end.tune(SHARED_AIR)
        for _ in range(200):
            sender.transmit(frame(bytes(1_000)), ())
            sender.flush()
        await sender.close()
        await receiver.close()
        assert 100 < receiver.counters["overrun"] <= 200

    on_a_cable(work)


def test_a_small_mtu_makes_smaller_pieces() -> None:
    async def work() -> None:
        sender, receiver = links(1, "one"), links(2, "other")
        async with Ear(sender, receiver) as ear:
            sender.transmit(frame(bytes(2_000)), ())
            sender.flush()
            assert [arrival.frame for arrival in await ear.heard(1)] == [frame(bytes(2_000))]

    on_a_cable(work, mtu=300)


def test_a_tiny_mtu_bounds_the_frames_that_the_host_may_send() -> None:
    async def work() -> None:
        sender, receiver = links(1, "one"), links(2, "other")
        async with Ear(sender, receiver) as ear:
            room = PIECES_MAX * (100 - PIECE_OVERHEAD)
            assert room - 512 < sender.air_frame_bytes_max < room
            largest = frame(bytes(sender.air_frame_bytes_max - len(frame(b""))))
            for to in ((), tuple(range(2, 66))):
                sender.transmit(largest, to)
                sender.flush()
            assert [arrival.frame for arrival in await ear.heard(2)] == [largest] * 2
            assert not +sender.counters

    on_a_cable(work, mtu=100)


def test_who_is_not_meant_or_out_of_range_or_in_another_run_hears_nothing() -> None:
    async def work() -> None:
        sender, stranger = links(1, "one"), links(1, "one", b"yonder!!")
        receiver = links(2, "other")
        async with Ear(sender, stranger, receiver) as ear:
            sender.transmit(frame(), (3,))
            stranger.transmit(frame(), ())
            stranger.transmit(frame(bytes(3_000)), ())
            sender.transmit(frame(b"for you"), (2,))
            sender.transmit(frame(b"for both"), (2, 3))
            for end in (sender, stranger):
                end.flush()
            heard = [(arrival.to, arrival.frame) for arrival in await ear.heard(2)]
            assert heard == [((2,), frame(b"for you")), ((2, 3), frame(b"for both"))]
            assert receiver.counters["foreign"] >= 2
            receiver.tune(NOWHERE)
            sender.transmit(frame(b"too far"), ())
            sender.transmit(frame(bytes(3_000)), ())
            sender.flush()
            assert len(await ear.heard(3)) == 2
            assert receiver.counters["out_of_range"] == 1

    on_a_cable(work)


def test_nodes_that_share_an_interface_hear_each_other_once_and_not_themselves() -> None:
    async def work() -> None:
        one, two = links(1, "one"), links(2, "one")
        async with Ear(one, two) as ear:
            two.transmit(frame(sender=2), ())
            one.transmit(frame(), ())
            two.flush()
            one.flush()
            assert [arrival.frame for arrival in await ear.heard(1)] == [frame()]

    on_a_cable(work)


def test_noise_on_the_interface_is_counted_and_nothing_else() -> None:
    async def work() -> None:
        sender, receiver = links(1, "one"), links(2, "other")
        async with Ear(sender, receiver) as ear:
            raw = open_packet_socket("one", (0, 0), 65_536, stamps=False)
            head = b"\xff" * 6 + raw.address
            for kind in (b"\x88\xb5", b"\x88\xb6", b"\x08\x00"):
                raw.socket.send(head + kind + os.urandom(80))
            raw.socket.close()
            sender.transmit(frame(), ())
            sender.flush()
            assert [arrival.frame for arrival in await ear.heard(1)] == [frame()]
            assert receiver.counters == {"malformed": 2}

    on_a_cable(work)


@pytest.mark.parametrize("module", ["asyncio", "uvloop"])
def test_a_node_hears_again_when_its_interface_is_back(module: str) -> None:
    async def work() -> None:
        sender, receiver = links(1, "one"), links(2, "other")
        async with Ear(sender, receiver) as ear:
            for state in ("down", "up"):
                set_link("other", state)
                await asyncio.sleep(0.1)
            await receiver._carrier()
            sender.transmit(frame(), ())
            sender.flush()
            assert [arrival.frame for arrival in await ear.heard(1)] == [frame()]
            assert receiver.counters == {"unreceivable": 1}

    on_a_cable(work, loop=pytest.importorskip(module).new_event_loop)


class Stuck(WifiLinks):
    """The interface takes nothing, or tells that its queue is full, as long as the test wants."""

    why: OSError | None = None

    def _sent(self, frame: bytes) -> bool:
        if self.why is None:
            return super()._sent(frame)
        kept, self._socket = self._socket, Full(self.why)  # type: ignore[assignment]
        try:
            return super()._sent(frame)
        finally:
            self._socket = kept


class Full:
    """A socket that takes nothing."""

    def __init__(self, why: OSError) -> None:
        self._why = why

    def send(self, _: bytes) -> None:
        raise self._why

    def fileno(self) -> int:
        return -1


def test_an_interface_that_takes_all_loses_nothing_of_what_is_said_in_one_go() -> None:
    async def work() -> None:
        sender, receiver = links(1, "one"), links(2, "other")
        async with Ear(sender, receiver) as ear:
            for _ in range(2 * QUEUE_MAX):
                sender.transmit(frame(), ())
            sender.flush()
            assert not sender.congested
            assert len(await ear.heard(2 * QUEUE_MAX)) == 2 * QUEUE_MAX
            assert not +sender.counters

    on_a_cable(work)


@pytest.mark.parametrize("why", [BlockingIOError(), OSError(errno.ENOBUFS, "No buffer space available")], ids=repr)
def test_a_full_queue_drops_whole_letters_and_what_waits_is_sent_later(why: OSError) -> None:
    async def work() -> None:
        sender, receiver = Stuck(1, TOKEN, "one", WifiOptions(interface="one")), links(2, "other")
        async with Ear(sender, receiver) as ear:
            sender.why = why
            for _ in range(QUEUE_MAX):
                sender.transmit(frame(), ())
            assert sender.congested
            sender.transmit(frame(bytes(3_000)), ())
            sender.flush()
            assert sender.counters == {"queue_full": 1}
            sender.why = None
            assert len(await ear.heard(QUEUE_MAX)) == QUEUE_MAX
            assert not sender.congested
            assert sender.counters == {"queue_full": 1}

    on_a_cable(work)


def test_what_is_lost_because_the_run_ends_is_counted() -> None:
    async def work() -> None:
        sender, receiver = Stuck(1, TOKEN, "one", WifiOptions(interface="one")), links(2, "other")
        async with Ear(sender, receiver):
            sender.transmit(frame(bytes(3_000)), ())
            sender._queue.pop()
            sender.flush()
            for _ in range(400):
                if len(receiver._reassembly) == 1:
                    break
                await asyncio.sleep(0.005)
            sender.why = BlockingIOError()
            for _ in range(3):
                sender.transmit(frame(), ())
        assert sender.counters == {"unsent": 3}
        assert receiver.counters == {"incomplete": 1}

    on_a_cable(work)


def test_a_buffer_that_the_system_makes_smaller_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root of the machine itself gets more than net.core.rmem_max."""
    counters: Counter[str] = Counter()
    limit = int(Path("/proc/sys/net/core/rmem_max").read_text(encoding="ascii"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        make_room(receiver, limit, counters)
        assert not counters
        monkeypatch.setattr(receiving, "SO_RCVBUFFORCE", socket.SO_RCVBUF)
        make_room(receiver, limit + 1, counters)
        assert counters == {"small_buffer": 1}


def test_what_no_interface_of_this_kind_can_do_is_said() -> None:
    async def work() -> None:
        with pytest.raises(ConfigurationError, match="there is no interface 'wlan7' \\(there are: lo, one, other\\)"):
            await links(1, "wlan7").open()
        with pytest.raises(ConfigurationError, match="'one' is not in monitor mode"):
            await links(1, "one", mode="monitor").open()

    on_a_cable(work)


def test_an_interface_without_a_carrier_is_waited_for_and_then_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wifi_links, "CARRIER_TRIES", 3)

    async def work() -> None:
        with pytest.raises(UnavailableError, match="the interface 'one' is down or has no carrier"):
            await links(1, "one").open()

    on_a_cable(work, plugged=False)


def test_an_interface_that_vanishes_while_its_carrier_is_awaited_is_named() -> None:
    async def work() -> None:
        asyncio.get_running_loop().call_later(0.05, lambda: subprocess.run(["ip", "link", "del", "one"], check=True))
        with pytest.raises(UnavailableError, match=r"the interface 'one' is gone \(No such device\)"):
            await links(1, "one").open()

    on_a_cable(work, plugged=False)


def test_without_the_right_to_raw_sockets_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(UnavailableError, match="raw frames need root \\(CAP_NET_RAW\\)"):
        open_packet_socket("lo", (0, 0), 65_536, stamps=False)
