"""Processes that do not sleep: they look again and again, and give way to whoever else wants their core."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from castbed_testbed.hosting.vigil import JUDGED_EVERY_NS, LOOKS_PER_TURN, RAN_SHARE, REST_S, REST_S_MAX, Vigil
from real_runs import CELLS, CHAT, run_on

TURNS = 50


class Core:
    """A core whose time passes with every turn of a vigil, which gets a share of it."""

    def __init__(self) -> None:
        self.passed = self.ran = 0
        self.share = 1.0

    def now(self) -> int:
        self.passed += JUDGED_EVERY_NS // 4
        self.ran += int(JUDGED_EVERY_NS // 4 * self.share)
        return self.passed

    def vigil(self, *looks: Callable[[], None]) -> Vigil:
        vigil = Vigil(lambda: self.ran, self.now)
        for look in looks:
            vigil.add(look)
        return vigil


async def turns(count: int = TURNS) -> None:
    """Of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def test_it_looks_again_and_again_and_the_event_loop_goes_on() -> None:
    async def play() -> tuple[list[str], list[str]]:
        seen: list[str] = []
        vigil = Core().vigil(lambda: seen.append("one"), lambda: seen.append("other"))
        await turns()
        vigil.end()
        looked = seen.copy()
        await turns()
        return looked, seen

    looked, seen = asyncio.run(play())
    assert looked[:4] == ["one", "other", "one", "other"]
    assert len(looked) >= TURNS // 2 * LOOKS_PER_TURN
    assert seen == looked


def test_it_rests_when_others_want_the_core_and_wakes_again() -> None:
    part, whole = RAN_SHARE

    async def play() -> tuple[int, int, int]:
        core, looks = Core(), list[None]()
        core.vigil(lambda: looks.append(None))
        core.share = part / whole - 0.01
        await turns()
        in_the_way = len(looks)
        core.share = 1.0
        await turns()
        resting = len(looks)
        await asyncio.sleep(2 * REST_S)
        await turns()
        return in_the_way, resting, len(looks)

    in_the_way, resting, awake = asyncio.run(play())
    assert in_the_way == resting < TURNS * LOOKS_PER_TURN
    assert awake > 2 * resting


def test_it_rests_longer_each_time_that_it_is_in_the_way_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> list[float]:
        core, rests = Core(), list[float]()

        def rest(seconds: float, begin: Callable[[], None]) -> None:
            rests.append(seconds)
            core.share = 1.0 if len(rests) == 6 else 0.0
            loop.call_soon(begin)

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_later", rest)
        core.share = 0.0
        vigil = core.vigil()
        while len(rests) < 6:
            await asyncio.sleep(0)
        await turns()
        core.share = 0.0
        while len(rests) < 7:
            await asyncio.sleep(0)
        vigil.end()
        core.share = 1.0
        return rests

    doubled = [REST_S * 2**times for times in range(5)]
    assert doubled[-1] == REST_S_MAX
    assert asyncio.run(play()) == [*doubled, REST_S_MAX, REST_S]


def test_who_is_interrupted_now_and_then_does_not_rest() -> None:
    part, whole = RAN_SHARE

    async def play() -> int:
        core, looks = Core(), list[None]()
        core.share = part / whole + 0.01
        core.vigil(lambda: looks.append(None))
        await turns()
        return len(looks)

    assert asyncio.run(play()) >= TURNS // 2 * LOOKS_PER_TURN


@pytest.mark.udp
def test_nodes_that_stay_awake_do_what_they_do_otherwise(tmp_path: Path) -> None:
    outcome = run_on("udp", CELLS, tmp_path, {"together": [["anna", "S1", "C1", "Q"]], "awake": ["S1", "bert"]})
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0


@pytest.mark.netns
def test_so_do_nodes_with_raw_radios(tmp_path: Path) -> None:
    outcome = run_on("netns", CHAT, tmp_path, {"awake": ["A"]})
    assert outcome.failures == []
    assert outcome.summary["delivered"] == outcome.summary["expected"] > 0
