"""Malformed and impossible frames against the machines of a finished run: only PeerError may come of them.

A machine that blames a packet on its peer must not have changed: its state is compared, field by field. Attributes
called `_cached_...` may differ: they hold what can be computed from the others. What a machine asks for instead has to
be possible: its packets fit frames, their addressees exist, and what happened fits records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import msgspec

from castbed.actions import Action, Broadcast, Multicast, Send
from castbed.errors import PeerError
from castbed.events import Received
from castbed.machine import Machine
from castbed.packets import Packet
from castbed.recording import local_event
from castbed.records import encode_event
from castbed.registry import Registry
from castbed.values import NOBODY, NodeNumber
from castbed.wire import Codec, FrameTooLargeError
from castbed_testbed.experiment import Loaded
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import NullRecorder
from castbed_testbed.sim.media import Encoder, Flight
from castbed_testbed.sim.node import Cell, SimNode
from castbed_testbed.sim.simulation import Simulation

TRIES = 2_000
BYTES_CHANGED_MAX = 4
CHANGED_FROM = 8  # behind the bytes that all frames of a packet type share: changes of those only stop the frame
TELLING = (0, 1, 0x7F, 0x80, 0xCF, 0xFF)  # bytes with which numbers begin or end
FAILURES_MAX = 5
_BOOKKEEPING = frozenset({"now", "_actions", "_handlers", "_owner", "context", "options"})


class _FrameCollector(Encoder):
    """Also keeps the frames that are sent, each with whom it is for."""

    def __init__(self, codec: Codec) -> None:
        super().__init__(codec, decode=True)
        self.frames: list[tuple[bytes, NodeNumber]] = []

    def flight(self, sender: SimNode, packet: Packet, cell: Cell, to: NodeNumber = NOBODY) -> Flight:
        flight = super().flight(sender, packet, cell, to)
        self.frames.append((flight.frame, to))
        return flight


def disturbed(registry: Registry, loaded: Loaded, tries: int = TRIES) -> list[str]:
    """Run the experiment, then show its machines mutated frames of it; returns what went wrong, in words."""
    plan = make_plan(loaded.experiment, registry)
    codec = plan.chosen.codec()
    simulation = Simulation(plan, NullRecorder())
    simulation.transmitter.encoder = collector = _FrameCollector(codec)
    simulation.run()
    machines = {node.number: node.machine for node in simulation.nodes if node.machine is not None}
    random = plan.random("disturbance")
    problems: list[str] = []
    for _ in range(tries if collector.frames and machines else 0):
        frame, to = random.choice(collector.frames)
        try:
            packet, sender = codec.decode(mutated(frame, random))
        except PeerError:
            continue
        machine = machines.get(to) or random.choice(list(machines.values()))
        if not plan.topology.knows(sender) or sender == machine.me:
            continue  # as every host drops it
        problem = _shown(machine, Received(packet, sender), simulation.kernel.now, codec)
        if problem and problem not in problems:
            problems.append(problem)
    return problems[:FAILURES_MAX]


def mutated(frame: bytes, random: Random) -> bytes:
    """The frame with some bytes changed: by one, to any other, or to what begins or ends a number."""
    changed = bytearray(frame)
    for _ in range(random.randint(1, BYTES_CHANGED_MAX)):
        at = random.randrange(CHANGED_FROM, len(changed))
        near = (changed[at] + random.choice((1, -1))) & 0xFF
        changed[at] = random.choice((near, random.randrange(256), random.choice(TELLING)))
    return bytes(changed)


def _shown(machine: Machine, event: Received, now: int, codec: Codec) -> str:
    before = state_of(machine)
    try:
        actions = machine.step(event, now)
    except PeerError:
        if state_of(machine) != before:
            return f"{type(machine).__name__} changed although it blamed {event!r} on its peer"
    except Exception as error:  # anything else is what is looked for
        return f"{type(machine).__name__} raised {type(error).__name__} ({error}) for {event!r}"
    else:
        for action in actions:
            problem = _impossible(machine, action, now, codec)
            if problem:
                return f"{type(machine).__name__} asked for what cannot be ({problem}) after {event!r}"
    return ""


def _impossible(machine: Machine, action: Action, now: int, codec: Codec) -> str:
    """Why no host could carry the action out; empty: one can."""
    try:
        if isinstance(action, Broadcast | Multicast | Send):
            codec.encode(action.packet, machine.me)
            to = () if isinstance(action, Broadcast) else action.to if isinstance(action, Multicast) else (action.to,)
            strangers = [number for number in to if not machine.context.topology.knows(number)]
            return f"there is no node {strangers[0]} to send to" if strangers else ""
        event = local_event(machine.me, now, action)
        if event is not None:
            encode_event(event)
    except FrameTooLargeError:
        return ""  # hosts drop it, and count it
    except Exception as error:  # anything else is what is looked for
        return str(error)
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
