"""Links on raw interfaces for tests, and what hears them."""

from __future__ import annotations

import asyncio
import time

from castbed import Group, Mid, Packet
from castbed.links import SHARED_AIR, Arrival
from castbed.wire import Codec
from castbed_adapters.wifi.links import WifiLinks
from castbed_adapters.wifi.options import WifiOptions

TOKEN = b"this run"
PATIENCE_S = 5.0


class Said(Packet, frozen=True, tag=1):
    """One message."""

    group: Group
    mid: Mid
    payload: bytes


CODEC = Codec({"talk": (Said,)})


def frame(payload: bytes = b"hello", sender: int = 1) -> bytes:
    return CODEC.encode(Said(1, Mid(sender, 1), payload), sender)


def links(me: int, interface: str, token: bytes = TOKEN, mode: str = "ethernet") -> WifiLinks:
    return WifiLinks(me, token, interface, WifiOptions(interface=interface, mode=mode))  # type: ignore[arg-type]


class Ear:
    """Keeps what was heard, and waits for more."""

    def __init__(self, *ends: WifiLinks) -> None:
        self.ends = ends
        self.arrivals: list[Arrival] = []

    async def __aenter__(self) -> Ear:
        for end in self.ends:
            await end.open()
            end.tune(SHARED_AIR)
        self.ends[-1].listen(self.arrivals.extend)
        return self

    async def __aexit__(self, *_: object) -> None:
        for end in self.ends:
            await end.close()

    async def heard(self, count: int) -> list[Arrival]:
        deadline = time.monotonic() + PATIENCE_S
        while len(self.arrivals) < count and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.02)
        return self.arrivals
