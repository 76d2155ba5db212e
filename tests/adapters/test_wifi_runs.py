"""A whole experiment on raw Ethernet: a switch with an interface for each node, in a namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS_MAX = 60
EXPERIMENT = """
name = "raw"
protocol = { name = "sb", variant = "published" }
duration = "2s"
drain = "2s"
repair = {}
key = { env = "CASTBED_TEST_KEY" }
topology = { members = ["A", "B", "C"] }
workload = { kind = "steady", rate = 10, replies = 0.5, size = "2KiB" }
faults = { loss = 0.1 }
[transport]
name = "wifi"
options = { interfaces = { A = "wA", B = "wB", C = "wC" } }
"""
INSIDE = """
set -e
ip link add switch type bridge
ip link set switch up
for node in A B C X; do
    ip link add w$node type veth peer name p$node
    ip link set p$node master switch up
    ip link set w$node up
done
"""

ATTACKER = """
import random, socket
from castbed.authentication import SEAL_BYTES
from castbed_adapters.wifi.envelope import letter_bytes, read_letter
ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
ear.bind(("wX", 3))
mouth = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
mouth.bind(("wX", 0))
while True:
    heard, (_, _, kind, _, _) = ear.recvfrom(65536)
    if kind == socket.PACKET_OUTGOING or heard[12:14] != bytes([0x88, 0xB5]):
        continue
    token, _, cell, to, frame = read_letter(heard[14:])
    changed = bytearray(frame)
    changed[random.randrange(len(changed))] ^= 1
    unsealed = frame[:3] + bytes([frame[3] & ~2]) + frame[4:-SEAL_BYTES]
    garbled = bytearray(heard)
    garbled[random.randrange(14, len(frame))] ^= 1
    for said in (bytes(changed), unsealed):
        mouth.send(heard[:14] + letter_bytes(token, said, cell, to))
    for said in (heard, garbled):
        mouth.send(said)
"""


def in_namespace(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A shell in a new network namespace, which is gone when the shell is."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace for this user (unshare -n)")
    environment = os.environ | {"CASTBED_TEST_KEY": "a key for a test, long enough"}
    return subprocess.run(
        ["unshare", "-n", "sh", "-c", command],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip


def test_sb_as_published_runs_sealed_and_repaired_on_raw_frames(tmp_path: Path) -> None:
    (tmp_path / "raw.toml").write_text(EXPERIMENT)
    done = in_namespace(f"{INSIDE}\n{sys.executable} -m castbed run raw.toml --json --out run", tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["transport"] == "wifi"
    assert summary["delivered"] == summary["expected"] == 3 * summary["submitted"] > 0
    assert summary["faults"]["loss"] > 0


def test_an_attacker_who_repeats_and_changes_every_frame_reaches_nobody(tmp_path: Path) -> None:
    (tmp_path / "raw.toml").write_text(EXPERIMENT)
    (tmp_path / "attacker.py").write_text(ATTACKER)
    attacker = f"{sys.executable} attacker.py & trap 'kill '$! EXIT"
    done = in_namespace(f"{INSIDE}\n{attacker}\n{sys.executable} -m castbed run raw.toml --json --out run", tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["delivered"] == summary["expected"] > 0
    links = summary["links"]
    assert all(links[reason] > 10 for reason in ("replayed", "forged", "foreign", "malformed")), links


def test_an_interface_that_is_not_there_is_a_mistake_in_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "raw.toml").write_text(EXPERIMENT)
    done = in_namespace(f"{sys.executable} -m castbed run raw.toml --out run", tmp_path)
    assert done.returncode == 2
    assert "transport.options.interface: there is no interface 'wA'" in done.stderr


def test_a_machine_without_wireless_says_so_and_exits_with_3(tmp_path: Path) -> None:
    (tmp_path / "raw.toml").write_text(EXPERIMENT)
    cell = "--set transport.options.ssid=castbed --set transport.options.frequency=2412"
    done = in_namespace(f"{INSIDE}\n{sys.executable} -m castbed run raw.toml {cell} --out run", tmp_path)
    if "no nl80211" not in done.stderr and "no wireless interface" not in done.stderr:
        pytest.skip("this kernel has wireless, and takes a cable for a radio")
    assert done.returncode == 3
