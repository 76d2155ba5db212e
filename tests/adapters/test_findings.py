"""What the doctor says about real networks, on machines that have things and on machines that lack them."""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

import pytest

from castbed_adapters import findings
from castbed_adapters.findings import network_findings
from castbed_adapters.netns import devices, spaces


def found() -> dict[str, tuple[bool, str]]:
    return {what: (works, detail) for what, works, detail in network_findings()}


def test_each_thing_that_transports_need_is_tried() -> None:
    assert list(found()) == ["multicast on lo", "namespaces", "radios in namespaces", "raw sockets", "nl80211"]


def test_a_machine_without_namespaces_is_told_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(flags: int) -> None:
        raise PermissionError(errno.EPERM, f"unshare {flags:x}")

    monkeypatch.setattr(spaces, "unshare", refused)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for what in ("namespaces", "radios in namespaces"):
        works, detail = found()[what]
        assert not works
        assert "kernel.unprivileged_userns_clone=1" in detail


def test_raw_sockets_that_need_root_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def refused(family: int = socket.AF_INET, *how: Any, **more: Any) -> socket.socket:
        if family == socket.AF_PACKET:
            raise PermissionError(errno.EPERM, "no")
        return real(family, *how, **more)

    monkeypatch.setattr(socket, "socket", refused)
    assert found()["raw sockets"] == (False, "they need root (CAP_NET_RAW); for the transport wifi")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_machine_whose_taps_are_closed_has_veths(monkeypatch: pytest.MonkeyPatch) -> None:
    works, _ = found()["radios in namespaces"]
    if not works:
        pytest.skip("this machine makes no namespaces")
    monkeypatch.setattr(devices, "TUN", "/nowhere/tun")
    assert found()["radios in namespaces"] == (True, "veth pairs, because /nowhere/tun is closed to us")


def test_an_attempt_that_dies_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_namespaces", lambda: os._exit(1))
    assert found()["namespaces"] == (False, "the process that tried died")
