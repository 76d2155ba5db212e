"""The parts of the asyncio host, one by one: its clock, its agenda, what it keeps, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from castbed import Application, History, Kind
from castbed import topology as shapes
from castbed.application import Setting
from castbed.capture import read_capture
from castbed.history import LocalEvent, RunIdentity
from castbed.units import BitRate
from castbed_testbed.delays import Delay
from castbed_testbed.experiment import WireSpec
from castbed_testbed.faults import Faults, Reordering
from castbed_testbed.hosting import storage as storage_module
from castbed_testbed.hosting.agenda import BATCH, CALLED_OFF_MIN, Agenda
from castbed_testbed.hosting.capturing import LiveCapture
from castbed_testbed.hosting.clock import READINGS, STAMP_AGE_MAX, Clock, realtime_ahead
from castbed_testbed.hosting.impairment import Impairment
from castbed_testbed.hosting.programs import Programs
from castbed_testbed.hosting.residents import ALONE_MAX, processes_for
from castbed_testbed.hosting.storage import LENGTH, Storage
from castbed_testbed.schedule import Block

MILLISECOND = 1_000_000
SECONDS_MAX = 20.0
IDENTITY = RunIdentity("hosted", 1, names=("A", "B"), roles=("member", "member"))


async def until(true: Callable[[], bool]) -> None:
    """Wait until it is true, and for what comes right after; on a busy machine that takes a while."""
    deadline = time.monotonic() + SECONDS_MAX
    while not true() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.01)


# --- time ------------------------------------------------------------------------------------------------------------


def test_two_clocks_of_one_origin_agree_and_count_from_it() -> None:
    origin = time.monotonic_ns() - 5 * MILLISECOND
    one, other = Clock(origin).now(), Clock(origin).now()
    assert one >= 5 * MILLISECOND
    assert abs(other - one) < 100 * MILLISECOND


def test_who_sets_the_time_of_the_machine_moves_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A life that begins later has the origin and the distance of the clocks from the controller, and reads neither."""
    ahead = realtime_ahead()
    origin = time.monotonic_ns()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    clock = Clock(origin, ahead)
    assert 0 <= clock.now() < SECONDS_MAX * 1_000 * MILLISECOND
    assert clock.stamped(origin + ahead + 5, clock.now() + 5) == 5


def test_the_distance_of_the_clocks_is_that_of_the_quickest_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = iter(range(READINGS * 3))

    def late() -> int:
        """Only the third reading is not interrupted."""
        at = next(passed)
        return 1_000 * at if at // 3 != 2 else 6_000

    monkeypatch.setattr(time, "monotonic_ns", late)
    monkeypatch.setattr(time, "time_ns", lambda: late() + 77)
    assert realtime_ahead() == 77


def test_the_stamp_of_the_kernel_counts_unless_the_time_was_set() -> None:
    clock = Clock(1_000)
    now = STAMP_AGE_MAX + 500
    assert clock.stamped(1_000 + 400 + STAMP_AGE_MAX, now) == STAMP_AGE_MAX + 400
    assert clock.stamped(1_000 + now + 1, now) == now, "a stamp from the future"
    assert clock.stamped(1_000 + 500, now) == now, "a stamp that is too old"


def test_an_agenda_keeps_to_the_order_of_time_and_then_of_asking() -> None:
    async def play() -> list[str]:
        done: list[str] = []
        agenda = Agenda(time.monotonic_ns, lambda: done.append("|"))
        now = time.monotonic_ns()
        agenda.at(now + 20 * MILLISECOND, done.append, "last")
        agenda.at(now + MILLISECOND, done.append, "first")
        agenda.at(now + MILLISECOND, done.append, "second")
        await until(lambda: "last" in done)
        return done

    done = asyncio.run(play())
    assert [what for what in done if what != "|"] == ["first", "second", "last"]
    assert done[-1] == "|", "a busy machine may do all of it in one batch, but never leaves out what comes after"


def test_what_an_agenda_does_may_ask_for_more_and_other_work_gets_its_turn() -> None:
    async def play() -> tuple[int, int]:
        count, turns = 0, 0

        def again(_: Any) -> None:
            nonlocal count
            count += 1
            if count < 3 * BATCH:
                agenda.at(0, again, None)

        def turn() -> None:
            nonlocal turns
            turns += 1

        agenda = Agenda(time.monotonic_ns, turn)
        agenda.at(0, again, None)
        await until(lambda: count == 3 * BATCH)
        return count, turns

    assert asyncio.run(play()) == (3 * BATCH, 3)


def test_what_is_called_off_is_not_done_and_does_not_pile_up() -> None:
    async def play() -> tuple[list[int], int]:
        done: list[int] = []
        agenda = Agenda(time.monotonic_ns, lambda: None)
        now, later, sizes = time.monotonic_ns(), 0, list[int]()
        for number in range(1000):
            agenda.call_off(agenda.at(now + 3_600_000 * MILLISECOND, done.append, -1))
            sizes.append(len(agenda._heap))
            if number % 100 == 0:
                later = agenda.at(now + number * MILLISECOND // 20, done.append, number)
        agenda.call_off(later)
        await until(lambda: 800 in done)
        await asyncio.sleep(0.02)
        return done, max(sizes)

    done, largest = asyncio.run(play())
    assert done == list(range(0, 900, 100))
    assert largest <= 10 + CALLED_OFF_MIN


def test_a_cleared_agenda_does_nothing_more() -> None:
    async def play() -> list[str]:
        done: list[str] = []
        agenda = Agenda(time.monotonic_ns, lambda: None)
        agenda.at(time.monotonic_ns() + MILLISECOND, done.append, "never")
        agenda.clear()
        await asyncio.sleep(0.05)
        return done

    assert asyncio.run(play()) == []


# --- storage ---------------------------------------------------------------------------------------------------------


def test_what_was_written_is_there_in_the_next_life(tmp_path: Path) -> None:
    path = tmp_path / "1.kept"
    first = Storage(path)
    first.keep("view", [1, 2])
    first.keep("name", "old")
    first.keep("name", "new")
    first.keep("gone", 1)
    first.keep("gone", None)
    first.write()
    assert Storage(path).values == {"view": [1, 2], "name": "new"}


@pytest.mark.parametrize("without_length", [True, False])
def test_a_record_that_was_cut_short_does_not_count_and_does_no_harm(tmp_path: Path, without_length: bool) -> None:
    """The length of a record is written last; a file may also have been cut by somebody else."""
    path = tmp_path / "1.kept"
    first = Storage(path)
    first.keep("whole", 1)
    first.write()
    written = path.read_bytes().rstrip(b"\0")
    first.keep("cut", 2)
    first.keep("cut too", 2)
    first.close()
    data = bytearray(path.read_bytes().rstrip(b"\0"))
    if without_length:
        data[len(written) : len(written) + LENGTH.size] = bytes(LENGTH.size)
    path.write_bytes(data if without_length else data[:-1])
    second = Storage(path)
    assert second.values == {"whole": 1}
    second.keep("later", 3)
    second.close()
    assert Storage(path).values == {"whole": 1, "later": 3}


def test_a_long_log_of_few_values_is_rewritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "LOG_BYTES_MIN", 1_000)
    path = tmp_path / "1.kept"
    storage = Storage(path)
    for number in range(10_000):
        storage.keep("counter", number)
        storage.write()
    assert path.stat().st_size < 2_000
    assert len(list(tmp_path.iterdir())) <= 2
    assert Storage(path).values == {"counter": 9_999}


@pytest.mark.parametrize("step", ["link", "replace", "rename"])
def test_who_is_killed_while_the_log_is_rewritten_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whichever step of it is the last one that happens."""
    monkeypatch.setattr(storage_module, "LOG_BYTES_MIN", 1_000)
    path = tmp_path / "1.kept"
    storage = Storage(path)
    monkeypatch.setattr(os if step == "link" else Path, step, _killed)
    written = 0
    with pytest.raises(Killed):  # noqa: PT012 (which of them is the first that does not fit is not the point)
        for number in range(10_000):
            storage.keep("counter", number)
            storage.keep("other", -number)
            written = number
            storage.write()
    monkeypatch.undo()
    again = Storage(path)
    assert again.values["counter"] == -again.values["other"]
    assert again.values["counter"] in (written - 1, written)
    again.keep("counter", 0)
    again.close()
    assert Storage(path).values["counter"] == 0
    assert len(list(tmp_path.iterdir())) <= 2


class Killed(Exception):
    """Nothing happens here any more."""


def _killed(*_: object) -> None:
    raise Killed


def test_a_value_that_is_larger_than_the_log_finds_room(tmp_path: Path) -> None:
    path = tmp_path / "1.kept"
    storage = Storage(path)
    large = bytes(3 * storage_module.LOG_BYTES_MIN)
    for key in ("one", "two"):
        storage.keep(key, large)
        storage.write()
    storage.keep("small", 1)
    storage.write()
    assert Storage(path).values == {"one": large, "two": large, "small": 1}


# --- captures --------------------------------------------------------------------------------------------------------


def _lived(path: Path, *kinds: Kind) -> None:
    capture = LiveCapture(path, IDENTITY, 1)
    for at, kind in enumerate(kinds):
        capture.event(LocalEvent(1, at, kind))
    capture.write()
    os.close(capture._file)


def test_a_capture_holds_all_lives_of_its_node(tmp_path: Path) -> None:
    path = tmp_path / "A.pcapng"
    _lived(path, Kind.START, Kind.DETACH)
    _lived(path, Kind.CRASH)
    _lived(path, Kind.RESTART, Kind.STOP)
    capture = read_capture(path)
    assert capture.problems == []
    assert [event.kind for event in capture.events] == [Kind.START, Kind.DETACH, Kind.CRASH, Kind.RESTART, Kind.STOP]
    assert History(capture.identity, capture.events).identity == IDENTITY


@pytest.mark.parametrize("cut", range(1, 80, 7))
def test_a_block_that_was_cut_short_is_taken_off_by_the_next_life(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "A.pcapng"
    _lived(path, Kind.START, Kind.DETACH)
    path.write_bytes(path.read_bytes()[:-cut])
    _lived(path, Kind.RESTART)
    capture = read_capture(path)
    assert capture.problems == []
    assert [event.kind for event in capture.events] == [Kind.START, Kind.RESTART]


# --- who lives together ----------------------------------------------------------------------------------------------


def test_few_nodes_have_a_process_each_and_many_share_one_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3})
    assert [processes_for(nodes) for nodes in (0, 1, ALONE_MAX, ALONE_MAX + 1, 200)] == [0, 1, ALONE_MAX, 4, 4]
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    assert processes_for(200) == 2


# --- what goes wrong on the way --------------------------------------------------------------------------------------


def _impairment(faults: Faults, *blocks: Block) -> Impairment:
    return Impairment(2, faults, blocks, Random(1), air_is_struck=False)


def test_copies_are_lost_and_doubled_as_often_as_asked_for() -> None:
    impairment = _impairment(Faults(loss=0.1, duplication=0.2))
    copies = [len(impairment.on_air(1, 0)) for _ in range(10_000)]
    assert 900 < copies.count(0) == impairment.effects["loss"] < 1_100
    assert 1_650 < copies.count(2) == impairment.effects["duplication"] < 1_950


def test_some_copies_are_overtaken() -> None:
    impairment = _impairment(Faults(reordering=Reordering(0.5, Delay("fixed", 7))))
    lags = [impairment.on_air(1, 0) for _ in range(1_000)]
    assert set(lags) == {(0,), (7,)}
    assert lags.count((7,)) == impairment.effects["reordering"]


def test_a_cut_strikes_one_direction_for_its_time_only() -> None:
    impairment = _impairment(Faults(), Block(1, 2, 10, 20, "cuts"), Block(2, 1, 0, 99, "cuts"))
    assert impairment.on_air(1, 9) == impairment.on_air(1, 20) == impairment.on_air(3, 15) == (0,)
    assert impairment.on_air(1, 10) == impairment.on_air(1, 19) == ()
    assert impairment.effects == {"cuts": 2}


def test_on_a_wire_a_cut_delays_and_nothing_overtakes() -> None:
    impairment = _impairment(Faults(loss=1.0), Block(1, 2, 10, 20, "cuts"), Block(1, 2, 20, 30, "partitions"))
    assert [impairment.on_wire(1, at, 100) for at in (9, 10, 25, 29, 31)] == [9, 30, 30, 30, 31]
    assert impairment.effects == {"cuts": 1, "partitions": 3}


def test_a_network_that_shapes_its_air_leaves_the_host_only_the_wires() -> None:
    shaped = Impairment(2, Faults(loss=1.0), (Block(1, 2, 0, 9, "cuts"),), Random(1), air_is_struck=True)
    assert (shaped.strikes_air, shaped.strikes_wire) == (False, True)


def test_an_emulated_wire_takes_its_time_and_keeps_the_order() -> None:
    wire = WireSpec(rate=BitRate(8_000_000), delay=Delay("fixed", 5_000))
    emulated = Impairment(2, Faults(), (Block(1, 2, 4_000, 9_000, "cuts"),), Random(1), True, wire)
    assert [emulated.on_wire(1, now, 1) for now in (0, 0, 4_000, 20_000)] == [6_000, 7_000, 10_000, 26_000]
    assert emulated.on_wire(3, 0, 1) == 6_000, "each wire has a transmitter of its own"
    assert emulated.effects == {"cuts": 1}


# --- programs ---------------------------------------------------------------------------------------------------------


class Ticker(Application):
    """Is woken every ten milliseconds and writes down when."""

    def started(self) -> None:
        self.wake("tick", 10 * MILLISECOND)

    def woken(self, name: Any) -> None:  # noqa: ARG002 (there is only one wake)
        self.options.append(self.now)
        self.wake("tick", 10 * MILLISECOND)


class Stage:
    """A node without a machine: programs run on it, and its links are as congested as the test wants."""

    def __init__(self) -> None:
        self.now = 0
        self.congested = False
        self.counters: Counter[str] = Counter()

    def tick(self) -> None:
        self.now = time.monotonic_ns()

    def step(self, event: Any) -> None:
        raise AssertionError(f"nobody wished for {event}")


def test_programs_wait_while_links_are_congested_and_then_catch_up() -> None:
    async def play() -> tuple[int, int, int, int]:
        ticks: list[int] = []
        stage: Any = Stage()
        stage.tick()
        start = time.monotonic_ns()
        setting = Setting(1, shapes.broadcast(("A",)), Random(1), 0)
        agenda = Agenda(time.monotonic_ns, lambda: None)
        stage.congested = True
        Programs([Ticker(setting, ticks)], "A", stage, agenda, stage).start()
        await asyncio.sleep(0.1)
        congested = len(ticks)
        stage.congested = False
        await until(lambda: len(ticks) >= 20)
        agenda.clear()
        return congested, len(ticks), stage.counters["waited"], (time.monotonic_ns() - start) // MILLISECOND

    congested, ticks, waited, passed_ms = asyncio.run(play())
    assert congested == 0
    assert 20 <= ticks <= passed_ms / 10 + 1, "what was missed comes as soon as it may, and nothing comes early"
    assert waited > 0
