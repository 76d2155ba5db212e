"""What a plugin declares. A declaration is a value: hosts read it, nothing runs when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from castbed.application import Application, Setting
from castbed.context import Context
from castbed.machine import Machine
from castbed.packets import Command, Packet

if TYPE_CHECKING:
    from castbed.history import History
    from castbed.parts.repair_layer import RepairOptions
    from castbed.properties import Violation

NEEDS: Mapping[str, str] = {
    "air": "a shared air medium",
    "wire": "wires between fixed nodes",
    "reliable_air": "an air medium that loses and duplicates nothing",
    "reliable_wire": "wires that lose and duplicate nothing",
    "fifo_air": "an air medium on which copies of one sender never overtake each other",
    "fifo_wire": "wires on which packets never overtake each other",
    "own_copy": "that a sender receives its own broadcasts",
    "no_crash": "that no node crashes",
    "no_absence": "that no node leaves the range of the others",
    "hosts_up": "that no host crashes",
    "core_up": "that the sequencer and the coordinators never crash",
    "core_majority": "that most of the sequencer and the coordinators are up at any time",
}
"""Everything a protocol may need of the network, and how to say it to people."""

REPAIRED, PUBLISHED = "repaired", "published"


class Variant(msgspec.Struct, frozen=True):
    """One way to run a protocol: which machine each role runs, what it needs, what it guarantees.

    With `repair` it runs above the repair layer, on every transport, unless the experiment sets the layer otherwise;
    what that layer gives counts as there, whatever the network does.
    """

    roles: Mapping[str, Callable[[Context, Any], Machine]]
    needs: frozenset[str]
    guarantees: tuple[str, ...]
    summary: str = ""
    repair: RepairOptions | None = None


class NoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a plugin that has nothing to set."""


class Protocol(msgspec.Struct, frozen=True):
    """A protocol plugin.

    `packets` are all packet types that its machines send, `commands` all that its applications may ask. `membership`
    names the membership plugin that the protocol brings along itself; None lets the experiment choose one. `exercise`
    is the part of an experiment (workload, application, groups) that makes the protocol show what it does; the
    conformance kit completes it with sizes and faults.
    """

    name: str
    summary: str
    model: str
    packets: tuple[type[Packet], ...]
    variants: Mapping[str, Variant]
    paper: str = ""
    options: type[msgspec.Struct] = NoOptions
    commands: tuple[type[Command], ...] = ()
    membership: str | None = None
    exercise: Mapping[str, Any] = {}

    @property
    def default_variant(self) -> str:
        return REPAIRED if REPAIRED in self.variants else next(iter(self.variants))


class Membership(msgspec.Struct, frozen=True):
    """A membership plugin. Its machine installs views; without a machine the groups of the topology never change."""

    name: str
    summary: str
    machine: Callable[[Context, Any], Machine] | None = None
    packets: tuple[type[Packet], ...] = ()
    commands: tuple[type[Command], ...] = ()
    options: type[msgspec.Struct] = NoOptions
    needs: frozenset[str] = frozenset()


class Transport(msgspec.Struct, frozen=True):
    """A transport plugin: what its links can do at best (keys of NEEDS) and what runs an experiment on it.

    `runner` is `"module:function"`, imported only when used. `network`, written alike, makes the
    `castbed.links.Network` of a run (from a `RunSetting`) for runners that host nodes on real links; without one, time
    is virtual.
    """

    name: str
    summary: str
    offers: frozenset[str]
    runner: str
    options: type[msgspec.Struct] = NoOptions
    network: str = ""


class Check(msgspec.Struct, frozen=True):
    """A property as code: every violation of it in a history."""

    name: str
    summary: str
    violations: Callable[[History], list[Violation]]


class Workload(msgspec.Struct, frozen=True):
    """What generates load: one Application per node."""

    name: str
    summary: str
    build: Callable[[Setting, Any], Application]
    options: type[msgspec.Struct] = NoOptions


class ApplicationPlugin(msgspec.Struct, frozen=True):
    """A program on top of a protocol: one Application per node."""

    name: str
    summary: str
    build: Callable[[Setting, Any], Application]
    options: type[msgspec.Struct] = NoOptions
