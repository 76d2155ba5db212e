"""Malformed and impossible frames against the machines of a finished run: only PeerError may come of them.

A machine that blames a packet on its peer must not have changed: its state is compared, field by field. Attributes
called `_cached_...` may differ: they hold what can be computed from the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import msgspec

from castbed.errors import PeerError
from castbed.events import Received
from castbed.machine import Machine
from castbed.packets import Packet
from castbed.registry import Registry
from castbed.values import NOBODY, NodeNumber
from castbed.wire import Codec
from castbed_testbed.experiment import Loaded
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import NullRecorder
from castbed_testbed.sim.media import Encoder, Flight
from castbed_testbed.sim.node import Cell, SimNode
from castbed_testbed.sim.simulation import Simulation

TRIES = 2_000
BYTES_CHANGED_MAX = 4
FAILURES_MAX = 5
_BOOKKEEPING = frozenset({"now", "_actions", "_handlers", "_owner", "context", "options"})


class _FrameCollector(Encoder):
    """Also keeps the frames that are sent."""

    def __init__(self, codec: Codec) -> None:
        super().__init__(codec, decode=True)
        self.frames: list[bytes] = []

    def flight(self, sender: SimNode, packet: Packet, cell: Cell, to: NodeNumber = NOBODY) -> Flight:
        flight = super().flight(sender, packet, cell, to)
        self.frames.append(flight.frame)
        return flight


def disturbed(registry: Registry, loaded: Loaded, tries: int = TRIES) -> list[str]:
    """Run the experiment, then show its machines mutated frames of it; returns what went wrong, in words."""
    plan = make_plan(loaded.experiment, registry)
    codec = plan.chosen.codec()
    simulation = Simulation(plan, NullRecorder())
    simulation.transmitter.encoder = collector = _FrameCollector(codec)
    simulation.run()
    machines = [node.machine for node in simulation.nodes if node.machine is not None]
    random = plan.random("disturbance")
    problems: list[str] = []
    for _ in range(tries if collector.frames and machines else 0):
        try:
            packet, sender = codec.decode(_mutated(random.choice(collector.frames), random))
        except PeerError:
            continue
        problem = _shown(random.choice(machines), Received(packet, sender), simulation.kernel.now)
        if problem and problem not in problems:
            problems.append(problem)
    return problems[:FAILURES_MAX]


def _mutated(frame: bytes, random: Random) -> bytes:
    changed = bytearray(frame)
    for _ in range(random.randint(1, BYTES_CHANGED_MAX)):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _shown(machine: Machine, event: Received, now: int) -> str:
    before = state_of(machine)
    try:
        machine.step(event, now)
    except PeerError:
        if state_of(machine) != before:
            return f"{type(machine).__name__} changed although it blamed {event!r} on its peer"
    except Exception as error:  # anything else is what is looked for
        return f"{type(machine).__name__} raised {type(error).__name__} ({error}) for {event!r}"
    return ""


def _is_state(attribute: str) -> bool:
    return attribute not in _BOOKKEEPING and not attribute.startswith("_cached_")


def state_of(thing: Any, within: tuple[int, ...] = ()) -> Any:
    """What a machine remembers, as plain data that can be compared; `within` are the things that lead here."""
    if id(thing) in within:
        return f"the {type(thing).__name__} that it is in"
    inner = (*within, id(thing))
    if isinstance(thing, Machine):
        own = {key: value for key, value in vars(thing).items() if _is_state(key)}
        return type(thing).__name__, state_of(own, inner)
    if isinstance(thing, Mapping):
        return {repr(key): state_of(value, inner) for key, value in thing.items()}
    if isinstance(thing, set | frozenset):
        return sorted(repr(member) for member in thing)
    if isinstance(thing, list | tuple | deque):
        return [state_of(member, inner) for member in thing]
    if isinstance(thing, msgspec.Struct) or not (hasattr(thing, "__dict__") or hasattr(thing, "__slots__")):
        return repr(thing)
    if callable(thing):
        return None
    return type(thing).__name__, {name: state_of(value, inner) for name, value in _attributes(thing)}


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                yield name, getattr(thing, name)
