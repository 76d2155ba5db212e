"""Where a run on `udp` takes place: its groups and its port, and what interfaces have and lack."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w
from udp_radios import TOKEN, loopback_groups

from castbed.errors import UnavailableError
from castbed_adapters.udp import addresses
from castbed_adapters.udp.addresses import Groups, draw_groups, find_interface


@pytest.fixture
def groups() -> Groups:
    return loopback_groups()


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
