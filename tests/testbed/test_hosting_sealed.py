"""Nodes with a key: a frame reaches a machine where it was said, once, and not before that machine listened there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testbed_support import cells, planned, say, script

from castbed.links import Arrival, Cell
from castbed.values import NodeNumber
from castbed_testbed.hosting.clock import Clock
from castbed_testbed.hosting.life import Life
from castbed_testbed.hosting.storage import Storage
from castbed_testbed.plan import Plan

S1, S2, A, B, C = 1, 2, 3, 4, 5


class Network:
    """One that shapes and strikes nothing."""

    shapes_air = strikes_air = emulates_wires = False


class Links:
    """Keeps what its node sends, and carries nothing."""

    air_frame_bytes_max = 1_000
    neighbours = frozenset[NodeNumber]()
    congested = False

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.on_air: list[tuple[bytes, tuple[NodeNumber, ...]]] = []
        self.on_wires: list[tuple[bytes, NodeNumber]] = []

    def transmit(self, frame: bytes, to: tuple[NodeNumber, ...]) -> None:
        self.on_air.append((frame, to))

    def forward(self, frame: bytes, to: NodeNumber, packet: Any = None) -> None:  # noqa: ARG002 (as in Links)
        self.on_wires.append((frame, to))

    def tune(self, cell: Cell) -> None: ...
    def listen(self, heard: Any) -> None: ...
    def flush(self) -> None: ...


class Ear:
    """One life of a node on such links."""

    def __init__(self, plan: Plan, node: NodeNumber, cell: Cell, folder: Path, number: int = 0) -> None:
        self.links: Any = Links()
        network: Any = Network()
        storage = Storage(folder / f"{node}.{number}")
        self.life = Life(plan, node, number, cell, self.links, Clock(), None, storage, network)
        self.life.start(False)

    def hears(self, frame: bytes, to: tuple[NodeNumber, ...] = (), on_wire: bool = False) -> str:
        """What becomes of the frame: the counter that went up, or "delivered"."""
        before, delivered = self.links.counters.copy(), self.life.counted().delivered
        self.life.heard([Arrival(on_wire, to, frame, 0)])
        went_up = [*(self.links.counters - before), *["delivered"] * (self.life.counted().delivered - delivered)]
        assert len(went_up) == 1
        return went_up[0]


def sealed(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """S1 says something to its cell, something to one host, and something to the other station."""
    monkeypatch.setenv("CASTBED_TEST_KEY", "a key that nobody guesses")
    lines = script(say("S1", "0s", "all"), say("S1", "0s", "you", to=["b"]), say("S1", "0s", "wire", to=["S2"]))
    return planned(cells(key={"env": "CASTBED_TEST_KEY"}, transport={"name": "udp"}, workload=lines))


def on_a_loop(play: Callable[[Plan, Links, Path], None], monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have S1 say everything, and play with what it sent."""

    async def scene() -> None:
        plan = sealed(monkeypatch)
        speaker = Ear(plan, S1, S1, folder)
        async with asyncio.timeout(10):
            while len(speaker.links.on_air) < 2 or not speaker.links.on_wires:
                await asyncio.sleep(0.01)
        play(plan, speaker.links, folder)

    asyncio.run(scene())


def test_a_frame_of_one_cell_is_worth_nothing_in_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def play(plan: Plan, said: Links, folder: Path) -> None:
        (frame, _), _ = said.on_air
        assert Ear(plan, A, S1, folder).hears(frame) == "delivered"
        assert Ear(plan, C, S2, folder).hears(frame) == "forged"

    on_a_loop(play, monkeypatch, tmp_path)


def test_a_frame_for_one_is_worth_nothing_to_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def play(plan: Plan, said: Links, folder: Path) -> None:
        _, (frame, to) = said.on_air
        assert to == (B,)
        assert Ear(plan, B, S1, folder).hears(frame, to) == "delivered"
        assert [Ear(plan, A, S1, folder).hears(frame, pretended) for pretended in ((A,), (A, B), ())] == ["forged"] * 3

    on_a_loop(play, monkeypatch, tmp_path)


def test_a_frame_of_a_wire_is_worth_nothing_on_the_air(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def play(plan: Plan, said: Links, folder: Path) -> None:
        ((frame, to),) = said.on_wires
        assert Ear(plan, A, S1, folder).hears(frame, (to,)) == "forged"
        assert Ear(plan, S2, S2, folder).hears(frame, (to,), on_wire=True) == "delivered"

    on_a_loop(play, monkeypatch, tmp_path)


def test_what_was_said_before_a_node_came_or_started_again_is_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def play(plan: Plan, said: Links, folder: Path) -> None:
        (frame, _), _ = said.on_air
        visitor = Ear(plan, C, S2, folder)
        visitor.life.move(S1)
        assert [visitor.hears(frame), Ear(plan, A, S1, folder, number=1).hears(frame)] == ["replayed"] * 2
        ((on_wire, to),) = said.on_wires
        assert Ear(plan, S2, S2, folder, number=1).hears(on_wire, (to,), on_wire=True) == "replayed"

    on_a_loop(play, monkeypatch, tmp_path)
