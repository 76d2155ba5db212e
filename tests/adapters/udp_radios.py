"""The air of single nodes on `udp`, without a run around them."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from castbed.links import Arrival
from castbed_adapters.udp.addresses import Groups, draw_groups, find_interface
from castbed_adapters.udp.air import MulticastAir

TOKEN = b"this run"
T = TypeVar("T")


def loopback_groups() -> Groups:
    return draw_groups(find_interface("lo", 4), os.urandom(8))


class Radio(MulticastAir):
    """The air of one node, which writes down what it hears and which datagrams it sends."""

    def __init__(self, me: int, groups: Groups, datagram: int = 1400, token: bytes = TOKEN) -> None:
        self.counters: Counter[str] = Counter()
        super().__init__(me, token, groups, self.counters, datagram, 1 << 20, True)
        self.arrivals: list[Arrival] = []
        self.sizes: list[int] = []
        self.open()
        self.listen(self.arrivals.extend)

    def _sent(self, data: bytes, address: Any, step: int) -> bool:
        self.sizes.append(len(data))
        return super()._sent(data, address, step)

    @property
    def heard(self) -> list[bytes]:
        return [arrival.frame for arrival in self.arrivals]


async def settled() -> None:
    """Loopback delivers within the call that sends; a few turns of the loop read it all."""
    for _ in range(20):
        await asyncio.sleep(0.002)


def on_air(groups: Groups, play: Callable[..., Awaitable[T]], *cells: int) -> T:
    """Let radios 1, 2, ... be in these cells, and something happen."""

    async def run() -> T:
        radios = [Radio(number, groups) for number in range(1, len(cells) + 1)]
        for radio, cell in zip(radios, cells, strict=True):
            radio.tune(cell)
        try:
            return await play(*radios)
        finally:
            for radio in radios:
                radio.close()

    return asyncio.run(run())
