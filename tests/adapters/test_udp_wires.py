"""The wires of `udp`, in one process and between two: what they carry, who is hung up on, and who gets a wire again."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from udp_radios import TOKEN, settled

from castbed import topology as shapes
from castbed.authentication import derived_key
from castbed.handshake import CALLER, CHALLENGE_BYTES, PROOF_BYTES, Handshake
from castbed.links import Arrival, RunSetting
from castbed.packets import Packet
from castbed_adapters.udp import wires, within
from castbed_adapters.udp.network import UdpLinks, UdpNetwork
from castbed_adapters.udp.options import UdpOptions
from castbed_adapters.udp.wires import GREETING, GREETING_MAGIC, LENGTH


class Strangers(dict[Any, Any]):
    """Nodes that live in other processes than ours."""

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nobody is found here."""


@pytest.fixture(params=["one process", "two processes"])
def homes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wires of both kinds: between nodes of one process, and as if of two."""
    if request.param == "two processes":
        monkeypatch.setattr(wires, "_here", Strangers())


SITES = shapes.sites(("A", "B", "C"))


def network(token: bytes = TOKEN, prover: Any = None) -> UdpNetwork:
    made = UdpNetwork(RunSetting(token, SITES, UdpOptions(), prover=prover))
    made.open()
    return made


class Site:
    """The links of one site, which write down what they hear."""

    def __init__(self, network: UdpNetwork, number: int) -> None:
        self.links: UdpLinks = network.links(number)
        self.heard: list[bytes] = []

    async def up(self, reaches: dict[int, Any]) -> Any:
        address = await self.links.open()
        await self.links.connect(reaches)
        return address

    def listen(self) -> None:
        self.links.listen(lambda arrivals: self.heard.extend(arrival.frame for arrival in arrivals))

    def say(self, frame: bytes, to: int) -> None:
        self.links.forward(frame, to)
        self.links.flush()


@pytest.mark.usefixtures("homes")
def test_wires_carry_frames_both_ways_in_order_and_whole() -> None:
    big = bytes(200_000)

    async def run() -> tuple[list[bytes], list[bytes]]:
        shared = network()
        one, other = Site(shared, 1), Site(shared, 2)
        await other.up({1: await one.up({})})
        one.say(b"before anybody listens", 2)
        one.listen()
        other.listen()
        for number in range(1_000):
            one.links.forward(number.to_bytes(4, "big"), 2)
        one.say(big, 2)
        other.say(b"back", 1)
        for _ in range(100):
            await asyncio.sleep(0.005)
            if len(other.heard) == 1_002:
                break
        await one.links.close()
        await other.links.close()
        return one.heard, other.heard

    back, there = asyncio.run(run())
    assert back == [b"back"]
    assert there == [b"before anybody listens", *(number.to_bytes(4, "big") for number in range(1_000)), big]


@pytest.mark.usefixtures("homes")
def test_a_peer_that_is_gone_costs_frames_and_one_that_is_back_gets_them() -> None:
    async def run() -> tuple[int, list[bytes]]:
        shared = network()
        one, other = Site(shared, 1), Site(shared, 2)
        address = await one.up({})
        one.listen()
        await other.up({1: address})
        await other.links.close()
        await settled()
        one.say(b"lost", 2)
        again = Site(shared, 2)
        await again.up({1: address})
        again.listen()
        one.say(b"heard", 2)
        await settled()
        await one.links.close()
        await again.links.close()
        return one.links.counters["peer_down"], again.heard

    assert asyncio.run(run()) == (1, [b"heard"])


def test_nodes_of_one_process_that_answer_each_other_keep_the_order_and_let_others_have_their_turn() -> None:
    async def run() -> tuple[list[bytes], int]:
        shared = network()
        one, other = Site(shared, 1), Site(shared, 2)
        await other.up({1: await one.up({})})
        turns: list[int] = []

        def answer(site: Site, to: int) -> Callable[[Sequence[Arrival]], None]:
            def heard(arrivals: Sequence[Arrival]) -> None:
                for arrival in arrivals:
                    site.heard.append(arrival.frame)
                    if len(site.heard) < 500:
                        site.links.forward(b"%d" % len(site.heard), to)
                site.links.flush()

            return heard

        one.links.listen(answer(one, 2))
        other.links.listen(answer(other, 1))
        asyncio.get_running_loop().call_soon(lambda: turns.append(len(one.heard)))
        one.say(b"0", 2)
        await settled()
        await one.links.close()
        await other.links.close()
        return other.heard, turns[0]

    heard, turn = asyncio.run(run())
    assert heard == [b"%d" % number for number in range(500)]
    assert turn < within.HANDED_OVER_AT_ONCE


def test_between_nodes_of_one_process_a_frame_need_not_be_decoded() -> None:
    async def run() -> list[Arrival]:
        shared, arrivals = network(), list[Arrival]()
        one, other = Site(shared, 1), Site(shared, 2)
        await other.up({1: await one.up({})})
        other.links.listen(arrivals.extend)
        one.links.forward(b"frame", 2, Packet())
        one.links.forward(b"another", 2)
        one.links.flush()
        for site in (one, other):
            await site.links.close()
        return arrivals

    first, second = asyncio.run(run())
    assert (first.frame, first.inside) == (b"frame", (Packet(), 1))
    assert (second.frame, second.inside) == (b"another", None)


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "foreign"),
        (GREETING.pack(GREETING_MAGIC, b"that run", 2), "foreign"),
        (GREETING.pack(GREETING_MAGIC, TOKEN, 9), "foreign"),
        (GREETING.pack(GREETING_MAGIC, TOKEN, 2) + LENGTH.pack(1 << 31), "malformed"),
    ],
)
def test_whoever_greets_wrongly_or_says_too_much_is_hung_up_on(said: bytes, counted: str) -> None:
    async def run() -> tuple[Counter[str], list[bytes]]:
        site = Site(network(), 1)
        address = await site.up({})
        site.listen()
        reader, writer = await asyncio.open_connection(*address)
        writer.write(said)
        while await reader.read(1_000):
            pass
        writer.close()
        await writer.wait_closed()
        await site.links.close()
        return site.links.counters, site.heard

    assert asyncio.run(run()) == (Counter({counted: 1}), [])


class Stranger:
    """Somebody who connects to a node and says what a node would say, as far as it can."""

    def __init__(self, address: Any) -> None:
        self._address = address

    async def __aenter__(self) -> Stranger:
        self.reader, self.writer = await asyncio.open_connection(*self._address)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        await self.writer.wait_closed()

    async def is_hung_up_on(self) -> bool:
        async with asyncio.timeout(5):
            while await self.reader.read(1_000):
                pass
        return True


def keyed(key: bytes) -> Any:
    """What a network of a run with this key begins handshakes with."""
    return lambda role, about: Handshake(role, derived_key(key, about), os.urandom(CHALLENGE_BYTES))


@pytest.mark.parametrize("key", [b"", b"a key of sixteen bytes"], ids=["no key", "a key"])
def test_a_stranger_does_not_get_the_wire_of_a_node_that_is_there(key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "_here", Strangers())
    monkeypatch.setattr(wires, "GREET_S_MAX", 0.3)

    async def run() -> tuple[list[bytes], Counter[str]]:
        shared = network(prover=keyed(key) if key else None)
        one, other = Site(shared, 1), Site(shared, 2)
        address = await one.up({})
        await other.up({1: address})
        one.listen()
        other.listen()
        async with Stranger(address) as stranger:
            stranger.writer.write(GREETING.pack(GREETING_MAGIC, TOKEN, 2))
            if key:
                stranger.writer.write(Handshake(CALLER, b"some other key of it", bytes(CHALLENGE_BYTES)).hello())
                stranger.writer.write(bytes(PROOF_BYTES))
            await settled()
            one.say(b"for the node only", 2)
            assert await stranger.is_hung_up_on()
        other.say(b"still there", 1)
        await settled()
        for site in (one, other):
            await site.links.close()
        assert one.heard == [b"still there"]
        return other.heard, one.links.counters

    assert asyncio.run(run()) == ([b"for the node only"], Counter({"foreign": 1}))


def test_whoever_does_not_greet_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "GREET_S_MAX", 0.1)

    async def run() -> Counter[str]:
        site = Site(network(), 1)
        async with Stranger(await site.up({})) as stranger:
            assert await stranger.is_hung_up_on()
        await site.links.close()
        return site.links.counters

    assert asyncio.run(run()) == Counter({"foreign": 1})


def test_of_too_many_who_do_not_greet_the_first_are_hung_up_on_and_a_node_gets_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wires, "_here", Strangers())
    monkeypatch.setattr(wires, "STRANGERS_MAX", 3)

    async def run() -> tuple[list[bytes], Counter[str], int]:
        shared = network()
        one, other = Site(shared, 1), Site(shared, 2)
        address = await one.up({})
        async with AsyncExitStack() as crowd:
            first, *_ = [await crowd.enter_async_context(Stranger(address)) for _ in range(6)]
            assert await first.is_hung_up_on()
            assert await other.up({1: address}) is not None
            one.listen()
            other.listen()
            other.say(b"let me in", 1)
            await settled()
            waiting = len(one.links._wires.strangers)
        for site in (one, other):
            await site.links.close()
        return one.heard, one.links.counters, waiting

    assert asyncio.run(run()) == ([b"let me in"], Counter({"foreign": 2}), 4)


def test_a_node_that_starts_again_gets_its_wire_although_nobody_has_noticed_its_death(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who does not listen yet does not read, and does not see that the other end has hung up."""
    monkeypatch.setattr(wires, "_here", Strangers())

    async def run() -> list[bytes]:
        shared = network()
        one, other, again = Site(shared, 1), Site(shared, 2), Site(shared, 2)
        address = await one.up({})
        await other.up({1: address})
        other.say(b"makes it stop reading", 1)
        await settled()
        asyncio.get_running_loop().call_later(0.1, other.links._wires._wires[1].cut)  # type: ignore[union-attr]
        await again.up({1: address})
        again.listen()
        one.say(b"to the new life", 2)
        await settled()
        for site in (one, other, again):
            await site.links.close()
        return again.heard

    assert asyncio.run(run()) == [b"to the new life"]


@pytest.mark.parametrize("key", [b"", b"a key of sixteen bytes"], ids=["no key", "a key"])
def test_whoever_cannot_be_reached_is_told_with_the_reason(key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires, "CONNECT_S_MAX", 0.3)

    async def run() -> Any:
        with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as gone:
            addresses = {2: list(silent.getsockname()), 3: list(gone.getsockname())}
            gone.close()
            site = Site(network(prover=keyed(key) if key else None), 1)
            await site.links.open()
            unreached = await site.links.connect(addresses)
            await site.links.close()
            return unreached

    assert asyncio.run(run()) == {2: "no answer within 0.3 s", 3: "Connection refused"}
