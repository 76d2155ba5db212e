"""The process of one node, or of several: opens their links, lives their lives, does what the controller says."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import socket
import traceback
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from castbed.errors import CastbedError, UnavailableError
from castbed.handshake import NODE, HandshakeError
from castbed.links import Cell, Links, Network
from castbed.values import NodeNumber
from castbed_testbed.hosting import control
from castbed_testbed.hosting.capturing import LiveCapture, capture_path
from castbed_testbed.hosting.clock import Clock
from castbed_testbed.hosting.control import Channel, Counts
from castbed_testbed.hosting.life import Life
from castbed_testbed.hosting.storage import Storage
from castbed_testbed.hosting.vigil import Vigil
from castbed_testbed.plan import Plan
from castbed_testbed.schedule import AskNode

COUNT_EVERY_S = 0.25
GARBAGE_AFTER = (20_000, 20, 20)  # objects; what protocols keep is none, and to look at it every 700 costs a third
_PR_SET_PDEATHSIG = 1


class Birth(msgspec.Struct, frozen=True, array_like=True):
    """Which node comes up, in which of its lives and where, and whether its storage survived."""

    node: NodeNumber
    life: int
    cell: Cell
    kept: bool


class Site(msgspec.Struct, frozen=True):
    """What the processes of a run share: the plan, its network, and the folders for captures and for storage.

    The processes of nodes in `awake` never sleep.
    """

    plan: Plan
    network: Network
    captures: Path | None
    storage: Path
    awake: frozenset[NodeNumber] = frozenset()

    def stored(self, node: NodeNumber) -> Path:
        return self.storage / f"{node}.kept"


class Tenant:
    """One node in this process."""

    def __init__(self, site: Site, birth: Birth, clock: Clock) -> None:
        self.birth = birth
        self.links: Links = site.network.links(birth.node)
        self.capture: LiveCapture | None = None
        self.storage = Storage(site.stored(birth.node))
        if site.captures is not None:
            identity = site.plan.identity()
            self.capture = LiveCapture(capture_path(site.captures, identity, birth.node), identity, birth.node)
        self.life = Life(
            site.plan, birth.node, birth.life, birth.cell, self.links, clock, self.capture, self.storage,
            site.network,
        )  # fmt: skip
        self.lives = False
        self._meanwhile: list[Callable[[Life], None]] = []

    async def open(self) -> Any:
        address = await self.links.open()
        self.links.tune(self.birth.cell)
        return address

    def start(self) -> None:
        self.lives = True
        self.life.start(self.birth.kept)
        for meanwhile in self._meanwhile:
            meanwhile(self.life)

    def let(self, happen: Callable[[Life], None]) -> None:
        """Let something happen to the node: now, or as soon as it has started."""
        if self.lives:
            happen(self.life)
        else:
            self._meanwhile.append(happen)

    def counts(self) -> Counts:
        counts = self.life.counted()
        counts.links = dict(self.links.counters)
        return counts

    async def stop(self) -> None:
        if self.lives:
            self.life.stop()
        await self.links.close()
        self.storage.close()
        if self.capture is not None:
            self.capture.close()


class NodeProcess:
    """Everything in this process; `run` returns when the controller says stop, or is gone."""

    def __init__(self, site: Site, births: list[Birth]) -> None:
        self._site = site
        self._births = births
        self._clock = Clock()
        self._tenants: dict[NodeNumber, Tenant] = {}
        self._vigil: Vigil | None = None
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, channel: Channel) -> None:
        loop = asyncio.get_running_loop()
        if any(birth.node in self._site.awake for birth in self._births):
            self._vigil = Vigil()
        loop.set_exception_handler(self._raised)
        conversation = asyncio.ensure_future(self._converse(channel))
        loop.add_signal_handler(signal.SIGTERM, conversation.cancel)
        counting = asyncio.ensure_future(self._count(channel))
        awaited: list[asyncio.Future[Any]] = [conversation, counting, self._failure]
        done, _ = await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        counting.cancel()
        error = next((task.exception() for task in done if not task.cancelled() and task.exception()), None)
        if error is not None:
            self._say_failed(channel, error)
        elif conversation.cancelled() or conversation.result():
            await self._end(channel)
        await channel.close()

    async def _converse(self, channel: Channel) -> bool:
        """Whether the controller said stop; otherwise it is gone."""
        await self._open(channel)
        while (heard := await channel.hear()) is not None:
            if isinstance(heard, control.Stop):
                return True
            await self._do(heard, channel)
        return False

    async def _open(self, channel: Channel) -> None:
        for birth in self._births:
            self._site.network.enter(birth.node)
            tenant = self._tenants[birth.node] = Tenant(self._site, birth, self._clock)
            channel.say(control.Opened(birth.node, await tenant.open()))

    async def _do(self, heard: control.Message, channel: Channel) -> None:
        if isinstance(heard, control.Connect):
            await self._connect(self._tenants[heard.node], heard.addresses)
            channel.say(control.Linked(heard.node))
        elif isinstance(heard, control.Go):
            await self._go(heard, channel)
        elif isinstance(heard, control.Move):
            cell = heard.cell
            self._tenants[heard.node].let(lambda life: life.move(cell))
        elif isinstance(heard, control.Ask):
            happening = self._site.plan.schedule.happenings[heard.happening]
            assert isinstance(happening, AskNode)
            command = happening.command
            self._tenants[happening.node].let(lambda life: life.ask(command))

    async def _connect(self, tenant: Tenant, addresses: Mapping[NodeNumber, Any]) -> None:
        """Whom a node cannot reach when it starts again may have died meanwhile; at first, everybody is there."""
        unreached = await tenant.links.connect(addresses)
        if unreached and tenant.birth.life == 0:
            name = self._site.plan.topology.name
            words = ", ".join(f"{name(node)} ({reason})" for node, reason in unreached.items())
            raise UnavailableError(f"{name(tenant.birth.node)} cannot reach over a wire: {words}")
        if unreached:
            tenant.links.counters["unreached"] += len(unreached)

    async def _go(self, go: control.Go, channel: Channel) -> None:
        self._clock.begin(go.origin, go.ahead)
        await asyncio.sleep(max(0, -self._clock.now()) / 1e9)
        for node, tenant in self._tenants.items():
            tenant.start()
            if self._vigil is not None:
                self._vigil.add(tenant.links.poll)
            channel.say(control.Begun(node))

    async def _count(self, channel: Channel) -> None:
        while True:
            await asyncio.sleep(COUNT_EVERY_S)
            for node, tenant in self._tenants.items():
                channel.say(control.Counted(node, tenant.counts()))

    async def _end(self, channel: Channel) -> None:
        if self._vigil is not None:
            self._vigil.end()
        for node, tenant in self._tenants.items():
            await tenant.stop()
            channel.say(control.Counted(node, tenant.counts()))
            channel.say(control.Ended(node))

    def _raised(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: ARG002 (asyncio's)
        """An error in a callback ends this process."""
        error = context.get("exception")
        if error is not None and not self._failure.done():
            self._failure.set_exception(error)

    def _say_failed(self, channel: Channel, error: BaseException) -> None:
        ours = isinstance(error, CastbedError)
        words = str(error) if ours else "".join(traceback.format_exception(error))
        at_fault = culprit(error)
        nodes = [birth.node for birth in self._births] if at_fault is None else [at_fault]
        channel.say(control.Failed(nodes, type(error).__name__ if ours else "", words))


def culprit(error: BaseException) -> NodeNumber | None:
    """The node in whose life the error was raised: that of the innermost `Life` that was at work."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        life = frame.f_locals.get("self")
        if isinstance(life, Life):
            found = life.me
    return found


def live(site: Site, births: list[Birth], stream: socket.socket) -> None:
    """What a process does that was forked for these nodes; it never outlives the one that forked it."""
    die_with_parent()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.set_threshold(*GARBAGE_AFTER)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_live(site, births, stream))


async def _live(site: Site, births: list[Birth], stream: socket.socket) -> None:
    channel = Channel(*await asyncio.open_unix_connection(sock=stream))
    if site.plan.secret is not None:
        try:
            await channel.authenticate(NODE, site.plan.secret.key)
        except HandshakeError:
            return  # whoever that is, it is not our controller
    await NodeProcess(site, births).run(channel)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal as soon as its parent is gone, if it is not gone already."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent or parent == 1:
        os._exit(1)
