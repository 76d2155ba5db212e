"""Where schedules are explored: one small network with its protocol, everything that all its schedules share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from castbed.errors import ConfigurationError
from castbed.history import History
from castbed.machine import Machine
from castbed.properties import Violation
from castbed.registry import Registry
from castbed.values import NOBODY, NodeNumber
from castbed_testbed.experiment import Named, load
from castbed_testbed.explore.freedoms import AMNESIA, CRASH, freedoms_of
from castbed_testbed.explore.innocence import Innocence, can_judge
from castbed_testbed.majority import core_of
from castbed_testbed.plan import make_plan

SHARED: NodeNumber = -1  # where nodes are that hear each other on the one shared air
SEED_MAX = 1 << 31

CheckFunction = Callable[[History], list[Violation]]


class Setup(msgspec.Struct, frozen=True):
    """What a script says before its steps: the protocol and the network, as in an experiment.

    `allows` names freedoms that the needs of the variant rule out, for those who look beyond its model.
    """

    protocol: str
    variant: str
    topology: Mapping[str, Any]
    options: Mapping[str, Any] = {}
    membership: Named = Named("static")
    seed: int = 1
    allows: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """As plain data with the keys of an experiment; what has its default is left out."""
        protocol: dict[str, Any] = {"name": self.protocol, "variant": self.variant}
        if self.options:
            protocol["options"] = dict(self.options)
        data: dict[str, Any] = {"protocol": protocol, "topology": dict(self.topology), "seed": self.seed}
        if self.membership != Named("static"):
            data["membership"] = msgspec.to_builtins(self.membership)
        return data


class Arena:
    """A setup with every plugin found and every name resolved; worlds are made from it.

    Worlds are judged by `properties` or, if there are none, by what the variant guarantees and what is named `besides`.
    """

    def __init__(
        self, setup: Setup, registry: Registry, properties: tuple[str, ...] = (), besides: tuple[str, ...] = ()
    ) -> None:
        plan = make_plan(load({"name": "explore", "duration": "1s", **setup.data()}).experiment, registry)
        if not 0 <= setup.seed < SEED_MAX:
            raise ConfigurationError("seed", f"has to be a number from 0 to {SEED_MAX - 1}")
        self.setup = setup
        self.registry = registry
        self.plan = plan
        self.chosen = plan.chosen
        self.topology = topology = plan.topology
        self.seed = setup.seed
        self.identity = plan.identity()
        self.numbers = topology.numbers()
        self.size = len(self.numbers) + 1
        self.needs = plan.chosen.needs
        self.possible = freedoms_of(plan.chosen.protocol, (), topology)
        self.freedoms = freedoms_of(plan.chosen.protocol, self.needs, topology) | (self.possible & {*setup.allows})
        self.own_copy = "own_copy" in self.needs
        self.keeps_storage = bool({CRASH, AMNESIA} & self.freedoms)
        self.cells = [NOBODY, *(self._cell(number) for number in self.numbers)]
        self.properties = properties or tuple(dict.fromkeys((*plan.chosen.variant.guarantees, *besides)))
        self.checks: dict[str, CheckFunction] = {
            name: registry.checks.get(name, "expects" if name in besides else "--property").violations
            for name in self.properties
        }
        judges = can_judge(self.checks, self.identity.guarantees)
        self.judged_quickly = judges and bool(topology.groups) and not plan.chosen.brings_views
        self.innocence: Innocence | None = None  # made when the first world is judged
        self.senders: tuple[NodeNumber, ...] = ()  # those whose messages are taken, found out once
        self.founding: Any = None  # what is found out about making groups, once
        self.stations = topology.numbers("station")
        self.core = frozenset(core_of(topology))
        self.movable = tuple(number for number in self.numbers if number not in topology.fixed)
        self.submitters = tuple(number for number in self.numbers if _submits(plan.chosen.variant.roles, self, number))
        if not self.submitters:
            raise ConfigurationError("PROTOCOL", f"no role of {setup.protocol} takes messages from applications")

    def _cell(self, number: NodeNumber) -> NodeNumber:
        """Where the node starts."""
        if self.topology.model == "broadcast":
            return SHARED
        if number in self.topology.numbers("station"):
            return number
        return self.topology.attached.get(number, NOBODY)

    def home(self, node: NodeNumber) -> NodeNumber:
        """Where the node comes back to: where it started or, if that was nowhere, the first cell."""
        return self.cells[node] or (self.stations[0] if self.stations else NOBODY)


def _submits(roles: Mapping[str, Any], arena: Arena, number: NodeNumber) -> bool:
    """Whether the node's machine takes messages from applications at all."""
    make = roles[arena.topology.role(number)]
    return not (isinstance(make, type) and getattr(make, "submitted", None) is Machine.submitted)
