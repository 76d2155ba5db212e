"""What `castbed doctor` says about real networks: each thing is tried as a run would, and taken back at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import NamedTuple

from castbed.errors import CastbedError, UnavailableError

TOKEN_BYTES = 8
ANSWER_BYTES = 65_536


class NetworkFinding(NamedTuple):
    """One thing that was tried, whether it works, and how or why not."""

    what: str
    found: bool
    detail: str


def network_findings() -> list[NetworkFinding]:
    """All of them, in the order in which experiments come to need them."""
    tried: list[tuple[str, Callable[[], str]]] = [
        ("multicast on lo", _multicast),
        ("namespaces", lambda: _in_child(_namespaces)),
        ("radios in namespaces", lambda: _in_child(_radios)),
        ("raw sockets", _raw_sockets),
        ("nl80211", lambda: _in_child(_wireless)),
    ]
    return [NetworkFinding(what, *_outcome(attempt)) for what, attempt in tried]


def _outcome(attempt: Callable[[], str]) -> tuple[bool, str]:
    try:
        return True, attempt()
    except (CastbedError, OSError) as problem:
        return False, str(problem)


def _multicast() -> str:
    from castbed_adapters.udp.addresses import draw_groups, find_interface

    draw_groups(find_interface("lo", 4), os.urandom(TOKEN_BYTES))
    return "a datagram came back; for the transport udp"


def _namespaces() -> str:
    from castbed_adapters.netns.spaces import become_able

    how = become_able()
    return f"made as {how}; for the transport netns" if how == "root" else f"made in a {how}; for the transport netns"


def _radios() -> str:
    _namespaces()
    from castbed_adapters.netns.devices import TUN, open_radio
    from castbed_adapters.netns.spaces import Space

    open_radio(Space(), Space(), 1)
    return "TAPs" if os.access(TUN, os.R_OK | os.W_OK) else f"veth pairs, because {TUN} is closed to us"


def _raw_sockets() -> str:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except PermissionError:
        raise UnavailableError("they need root (CAP_NET_RAW); for the transport wifi") from None
    return "opened; for the transport wifi"


def _wireless() -> str:
    from castbed_adapters.wifi.radio import open_radio

    open_radio("any", 0)
    return "there; for ad hoc cells of the transport wifi"


def _in_child(attempt: Callable[[], str]) -> str:
    """What comes of it in a process of its own, which takes along whatever the attempt made and entered."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found, detail = _outcome(attempt)
            os.write(writing, (("+" if found else "-") + detail).encode()[:ANSWER_BYTES])
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        told = answer.read(ANSWER_BYTES).decode()
    os.waitpid(child, 0)
    if not told.startswith("+"):
        raise UnavailableError(told[1:] or "the process that tried died")
    return told[1:]
