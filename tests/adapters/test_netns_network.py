"""Namespaces, radios and wires as the kernel has them; the medium's process carries real frames between them."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("pyroute2")

from castbed.errors import UnavailableError
from castbed.wire import ETHERNET_BYTES, ETHERTYPE, ethernet_frame
from castbed_adapters.netns import devices
from castbed_adapters.netns.devices import AIR, QUEUE_FRAMES, bring_loopback_up, lay_wires, open_radio, wire_address
from castbed_adapters.netns.ether import EtherProcess
from castbed_adapters.netns.medium import NOWHERE, MediumSpec, shared_air
from castbed_adapters.netns.spaces import Space
from castbed_testbed.delays import Delay
from namespaces import need_namespaces

need_namespaces(whole_module=True)

PATIENCE_S = 5


class Net:
    """Three nodes, each with a radio and a wire."""

    def __init__(self, spec_cells: dict[int, int] | None = None) -> None:
        self.hub = Space()
        self.spaces = {number: Space() for number in (1, 2, 3)}
        radios = {number: open_radio(self.hub, space, number) for number, space in self.spaces.items()}
        cells = spec_cells if spec_cells is not None else shared_air(self.spaces)
        self.ether = EtherProcess(MediumSpec(cells, Delay.parse("1ms"), 54_000_000), radios)
        self.radios = {number: space.run(_radio) for number, space in self.spaces.items()}
        self.ether.begin(time.monotonic_ns())

    def close(self) -> None:
        self.ether.close()
        for radio in self.radios.values():
            radio.close()
        for space in (self.hub, *self.spaces.values()):
            space.close()


def _radio() -> socket.socket:
    radio = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    radio.bind((AIR, ETHERTYPE))
    radio.settimeout(PATIENCE_S)
    return radio


@pytest.fixture
def net() -> Iterator[Net]:
    with closing(Net()) as made:
        yield made


def test_everybody_hears_a_broadcast_and_only_the_addressed_node_a_frame_for_it(net: Net) -> None:
    net.radios[1].send(ethernet_frame(b"to all", 1))
    net.radios[1].send(ethernet_frame(b"to 3", 1, to=3))
    assert [net.radios[2].recv(100)[ETHERNET_BYTES:]] == [b"to all"]
    assert [net.radios[3].recv(100)[ETHERNET_BYTES:] for _ in range(2)] == [b"to all", b"to 3"]
    net.radios[2].settimeout(0.1)
    with pytest.raises(TimeoutError):
        net.radios[2].recv(100)
    counts = net.ether.counts()
    assert (counts.frames, counts.copies, counts.dropped, counts.foreign) == (2, 3, 0, 0)


def test_radios_of_veths_carry_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What those get who may not open TAPs."""
    monkeypatch.setattr(devices, "TUN", "/dev/net/there-is-no-such-thing")
    with closing(Net()) as net:
        net.radios[2].send(ethernet_frame(b"hello", 2))
        assert [net.radios[number].recv(100)[ETHERNET_BYTES:] for number in (1, 3)] == [b"hello", b"hello"]


def test_a_node_that_moves_hears_its_new_cell() -> None:
    with closing(Net({1: 1, 2: 2, 3: NOWHERE})) as net:
        net.ether.place(3, 2)
        net.ether.counts()  # so that the move is done
        for number in (1, 2):
            net.radios[number].send(ethernet_frame(b"from %d" % number, number))
        assert net.radios[3].recv(100)[ETHERNET_BYTES:] == b"from 2"
        net.radios[3].settimeout(0.1)
        with pytest.raises(TimeoutError):
            net.radios[3].recv(100)


def test_a_full_tap_tells_its_node_which_can_wait(net: Net) -> None:
    """The kernel drops nothing without a word while the medium does not read."""
    os.kill(net.ether.pid, signal.SIGSTOP)
    sent, refused = 0, 0
    try:
        for number in range(QUEUE_FRAMES + 10):
            try:
                sent += bool(net.radios[1].send(ethernet_frame(b"%d" % number, 1)))
            except OSError as error:
                refused += error.errno == errno.ENOBUFS
    finally:
        os.kill(net.ether.pid, signal.SIGCONT)
    assert (sent, refused) == (QUEUE_FRAMES, 10)
    deadline = time.monotonic() + PATIENCE_S
    while (counts := net.ether.counts()).frames < sent and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (counts.frames, counts.dropped) == (sent, 0)


def test_the_death_of_the_medium_is_said(net: Net) -> None:
    net.ether.check()
    os.kill(net.ether.pid, signal.SIGKILL)
    os.waitpid(net.ether.pid, 0)
    for ask in (lambda: net.ether.place(1, 0), net.ether.counts, lambda: net.ether.begin(0), net.ether.check):
        with pytest.raises(UnavailableError, match="the medium died"):
            ask()


def test_wires_carry_tcp_between_namespaces(net: Net) -> None:
    lay_wires(net.hub, list(net.spaces.items()))
    for space in net.spaces.values():
        bring_loopback_up(space)
    server = net.spaces[2].run(lambda: socket.create_server((wire_address(2), 0)))
    port = server.getsockname()[1]
    client = net.spaces[1].run(lambda: socket.create_connection((wire_address(2), port), PATIENCE_S))
    with closing(server), closing(client), closing(server.accept()[0]) as accepted:
        client.sendall(b"over the wire")
        assert accepted.recv(100) == b"over the wire"
        assert accepted.getpeername()[0] == wire_address(1)


def test_nothing_is_left_when_the_network_is_closed() -> None:
    before = _namespaces()
    with closing(Net()):
        pass
    deadline = time.monotonic() + PATIENCE_S
    while _namespaces() != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _namespaces() == before


def _namespaces() -> set[str]:
    """The network namespaces that this process has descriptors to."""
    mine = f"/proc/{os.getpid()}/fd"
    found = (os.readlink(f"{mine}/{name}") for name in os.listdir(mine) if os.path.lexists(f"{mine}/{name}"))
    return {target for target in found if target.startswith("net:")}


ROOTLESS = """
from castbed_adapters.netns.spaces import Space, become_able
from castbed_adapters.netns.devices import open_radio
assert become_able() == "user namespace"
hub, space = Space(), Space()
print("radio", open_radio(hub, space, 1) > 0)
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is missing")
def test_it_works_without_root_inside_a_user_namespace() -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    able = subprocess.run([*nobody, "unshare", "--user", "--net", "true"], capture_output=True, check=False)
    if able.returncode != 0:
        pytest.skip(f"this machine lets only root make namespaces: {able.stderr.decode().strip()}")
    if subprocess.run([*nobody, sys.executable, "-c", "import castbed_adapters"], check=False).returncode != 0:
        pytest.skip("the installation cannot be read by other users")
    done = subprocess.run(
        [*nobody, sys.executable, "-c", ROOTLESS], capture_output=True, text=True, cwd="/", timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("radio True\n", 0), done.stderr
