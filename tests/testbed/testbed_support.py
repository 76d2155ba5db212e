"""Small protocols whose behaviour is plain to see, and short ways to simulate them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

import cellular_relay
from castbed import (
    NEEDS,
    Application,
    ApplicationPlugin,
    Command,
    ConfigurationError,
    Duration,
    Group,
    History,
    Kind,
    Machine,
    Message,
    Mid,
    NodeNumber,
    Packet,
    PeerError,
    Protocol,
    Registry,
    Variant,
    hookimpl,
    load_registry,
    on,
)
from castbed.registry import Register
from castbed.values import parse_group
from castbed_testbed.experiment import load
from castbed_testbed.plan import Plan, make_plan
from castbed_testbed.recorder import MemoryRecorder
from castbed_testbed.report import HostReport
from castbed_testbed.sim.runner import simulate

FRAME_OVERHEAD_BYTES = 14 + 44  # the Ethernet header and the header of a frame
PAYLOAD = "x" * (100 - FRAME_OVERHEAD_BYTES)  # makes a frame of 100 bytes, which is 800 us at 1 Mbit/s
MILLISECOND = 1_000_000


class Said(Packet, frozen=True, tag=1):
    """One message as it is."""

    group: Group
    mid: Mid
    payload: bytes


class SetAlarm(Command, frozen=True):
    """Set the timer `name`; `when_sent` as in `Machine.set_timer`."""

    name: str
    delay: Duration
    when_sent: bool = False


class CancelAlarm(Command, frozen=True):
    """Cancel the timer `name`."""

    name: str


class Keep(Command, frozen=True):
    """Persist `value`; an empty one forgets it."""

    value: str


class Shout(Command, frozen=True):
    """Send `times` frames of `size` bytes of payload to `to` (nobody: to everybody)."""

    times: int = 1
    size: int = 0
    to: int = 0


class JoinGroup(Command, frozen=True):
    """Enter a group."""

    group: str


class LeaveGroup(Command, frozen=True):
    """Leave a group."""

    group: str


class Probe(Machine):
    """Sends each message once and delivers what it hears; writes down everything else that happens to it."""

    def started(self) -> None:
        self.note(f"life {self.context.incarnation}, kept {self.context.kept('value')}")

    def submitted(self, message: Message) -> None:
        accepted = self.accept(message)
        packet = Said(accepted.group, accepted.mid, accepted.payload)
        if message.to is not None:
            self.multicast(message.to, packet)
        elif self.context.topology.model == "sites":
            self.multicast(self.context.peers(), packet)
        else:
            self.broadcast(packet)

    @on(Said)
    def heard(self, packet: Said, sender: NodeNumber) -> None:  # noqa: ARG002 (the message says who wrote it)
        if packet.payload == b"wrong":
            raise PeerError("a wrong packet")
        self.deliver(Message(packet.mid, packet.group, packet.payload))

    def attached(self, station: NodeNumber) -> None:
        self.note(f"attached to {station}")

    def detached(self) -> None:
        self.note("detached")

    def expired(self, timer: Any) -> None:
        self.note(f"{timer} rang")

    @on(SetAlarm)
    def alarm_set(self, command: SetAlarm) -> None:
        self.set_timer(command.name, command.delay, command.when_sent)

    @on(CancelAlarm)
    def alarm_cancelled(self, command: CancelAlarm) -> None:
        self.cancel_timer(command.name)

    @on(Keep)
    def asked_to_keep(self, command: Keep) -> None:
        self.persist("value", command.value or None)

    @on(Shout)
    def asked_to_shout(self, command: Shout) -> None:
        for number in range(command.times):
            packet = Said(1, Mid(self.me, number + 1), bytes(command.size))
            if command.to:
                self.send(command.to, packet)
            else:
                self.broadcast(packet)

    @on(JoinGroup)
    def asked_to_join(self, command: JoinGroup) -> None:
        self.join(self._group(command.group))

    @on(LeaveGroup)
    def asked_to_leave(self, command: LeaveGroup) -> None:
        self.leave(self._group(command.group))

    def _group(self, text: str) -> Group:
        return parse_group(text, self.context.topology.number)


class Greeter(Probe):
    """Says something as soon as it is up."""

    def started(self) -> None:
        self.broadcast(Said(1, Mid(self.me, 1), b"hello"))


class Echo(Probe):
    """Delivers its own messages in the step that submits them."""

    def submitted(self, message: Message) -> None:
        self.deliver(self.accept(message))


class ProbeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something to set."""

    patience: Duration = Duration(1_000_000)


AIR = frozenset({"air"})
COMMANDS = (SetAlarm, CancelAlarm, Keep, Shout, JoinGroup, LeaveGroup)
PROBE = Protocol(
    "probe",
    "Says what happens to it",
    "broadcast",
    (Said,),
    {
        "plain": Variant({"member": Probe}, AIR, ()),
        "own-copy": Variant({"member": Probe}, AIR | {"own_copy"}, ()),
        "greeter": Variant({"member": Greeter}, AIR, ()),
        "echo": Variant({"member": Echo}, AIR, ()),
        **{f"needs-{need}": Variant({"member": Probe}, frozenset({need}), ()) for need in NEEDS},
    },
    options=ProbeOptions,
    commands=COMMANDS,
)
POST = Protocol(
    "post",
    "The same on wires only",
    "sites",
    (Said,),
    {
        "plain": Variant({"site": Probe}, frozenset({"wire"}), ()),
        **{f"needs-{need}": Variant({"site": Probe}, frozenset({need}), ()) for need in NEEDS},
    },
    commands=COMMANDS,
)
CELLS = Protocol(
    "cells",
    "The same in cells",
    "cellular",
    (Said,),
    {
        "plain": Variant({"station": Probe, "host": Probe}, AIR | {"wire"}, ()),
        **{f"needs-{need}": Variant({"station": Probe, "host": Probe}, frozenset({need}), ()) for need in NEEDS},
    },
    commands=COMMANDS,
)


class Chatterbox(Application):
    """Answers every delivery with another message, for ever."""

    def started(self) -> None:
        self.submit(b"and")

    def delivered(self, message: Message) -> None:
        self.submit(message.payload)


class Sleepless(Application):
    """Wants to be woken before now."""

    def started(self) -> None:
        self.wake("up", -1)


class Trio(Application):
    """Wishes for three messages in one moment."""

    def started(self) -> None:
        for payload in (b"1", b"2", b"3"):
            self.submit(payload)


@hookimpl
def castbed_protocols(register: Register[Protocol]) -> None:
    for protocol in (PROBE, POST, CELLS, cellular_relay.PROTOCOL):
        register.add(protocol)


@hookimpl
def castbed_applications(register: Register[ApplicationPlugin]) -> None:
    register.add(ApplicationPlugin("chatterbox", "Never stops", Chatterbox))
    register.add(ApplicationPlugin("trio", "Says three things at once", Trio))
    register.add(ApplicationPlugin("sleepless", "Wakes in the past", Sleepless))


def registry() -> Registry:
    """Everything that is installed, and the protocols of this module."""
    import testbed_support

    return load_registry(extra={"testbed-support": testbed_support})


def probe(**changes: Any) -> dict[str, Any]:
    """An experiment with three members on an air of 1 Mbit/s without delay."""
    return {
        "name": "probe",
        "protocol": {"name": "probe"},
        "duration": "1s",
        "drain": "1s",
        "topology": {"kind": "broadcast", "members": ["A", "B", "C"], "air": {"rate": "1Mbit/s", "delay": "0ms"}},
        **changes,
    }


def post(**changes: Any) -> dict[str, Any]:
    """The same with three sites on wires of 1 Mbit/s without delay."""
    wire = {"rate": "1Mbit/s", "delay": "0ms"}
    return probe(
        protocol={"name": "post"}, topology={"kind": "sites", "sites": ["A", "B", "C"], "wire": wire}, **changes
    )


def cells(**changes: Any) -> dict[str, Any]:
    """Two cells: `a` and `b` start with S1, `c` with S2."""
    hosts = {"a": "S1", "b": "S1", "c": "S2"}
    media = {"air": {"rate": "1Mbit/s", "delay": "0ms"}, "wire": {"rate": "1Mbit/s", "delay": "0ms"}}
    topology = {"kind": "cellular", "stations": ["S1", "S2"], "hosts": hosts, **media}
    return probe(**{"protocol": {"name": "cells"}, "topology": topology, **changes})


def script(*lines: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "script", "lines": list(lines)}


def say(node: str, at: str, text: str = PAYLOAD, **more: Any) -> dict[str, Any]:
    return {"node": node, "at": at, "say": text, **more}


def do(node: str, at: str, command: str, **options: Any) -> dict[str, Any]:
    return {"node": node, "at": at, "do": command, "with": options}


class Seen:
    """What a simulation left: its history, its host's report, and short ways to ask."""

    def __init__(self, history: History, report: HostReport) -> None:
        self.history = history
        self.report = report

    def deliveries(self, name: str) -> list[tuple[str, int]]:
        """The messages that the node was delivered, as `A1`, each with its time in microseconds."""
        return [(self.history.mid_text(event.mid), event.at // 1000) for event in self.events(name, Kind.DELIVER)]

    def delivered(self, name: str) -> list[str]:
        return [message for message, _ in self.deliveries(name)]

    def notes(self, name: str) -> list[tuple[str, int]]:
        """What the node noted, each with its time in milliseconds."""
        return [(event.text, event.at // MILLISECOND) for event in self.events(name, Kind.NOTE)]

    def events(self, name: str, *kinds: Kind) -> list[Any]:
        number = self.history.identity.names.index(name) + 1
        return [event for event in self.history.by_node[number] if event.kind in kinds]


def planned(data: dict[str, Any]) -> Plan:
    return make_plan(load(data).experiment, registry())


def simulated(data: dict[str, Any]) -> Seen:
    """Run the experiment in memory."""
    plan = planned(data)
    recorder = MemoryRecorder(plan.identity())
    report = simulate(plan, recorder)
    return Seen(recorder.history(), report)


def changed(path: str, value: Any, data: dict[str, Any] | None = None) -> dict[str, Any]:
    """The experiment with one key set, however deep."""
    made = deepcopy(data or probe())
    *steps, last = path.split(".")
    table = made
    for step in steps:
        table = table.setdefault(step, {})
    table[last] = value
    return made


def refusal(data: dict[str, Any]) -> str:
    """What the refusal of the experiment says."""
    with pytest.raises(ConfigurationError) as raised:
        planned(data)
    assert raised.value.exit_code == 2
    return str(raised.value)
