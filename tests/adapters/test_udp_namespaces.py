"""Nodes of `udp` in namespaces that somebody made: they meet on the bridge there, and nowhere else."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

pytest.importorskip("pyroute2")

from udp_radios import settled
from wifi_space import cable, in_namespace

from castbed.errors import ConfigurationError, UnavailableError
from castbed.links import SHARED_AIR, Arrival
from castbed_adapters.netns.devices import WIRE, bring_loopback_up, lay_wires
from castbed_adapters.netns.spaces import HERE, Space
from castbed_adapters.udp.addresses import Groups, Interface, find_interface
from castbed_adapters.udp.air import MulticastAir
from namespaces import need_namespaces
from real_runs import CELLS, CHAT, run_on, wait_until

need_namespaces(whole_module=True)

pytestmark = pytest.mark.netns
T = TypeVar("T")


@pytest.fixture
def spaces() -> Iterator[list[str]]:
    """The paths of three namespaces on a bridge."""
    with ExitStack() as undo:
        hub, *others = (undo.enter_context(closing(Space())) for _ in range(4))
        for space in others:
            bring_loopback_up(space)
        lay_wires(hub, list(enumerate(others, start=1)))
        yield [f"/proc/{os.getpid()}/fd/{space.descriptor}" for space in others]


@pytest.fixture
def link_local_spaces() -> Iterator[list[str]]:
    """Two namespaces on a bridge, with link-local addresses only; their interfaces have different numbers."""
    with ExitStack() as undo:
        hub, one, other = (undo.enter_context(closing(Space())) for _ in range(3))
        other.run(lambda: subprocess.run(["ip", "link", "add", "first", "type", "veth", "peer", "second"], check=True))
        lay_wires(hub, [(1, one), (2, other)])
        for space in (one, other):
            bring_loopback_up(space)
            space.run(_link_local)
        yield [f"/proc/{os.getpid()}/fd/{space.descriptor}" for space in (one, other)]


def _link_local() -> None:
    for name, value in (("accept_dad", "0"), ("disable_ipv6", "0")):
        Path(f"/proc/sys/net/ipv6/conf/{WIRE}/{name}").write_text(value, encoding="ascii")
    listed = Path("/proc/thread-self/net/if_inet6")
    assert wait_until(lambda: WIRE in listed.read_text(encoding="ascii"))


@pytest.mark.parametrize("uvloop", [True, False], ids=["uvloop", "asyncio"])
def test_link_local_addresses_will_do(
    uvloop: bool, link_local_spaces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if uvloop:
        pytest.importorskip("uvloop")
    else:
        monkeypatch.setattr("castbed_testbed.hosting.process.find_spec", lambda name: None)
    one, other = link_local_spaces
    places = {"anna": one, "bert": other, "cora": other, "S1": one, "S2": other, "S3": other, "C1": one, "C2": other}
    chosen = options({**places, "Q": one}, ip=6, together=[["S1", "C2"]])
    outcome = run_on("udp", CELLS, tmp_path, chosen)
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0


def options(spaces: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"interface": WIRE, "namespaces": spaces, **more}


def here() -> str:
    return os.readlink(HERE)


def test_members_in_different_namespaces_hear_each_other(spaces: list[str], tmp_path: Path) -> None:
    outcome = run_on("udp", CHAT, tmp_path, options(dict(zip("ABC", spaces, strict=True))))
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0


def test_wires_reach_from_one_namespace_to_another_also_from_a_shared_process(
    spaces: list[str], tmp_path: Path
) -> None:
    one, two, three = spaces
    places = {"anna": one, "bert": two, "cora": three, "S1": one, "S2": two, "S3": three, "C1": two, "C2": three}
    outcome = run_on("udp", CELLS, tmp_path, options({**places, "Q": one}, together=[["S1", "C1", "C2", "Q"]]))
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0


def test_a_node_on_another_network_hears_nothing(spaces: list[str], tmp_path: Path) -> None:
    with closing(Space()) as hub, closing(Space()) as apart:
        bring_loopback_up(apart)
        lay_wires(hub, [(9, apart)])
        places = {"A": spaces[0], "B": spaces[1], "C": f"/proc/{os.getpid()}/fd/{apart.descriptor}"}
        outcome = run_on("udp", CHAT, tmp_path, options(places))
    assert outcome.summary["delivered"] < outcome.summary["expected"]


def test_the_controller_stays_where_it_was(spaces: list[str], tmp_path: Path) -> None:
    before = here()
    run_on("udp", CHAT, tmp_path, options(dict(zip("ABC", spaces, strict=True))))
    assert here() == before


def test_a_namespace_of_nobody_is_refused(spaces: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^transport\.options\.namespaces\.D: there is no node 'D'$"):
        run_on("udp", CHAT, tmp_path, options({"D": spaces[0]}))


def test_a_namespace_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"namespaces\.A: there is no namespace 'no-such'"):
        run_on("udp", CHAT, tmp_path, options({"A": "no-such"}))


def test_an_interface_that_a_namespace_lacks_is_refused_before_the_run(spaces: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^transport\.options\.interface: there is no interface 'wire9'"):
        run_on("udp", CHAT, tmp_path, options(dict(zip("ABC", spaces, strict=True)), interface="wire9"))


def test_who_may_not_enter_is_told_what_is_needed(
    spaces: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_descriptor: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("castbed_adapters.netns.spaces.enter_namespace", refused)
    with pytest.raises(UnavailableError, match="only root may enter network namespaces"):
        run_on("udp", CHAT, tmp_path, options({"A": spaces[0]}))


@pytest.mark.parametrize("ip", [4, 6])
def test_an_interface_that_vanished_is_named_by_who_moves(ip: int) -> None:
    def inside() -> None:
        cable()
        subprocess.run(["ip", "addr", "add", "10.1.1.1/24", "dev", "one"], check=True)
        asyncio.run(moves())

    async def moves() -> None:
        index = socket.if_nametoindex("one")
        air = MulticastAir(
            1, b"this run", Groups(Interface("one", index, ip, ""), 20_000, 0), Counter(), 1400, 1 << 20, True
        )
        air.open()
        air.tune(1)
        subprocess.run(["ip", "link", "del", "one"], check=True)
        with pytest.raises(UnavailableError, match=r"the interface 'one' is gone \(No such device\)"):
            air.tune(2)
        air.close()

    in_namespace(inside)


@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("mtu", [1500, 1300], ids=["as it was", "smaller since then"])
def test_long_frames_cross_a_bridge_without_fragments_of_ip(mtu: int, ip: int, link_local_spaces: list[str]) -> None:
    """Where packets became smaller in the middle of a run, IP has to cut, and nothing is lost."""
    frames = [Random(size).randbytes(size) for size in (20_000, 3, 60_000)]

    one, other = link_local_spaces

    async def play() -> tuple[list[bytes], list[Counter[str]]]:
        sender, receiver = within(one, partial(opened_air, 1, ip)), within(other, partial(opened_air, 2, ip))
        arrivals: list[Arrival] = []
        receiver.tune(SHARED_AIR)
        receiver.listen(arrivals.extend)
        sender.tune(SHARED_AIR)
        within(one, lambda: subprocess.run(["ip", "link", "set", WIRE, "mtu", str(mtu)], check=True))
        for frame in frames:
            sender.transmit(frame, ())
            sender.flush()
        await settled()
        for air in (sender, receiver):
            air.close()
        return [arrival.frame for arrival in arrivals], [sender._counters, receiver._counters]

    assert asyncio.run(play()) == (frames, [Counter(), Counter()])
    assert (within(one, fragments_made) == 0) is (mtu == 1500)


def within(path: str, work: Callable[[], T]) -> T:
    with closing(Space(os.open(path, os.O_RDONLY))) as space:
        return space.run(work)


def opened_air(number: int, ip: int) -> MulticastAir:
    air = MulticastAir(
        number, b"this run", Groups(find_interface(WIRE, ip), 20_000, 0), Counter(), 60_000, 1 << 20, True
    )
    air.open()
    return air


def fragments_made() -> int:
    """By IP of both versions, in the network namespace of this thread."""
    names, values = (line.split() for line in proc("snmp") if line.startswith("Ip:"))
    six = dict(line.split() for line in proc("snmp6"))
    return int(dict(zip(names, values, strict=True))["FragCreates"]) + int(six["Ip6FragCreates"])


def proc(name: str) -> list[str]:
    return Path("/proc/thread-self/net", name).read_text(encoding="ascii").splitlines()
