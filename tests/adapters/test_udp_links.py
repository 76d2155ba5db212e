"""The sockets of `udp` one by one: who hears what, what is dropped and counted, and what travels together."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
import tomli_w
from udp_radios import TOKEN, Radio, loopback_groups, on_air, settled

from castbed import topology as shapes
from castbed.authentication import derived_key
from castbed.errors import UnavailableError
from castbed.handshake import CALLER, CHALLENGE_BYTES, PROOF_BYTES, Handshake
from castbed.links import NOWHERE, SHARED_AIR, Arrival, RunSetting
from castbed.packets import Packet
from castbed_adapters.udp import addresses, wires, within
from castbed_adapters.udp.addresses import Groups, draw_groups, find_interface
from castbed_adapters.udp.air import ENVELOPE, MAGIC, QUEUE_CONGESTED, QUEUE_MAX, SLIP, VERSION, checked
from castbed_adapters.udp.network import UdpLinks, UdpNetwork
from castbed_adapters.udp.options import UdpOptions
from castbed_adapters.udp.wires import GREETING, GREETING_MAGIC, LENGTH


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


# --- wires -----------------------------------------------------------------------------------------------------------


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


# --- addresses -------------------------------------------------------------------------------------------------------


def test_cells_and_nodes_have_groups_of_their_own(groups: Groups) -> None:
    numbers = range(1, 500)
    cells, nodes = {groups.of_cell(n) for n in numbers}, {groups.of_node(n) for n in numbers}
    assert len(cells | nodes) == 2 * len(numbers)
    assert all(address.startswith("239.19") for address in cells | nodes)


def test_a_port_in_use_is_passed_over() -> None:
    token = os.urandom(8)
    first = draw_groups(find_interface("lo", 4), token)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", first.port))
        assert draw_groups(find_interface("lo", 4), token).port != first.port


def test_an_interface_that_carries_no_multicast_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "ECHO_S_MAX", 0.05)
    monkeypatch.setattr(Groups, "join", lambda self, member, group: None)
    with pytest.raises(UnavailableError, match="'lo' carries no IPv4 multicast"):
        draw_groups(find_interface("lo", 4), TOKEN)


GLOBAL, LOCAL = "20010db8" + 23 * "0" + "1", "fe80" + 27 * "0" + "1"


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        ([f"{GLOBAL} 02 40 00 80 lo", f"{LOCAL} 02 40 20 80 lo"], "2001:db8::1"),
        ([f"{GLOBAL} 02 40 00 c0 lo", f"{LOCAL} 02 40 20 80 lo"], "fe80::1"),
        ([f"{GLOBAL} 02 40 00 c8 lo", f"{LOCAL} 02 40 20 80 lo", f"{GLOBAL} 03 40 00 80 eth0"], "fe80::1"),
        ([f"{GLOBAL} 02 40 00 c0 lo", f"{LOCAL} 02 40 20 c8 lo"], "'lo' is still being checked: wait a second"),
        ([f"{GLOBAL} 02 40 00 c8 lo"], "'lo' has no IPv6 address"),
    ],
)
def test_an_ipv6_address_is_used_when_nobody_else_has_it(
    lines: list[str], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "if_inet6"
    listed.write_text("\n".join(lines), encoding="ascii")
    monkeypatch.setattr(addresses, "_IPV6_ADDRESSES", listed)
    if address.startswith("'lo'"):
        with pytest.raises(UnavailableError, match=address):
            find_interface("lo", 6)
    else:
        assert find_interface("lo", 6).address == address


NAMESPACE = ("unshare", "--user", "--map-root-user", "--net", "sh", "-c")
PREPARED = "ip link set lo up && ip -6 route add local ff00::/8 dev lo table local"


def _has_namespaces() -> bool:
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return subprocess.run([*NAMESPACE, PREPARED], capture_output=True, timeout=20, check=False).returncode == 0


def test_ipv6_works_as_ipv4_does(tmp_path: Path) -> None:
    if not _has_namespaces():
        pytest.skip("needs a network namespace with IPv6")
    data = {
        "name": "six",
        "protocol": {"name": "eomp", "variant": "published"},
        "duration": "600ms",
        "drain": "1500ms",
        "transport": {"name": "udp", "options": {"ip": 6}},
        "topology": {"kind": "three_tier", "coordinators": {"C1": ["S1", "S2"]}, "hosts": 3},
        "workload": {"kind": "steady", "rate": 10},
    }
    path = tmp_path / "six.toml"
    path.write_text(tomli_w.dumps(data), encoding="utf-8")
    command = f"{PREPARED} && {sys.executable} -m castbed run {path} --out {tmp_path / 'run'}"
    done = subprocess.run([*NAMESPACE, command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "✓ total" in done.stdout
