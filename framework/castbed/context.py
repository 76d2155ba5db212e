"""What a host hands to a machine: who it is, whom it knows, chance, and what it kept from an earlier life."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from castbed.topology import Topology
from castbed.values import NodeNumber


class Context:
    """The world as far as a machine may see it.

    `incarnation` differs at every start of the node: the host vouches for that. `stored` holds what earlier lives asked
    to persist, empty at the first start or when the storage was lost.
    """

    def __init__(
        self,
        me: NodeNumber,
        topology: Topology,
        random: Random,
        incarnation: int = 0,
        stored: Mapping[str, Any] | None = None,
        prefix: str = "",
    ) -> None:
        self.me = me
        self.topology = topology
        self.random = random
        self.incarnation = incarnation
        self.stored: Mapping[str, Any] = stored if stored is not None else {}
        self.prefix = prefix

    @property
    def role(self) -> str:
        return self.topology.role(self.me)

    def peers(self, role: str | None = None) -> tuple[NodeNumber, ...]:
        """All other nodes, or those of one role, in order of their numbers."""
        return tuple(n for n in self.topology.numbers(role) if n != self.me)

    def kept(self, key: str, otherwise: Any = None) -> Any:
        """What an earlier life of this machine persisted under `key`."""
        return self.stored.get(self.prefix + key, otherwise)

    def kept_keys(self, starting: str = "") -> list[str]:
        """The keys that earlier lives of this machine persisted, sorted."""
        start = self.prefix + starting
        return sorted(key.removeprefix(self.prefix) for key in self.stored if key.startswith(start))

    def inner(self, key: str) -> Context:
        """The same world for a part, with its own corner of the storage."""
        return Context(self.me, self.topology, self.random, self.incarnation, self.stored, f"{self.prefix}{key}/")
