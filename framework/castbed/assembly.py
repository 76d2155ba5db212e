"""Puts declarations together: the machine that one node runs, and the codec of a run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import msgspec

from castbed.authentication import Seal, SealedCodec
from castbed.context import Context
from castbed.declarations import Membership, Protocol, Variant
from castbed.errors import ConfigurationError
from castbed.machine import Machine
from castbed.packets import Command, Packet
from castbed.parts.repair_layer import FAMILY, RepairLayer, RepairOptions
from castbed.values import Message, NodeNumber, View
from castbed.wire import Codec


class Chosen(msgspec.Struct, frozen=True):
    """A protocol as an experiment wants it: variant, options, the membership below it, and a repair layer below all.

    The layer is there where `repair` asks for it, or the variant declares that it needs one.
    """

    protocol: Protocol
    variant_name: str
    options: Any
    membership: Membership | None = None
    membership_options: Any = None
    repair: RepairOptions | None = None

    def __post_init__(self) -> None:
        if self.repair is None and self.variant.repair is not None:
            msgspec.structs.force_setattr(self, "repair", self.variant.repair)

    @property
    def variant(self) -> Variant:
        return self.protocol.variants[self.variant_name]

    @property
    def commands(self) -> tuple[type[Command], ...]:
        below = self.membership.commands if self.stacked and self.membership else ()
        return self.protocol.commands + below

    @property
    def stacked(self) -> bool:
        """Whether a membership machine of its own runs below the protocol."""
        brought = self.protocol.membership is not None
        return not brought and self.membership is not None and self.membership.machine is not None

    @property
    def brings_views(self) -> bool:
        """Whether a membership machine says who is in which group; otherwise the topology does."""
        return self.protocol.membership is not None or self.stacked

    @property
    def needs(self) -> frozenset[str]:
        """What is needed of the network (keys of NEEDS): what the protocol needs, less what the repair layer gives."""
        below = self.membership.needs if self.membership and self.stacked else frozenset()
        given = frozenset(self.repair.gives) if self.repair else frozenset()
        return (self.variant.needs | below) - given

    def codec(self) -> Codec:
        """For what goes over the network."""
        return Codec(self._on_network())

    def sealed_codec(self, seal: Seal, life: int, now: Callable[[], int]) -> SealedCodec:
        """The same with a seal, for one life of one node; `now` is a clock that all nodes share."""
        return SealedCodec(self._on_network(), seal, life, now)

    def _on_network(self) -> dict[str, tuple[type[Packet], ...]]:
        return self._families() | ({FAMILY: RepairLayer.PACKETS} if self.repair else {})

    def _families(self) -> dict[str, tuple[type[Packet], ...]]:
        families = {self.protocol.name: self.protocol.packets}
        if self.stacked and self.membership:
            families[self.membership.name] = self.membership.packets
        return families

    def machine(self, context: Context) -> Machine:
        """The machine of the node that `context` is for."""
        roles = self.variant.roles
        if context.role not in roles:
            known = ", ".join(sorted(roles))
            raise ConfigurationError("topology", f"{self.protocol.name} has no role {context.role!r} (it has: {known})")
        if self.repair is None:
            return self._unrepaired(context)
        return RepairLayer(context, self.repair, self._unrepaired, Codec(self._families()))

    def _unrepaired(self, context: Context) -> Machine:
        return Stack(context, self) if self.stacked else self.variant.roles[context.role](context, self.options)


def variant_name(protocol: Protocol, wanted: str | None, path: str = "protocol.variant") -> str:
    """The variant that is wanted, or the default one; an unknown one is a configuration error at `path`."""
    name = wanted or protocol.default_variant
    if name not in protocol.variants:
        known = ", ".join(protocol.variants)
        raise ConfigurationError(path, f"{protocol.name} has no variant {name!r} (it has: {known})")
    return name


def choose(
    protocol: Protocol,
    variant: str | None = None,
    options: Any = None,
    membership: Membership | None = None,
    repair: RepairOptions | None = None,
) -> Chosen:
    """A protocol with defaults filled in; an unknown variant is a configuration error."""
    name = variant_name(protocol, variant)
    below = membership.options() if membership is not None else None
    return Chosen(protocol, name, options if options is not None else protocol.options(), membership, below, repair)


class Stack(Machine):
    """A protocol over a membership: the views that the membership installs reach the protocol in the same step."""

    def __init__(self, context: Context, chosen: Chosen) -> None:
        super().__init__(context)
        assert chosen.membership is not None
        assert chosen.membership.machine is not None
        self.membership = self.part("membership", chosen.membership.machine, chosen.membership_options)
        self.protocol = self.part("protocol", chosen.variant.roles[context.role], chosen.options)

    def started(self) -> None:
        self.membership.started()
        self.protocol.started()

    def submitted(self, message: Message) -> None:
        self.protocol.submitted(message)

    def submitted_together(self, messages: Sequence[Message]) -> None:
        self.protocol.submitted_together(messages)

    def attached(self, station: NodeNumber) -> None:
        self.membership.attached(station)
        self.protocol.attached(station)

    def detached(self) -> None:
        self.membership.detached()
        self.protocol.detached()

    def part_installed(self, key: Hashable, view: View) -> None:
        if key == "membership":
            self.protocol.view_changed(view)
