"""Interfaces to try raw frames on, in a network namespace that is gone when the test is."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import subprocess
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from pyroute2 import IPRoute

CLONE_NEWNET = 0x40000000
TUNSETIFF, TUNSETLINK = 0x400454CA, 0x400454CD
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
ARPHRD_RADIOTAP = 803
T = TypeVar("T")


def in_namespace(work: Callable[[], T]) -> T:
    """What `work` returns, done in a namespace of its own; skips where this user may not make any."""
    outcome: dict[str, Any] = {}

    def guarded() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            outcome["skip"] = f"no network namespace for this user ({os.strerror(ctypes.get_errno())})"
            return
        try:
            outcome["result"] = work()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if "skip" in outcome:
        pytest.skip(outcome["skip"])
    if "error" in outcome:
        raise outcome["error"]
    result: T = outcome["result"]
    return result


def cable(mtu: int = 1500, plugged: bool = True) -> None:
    """Two Ethernet interfaces, `one` and `other`, with a cable between them."""
    with IPRoute() as routes:
        routes.link("add", ifname="one", kind="veth", peer={"ifname": "other"})
        for name in ("one", "other") if plugged else ("one",):
            index = routes.link_lookup(ifname=name)[0]
            routes.link("set", index=index, state="up", mtu=mtu)


def set_link(name: str, state: str) -> None:
    """Bring an interface `up` or `down`."""
    subprocess.run(["ip", "link", "set", name, state], check=True)


def monitor(name: str = "mon0", mtu: int = 1500) -> int:
    """An interface that looks like one in monitor mode; whoever has the descriptor is the air."""
    try:
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    except OSError as error:
        pytest.skip(f"no /dev/net/tun to make a monitor interface of ({error.strerror})")
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    fcntl.ioctl(descriptor, TUNSETLINK, ARPHRD_RADIOTAP)
    with IPRoute() as routes:
        routes.link("set", index=routes.link_lookup(ifname=name)[0], state="up", mtu=mtu)
    return descriptor
