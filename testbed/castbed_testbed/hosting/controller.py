"""Drives a run in real time: brings nodes up, lets the schedule happen to them, stops them, and adds up what they say.

No node begins before the capture of every node is running and all of its links are up. A crash is a SIGKILL; since the
dead tell nothing, the controller writes it into the capture of the node.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from castbed import errors
from castbed.errors import CastbedError, ContractError, UnavailableError
from castbed.handshake import CONTROLLER
from castbed.history import Kind, LocalEvent
from castbed.links import NOWHERE, Cell
from castbed.values import NodeNumber
from castbed_testbed.hosting import control
from castbed_testbed.hosting.capturing import LiveCapture, capture_path
from castbed_testbed.hosting.clock import Clock, realtime_ahead
from castbed_testbed.hosting.control import Channel, Counts
from castbed_testbed.hosting.nursery import Nursery
from castbed_testbed.hosting.process import Birth, Site
from castbed_testbed.hosting.residents import Process, Resident, home_of, households
from castbed_testbed.report import HostReport
from castbed_testbed.schedule import AskNode, BringBack, CrashNode, Happening, MoveNode, RestartNode, TakeAway

START_S_MAX = 60.0  # until every node of a large run is up on a busy machine
STOP_S_MAX = 30.0
HURRY_S_MAX = 5.0  # the same when the run was stopped or has failed
HEAD_START_NS = 20_000_000  # from the last node that is ready to time 0, so that all hear of it in time
PROGRESS_EVERY_S = 0.1
KILLED = "killed"  # what a death that nobody asked for is counted as


class Controller:
    """One run."""

    def __init__(self, site: Site, nursery: Nursery, progress: Callable[[int], None] | None) -> None:
        self._site, self._plan, self._nursery = site, site.plan, nursery
        self._progress = progress
        self._effects: Counter[str] = Counter()
        self._counts: dict[tuple[NodeNumber, int], Counts] = {}
        topology = self._plan.topology
        self._households = households(self._plan)
        self._residents = {n: Resident(n, home_of(topology, n)) for n in topology.numbers()}
        self._processes: set[Process] = set()
        self._clock = Clock()
        self._go = control.Go(0, 0)
        self._births: set[asyncio.Task[None]] = set()
        self._conversations: set[asyncio.Task[None]] = set()

    async def run(self) -> HostReport:
        """From the start of all nodes to the end of the experiment."""
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended_by = self._stop_on_signals()
        work = asyncio.ensure_future(self._run())
        try:
            await asyncio.wait([work, self._failure], return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            work.result()
        except asyncio.CancelledError:
            if ended_by:
                raise SystemExit(128 + ended_by[0]) from None
            raise
        finally:
            work.cancel()
            for birth in self._births:
                birth.cancel()
            await self._stop(HURRY_S_MAX)
        return self._report()

    def _stop_on_signals(self) -> list[int]:
        """A SIGTERM or SIGHUP ends the run as an interruption does, and is listed."""
        ended_by, task = list[int](), asyncio.current_task()
        assert task is not None

        def end(number: int) -> None:
            ended_by.append(number)
            task.cancel()

        for number in heeded_signals():
            asyncio.get_running_loop().add_signal_handler(number, end, number)
        return ended_by

    async def _run(self) -> None:
        await self._bring_up()
        ticking = asyncio.ensure_future(self._tick())
        ticking.add_done_callback(self._checked)
        try:
            for at, happening in enumerate(self._plan.schedule.happenings):
                await self._until(int(happening.at))
                self._happen(at, happening)
            await self._until(self._plan.end)
        finally:
            ticking.cancel()
        await self._stop(STOP_S_MAX)

    async def _until(self, at: int) -> None:
        await asyncio.sleep(max(0, at - self._clock.now()) / 1e9)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            self._site.network.check()
            if self._progress is not None:
                self._progress(min(max(self._clock.now(), 0), self._plan.end))

    # --- bringing up -------------------------------------------------------------------------------------------------

    async def _bring_up(self) -> None:
        for numbers in self._households:
            await self._bear([Birth(number, 0, self._residents[number].home, False) for number in numbers])
        try:
            async with asyncio.timeout(START_S_MAX):
                await self._link()
        except TimeoutError:
            raise UnavailableError(f"the nodes are not up after {START_S_MAX:g} s; is the machine busy?") from None
        except ConnectionAbortedError as error:
            raise UnavailableError(f"{error} before it was up; was it killed?") from None
        origin = time.monotonic_ns() + HEAD_START_NS
        self._go = control.Go(origin, realtime_ahead())
        self._clock.begin(origin, self._go.ahead)
        self._site.network.begin(origin)
        for process in self._processes:
            process.channel.say(self._go)

    async def _link(self) -> None:
        """Wait for everybody, and have everybody reach those before them."""
        residents, fixed = self._residents.values(), self._plan.topology.fixed
        addresses = {resident.number: await _told(resident.opened) for resident in residents}
        for resident in residents:
            earlier = {n: addresses[n] for n in fixed if n < resident.number} if resident.number in fixed else {}
            resident.reaches = True
            self._say(resident, control.Connect(resident.number, earlier))
        for resident in residents:
            await _told(resident.linked)

    async def _bear(self, births: list[Birth]) -> Process:
        residents = [self._residents[birth.node] for birth in births]
        loop = asyncio.get_running_loop()
        number, stream = self._nursery.bear(births)
        channel = Channel(*await asyncio.open_unix_connection(sock=stream))
        if self._plan.secret is not None:
            await channel.authenticate(CONTROLLER, self._plan.secret.key)
        for resident, birth in zip(residents, births, strict=True):
            resident.life = birth.life
        process = Process(number, channel, residents)
        self._processes.add(process)
        for resident in residents:
            resident.process = process
            resident.opened, resident.linked = loop.create_future(), loop.create_future()
            resident.begun = loop.create_future()
            resident.reaches = False
            self._site.network.moved(resident.number, resident.home)
        process.listening = self._begun(self._listen(process), self._conversations)
        return process

    async def _bring_back(self, resident: Resident, kept: bool) -> None:
        """A node that was down starts again, and reaches out to all that are up."""
        if not kept:
            self._site.stored(resident.number).unlink(missing_ok=True)
        process = await self._bear([Birth(resident.number, resident.life + 1, resident.home, kept)])
        try:
            async with asyncio.timeout(START_S_MAX):
                await _told(resident.opened)
                earlier = self._reachable(resident)
                resident.reaches = True
                self._say(resident, control.Connect(resident.number, earlier))
                await _told(resident.linked)
                process.channel.say(self._go)
                await _told(resident.begun)
        except ConnectionAbortedError:
            return  # somebody killed it before it was up

    def _reachable(self, resident: Resident) -> dict[NodeNumber, object]:
        """All that are up; of two that start at a time, one reaches the other."""
        fixed = self._plan.topology.fixed
        if resident.number not in fixed:
            return {}
        others = (self._residents[n] for n in fixed if n != resident.number)
        return {o.number: o.opened.result() for o in others if o.up and o.reaches and o.opened is not None}

    # --- what nodes say ----------------------------------------------------------------------------------------------

    async def _listen(self, process: Process) -> None:
        try:
            while (heard := await process.channel.hear()) is not None:
                self._heard(process, heard)
            await process.channel.close()
        finally:
            process.channel.drop()
        if not process.ended:
            self._lost(process)

    def _heard(self, process: Process, heard: control.Message) -> None:
        if isinstance(heard, control.Counted):
            self._counts[heard.node, process.lives[heard.node]] = heard.counts
        elif process not in self._processes:
            return  # the last words of a process that was killed
        elif isinstance(heard, control.Opened):
            _tell(self._residents[heard.node].opened, heard.address)
        elif isinstance(heard, control.Linked):
            _tell(self._residents[heard.node].linked, None)
        elif isinstance(heard, control.Begun):
            _tell(self._residents[heard.node].begun, None)
        elif isinstance(heard, control.Failed):
            self._fail(_error(" or ".join(map(self._plan.topology.name, heard.nodes)), heard))
        elif isinstance(heard, control.Ended):
            process.ended = True
            self._down(process)

    def _fail(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)
            self._failure.exception()  # seen, also when the run ends for another reason first

    def _lost(self, process: Process) -> None:
        """A process died that nobody killed here: its nodes crashed."""
        self._nursery.kill(process.number)
        self._effects[KILLED] += len(process.residents)
        self._bury(process)

    def _bury(self, process: Process) -> None:
        process.ended = True
        self._down(process)
        if self._site.captures is None:
            return
        identity, now = self._plan.identity(), max(self._clock.now(), 0)
        for resident in process.residents:
            path = capture_path(self._site.captures, identity, resident.number)
            capture = LiveCapture(path, identity, resident.number)
            capture.event(LocalEvent(resident.number, now, Kind.CRASH))
            capture.close()

    def _down(self, process: Process) -> None:
        self._processes.discard(process)
        for resident in process.residents:
            if resident.process is process:
                resident.process = None
                self._site.network.moved(resident.number, NOWHERE)
                name = self._plan.topology.name(resident.number)
                for awaited in (resident.opened, resident.linked, resident.begun):
                    if awaited is not None and not awaited.done():
                        awaited.set_exception(ConnectionAbortedError(f"{name} died"))
                        awaited.exception()

    # --- what happens to nodes ---------------------------------------------------------------------------------------

    def _happen(self, at: int, happening: Happening) -> None:
        """Let it happen to the node; to one that is just being born, as soon as it is there."""
        resident = self._residents[happening.node]
        if resident.meanwhile is not None:
            resident.meanwhile.append((at, happening))
        elif isinstance(happening, RestartNode):
            self._count(happening, self._restart(resident, happening.storage))
        else:
            self._count(happening, self._happened(at, happening, resident))

    def _count(self, happening: Happening, took_effect: bool) -> None:
        if happening.fault:
            self._effects[happening.fault] += took_effect

    def _happened(self, at: int, happening: Happening, resident: Resident) -> bool:
        """Whether it took effect."""
        if isinstance(happening, CrashNode):
            return self._crash(resident)
        if isinstance(happening, MoveNode):
            return self._move(resident, happening.station)
        if isinstance(happening, TakeAway):
            resident.before = resident.home if resident.home != NOWHERE else resident.before
            return self._move(resident, NOWHERE)
        if isinstance(happening, BringBack):
            return resident.home == NOWHERE and self._move(resident, resident.before)
        assert isinstance(happening, AskNode)
        self._say(resident, control.Ask(at))
        return resident.up

    def _crash(self, resident: Resident) -> bool:
        process = resident.process
        if process is None:
            return False
        process.ended = True
        self._nursery.kill(process.number)
        self._bury(process)
        return True

    def _restart(self, resident: Resident, kept: bool) -> bool:
        if resident.up:
            return False
        resident.meanwhile = []
        self._begun(self._reborn(resident, kept), self._births)
        return True

    async def _reborn(self, resident: Resident, kept: bool) -> None:
        """Start the node again, and then let happen to it what should have happened meanwhile."""
        await self._bring_back(resident, kept)
        meanwhile, resident.meanwhile = resident.meanwhile or [], None
        for at, happening in meanwhile:
            self._happen(at, happening)

    def _begun(self, work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> asyncio.Task[None]:
        """A task that is kept until it is done: an event loop alone does not keep it."""
        task = asyncio.ensure_future(work)
        among.add(task)
        task.add_done_callback(among.discard)
        task.add_done_callback(self._checked)
        return task

    def _checked(self, task: asyncio.Task[None]) -> None:
        """An error in a task that nobody waits for ends the run."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _move(self, resident: Resident, target: Cell) -> bool:
        if target == resident.home:
            return False
        resident.home = target
        if resident.up:
            self._site.network.moved(resident.number, target)
            self._say(resident, control.Move(resident.number, target))
        return True

    def _say(self, resident: Resident, message: control.ControlMessage) -> None:
        if resident.process is not None:
            resident.process.channel.say(message)

    # --- the end -----------------------------------------------------------------------------------------------------

    async def _stop(self, patience_s: float) -> None:
        """Have every node complete its capture; who does not in time is killed with the nursery."""
        listening = [process.listening for process in self._processes if process.listening is not None]
        for process in self._processes:
            process.channel.say(control.Stop())
        if not listening:
            return
        _, late = await asyncio.wait(listening, timeout=patience_s)
        if late:
            words = f"{len(late)} processes of nodes did not stop within {patience_s:g} s: this machine is too busy"
            self._fail(UnavailableError(words))

    def _report(self) -> HostReport:
        network, lives = self._site.network, self._counts.values()
        effects, links = self._effects + Counter(network.effects()), Counter(network.counters())
        for counts in lives:
            effects.update(counts.effects)
            links.update(counts.links)
        return HostReport(
            sum(counts.submitted for counts in lives),
            sum(counts.delivered for counts in lives),
            sum(counts.frames for counts in lives),
            sum(counts.steps for counts in lives),
            self._plan.end,
            sum(counts.dropped for counts in lives),
            sum(counts.oversize for counts in lives),
            dict(effects),
            dict(links),
        )


def heeded_signals() -> list[signal.Signals]:
    """The signals that end a run; what nohup ignores stays ignored, and only the main thread may handle any."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]


async def _told(awaited: asyncio.Future[object] | asyncio.Future[None] | None) -> object:
    assert awaited is not None
    return await awaited


def _tell(awaited: asyncio.Future[object] | asyncio.Future[None] | None, value: object) -> None:
    if awaited is not None and not awaited.done():
        awaited.set_result(value)  # type: ignore[arg-type]


def _error(name: str, failed: control.Failed) -> CastbedError:
    """The error as it was raised at the node."""
    kind = getattr(errors, failed.kind, None) if failed.kind else None
    if kind is errors.ConfigurationError:
        return errors.ConfigurationError("", f"{name}: {failed.words}")
    if isinstance(kind, type) and issubclass(kind, CastbedError):
        return kind(f"{name}: {failed.words}")
    return ContractError(f"{name}: {failed.words}")
