"""Runs a plan on real links; what transports name as their runner that bring a `castbed.links.Network`."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from castbed.authentication import derived_key
from castbed.handshake import CHALLENGE_BYTES, Handshake
from castbed.links import Network, Prover, RunSetting
from castbed_testbed.hosting.controller import Controller, heeded_signals
from castbed_testbed.hosting.leftovers import RunDirectory, remove_leftovers
from castbed_testbed.hosting.nursery import Nursery
from castbed_testbed.hosting.process import Site
from castbed_testbed.hosting.residents import never_sleep
from castbed_testbed.hosting.wakefulness import cores_awake
from castbed_testbed.plan import Plan
from castbed_testbed.report import HostReport

TOKEN_BYTES = 8


def run(plan: Plan, captures: Path | None, progress: Callable[[int], None] | None = None) -> HostReport:
    """Carry the plan out in real time; whatever happens, every process and everything else it made is gone after."""
    network, awake = _network(plan, captures is not None), never_sleep(plan)
    remove_leftovers()
    with _ended_by_signals():
        directory = RunDirectory()
        site = Site(plan, network, captures, directory.path, awake)
        try:
            network.open()
            nursery = Nursery(site)
            try:
                with cores_awake(bool(awake)):
                    return asyncio.run(Controller(site, nursery, progress).run())
            finally:
                nursery.close()
        finally:
            network.close()
            directory.close()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A SIGTERM or SIGHUP ends what is inside as an exit does, as long as no controller handles them."""
    before = {number: signal.getsignal(number) for number in heeded_signals()}
    for number in before:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, _: object) -> NoReturn:
    """The first signal ends the run; a second one does not disturb what undoes it."""
    for heeded in heeded_signals():
        signal.signal(heeded, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _network(plan: Plan, captured: bool) -> Network:
    module, _, name = plan.transport.network.partition(":")
    make = getattr(importlib.import_module(module), name)
    token, blocks = os.urandom(TOKEN_BYTES), plan.schedule.blocks
    prover = _prover(plan.secret.key, token) if plan.secret is not None else None
    setting = RunSetting(token, plan.topology, plan.transport_options, captured, plan.experiment, blocks, prover)
    network: Network = make(setting)
    return network


def _prover(key: bytes, token: bytes) -> Prover:
    """Handshakes with a key of this run, which takes its random from the system."""

    def begin(role: bytes, about: bytes) -> Handshake:
        return Handshake(role, derived_key(key, b"wires", token, about), os.urandom(CHALLENGE_BYTES))

    return begin
