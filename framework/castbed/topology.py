"""Who is there and who hears whom, as a value: nodes with roles, wires between fixed nodes, air cells, groups.

Four system models: `broadcast` (equal nodes on one shared air), `cellular` (stations on a wire, hosts in their cells),
`three_tier` (hosts, stations, coordinators, a sequencer), `sites` (fixed nodes on wires).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from castbed.errors import PeerError
from castbed.values import Group, NodeNumber, creator_of

MODELS = ("broadcast", "cellular", "three_tier", "sites")
NODES_MAX = 1 << 20  # a node number has to stay small enough for an Ethernet address; nobody simulates more


class Node(msgspec.Struct, frozen=True):
    """A device: its number, its name for people, and its role in the model."""

    number: NodeNumber
    name: str
    role: str


class Topology(msgspec.Struct, frozen=True, dict=True):
    """The static shape of a network; attachments are where the mobile hosts start.

    `fixed` nodes have wires to each other. Every air cell is either the one shared medium (`stations` is empty) or
    belongs to one station. `parent` gives each station its coordinator, `neighbours` the stations next to it.
    """

    model: str
    nodes: tuple[Node, ...]
    groups: Mapping[Group, tuple[NodeNumber, ...]]
    fixed: frozenset[NodeNumber] = frozenset()
    attached: Mapping[NodeNumber, NodeNumber] = msgspec.field(default_factory=dict)
    parent: Mapping[NodeNumber, NodeNumber] = msgspec.field(default_factory=dict)
    neighbours: Mapping[NodeNumber, tuple[NodeNumber, ...]] = msgspec.field(default_factory=dict)

    def numbers(self, role: str | None = None) -> tuple[NodeNumber, ...]:
        """The numbers of all nodes, or of those in one role."""
        return self._by_role.get(role, ())

    def node(self, number: NodeNumber) -> Node:
        return self.nodes[number - 1]

    def name(self, number: NodeNumber) -> str:
        """The node's name; a number that no node has is shown as `#17`."""
        return self.nodes[number - 1].name if 0 < number <= len(self.nodes) else f"#{number}"

    def number(self, name: str) -> NodeNumber:
        """The number of the node of this name; KeyError when there is none."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, NodeNumber]:
        return {node.name: node.number for node in self.nodes}

    @cached_property
    def _by_role(self) -> dict[str | None, tuple[NodeNumber, ...]]:
        found: dict[str | None, list[NodeNumber]] = {None: []}
        for node in self.nodes:
            found[None].append(node.number)
            found.setdefault(node.role, []).append(node.number)
        return {role: tuple(numbers) for role, numbers in found.items()}

    def has(self, name: str) -> bool:
        return name in self._by_name

    def role(self, number: NodeNumber) -> str:
        return self.nodes[number - 1].role

    def knows(self, number: NodeNumber, role: str | None = None) -> bool:
        """Whether there is a node of this number, in this role if one is given."""
        return 0 < number <= len(self.nodes) and role in (None, self.nodes[number - 1].role)

    def check(self, number: NodeNumber, role: str | None = None) -> None:
        """PeerError unless there is such a node: for numbers that peers name, before anything is done with them."""
        if not self.knows(number, role):
            raise PeerError(f"there is no {role or 'node'} {number}")

    def check_group(self, group: Group) -> None:
        """PeerError unless the group can exist: created by a node of this network, or by none."""
        creator = creator_of(group)
        if creator is not None and not self.knows(creator):
            raise PeerError(f"there is no node {creator} that could have created the group {group}")

    def wired(self, one: NodeNumber, other: NodeNumber) -> bool:
        return one in self.fixed and other in self.fixed

    def children(self, number: NodeNumber) -> tuple[NodeNumber, ...]:
        """The stations of a coordinator."""
        return tuple(child for child, parent in self.parent.items() if parent == number)


def broadcast(names: tuple[str, ...], groups: Mapping[Group, tuple[NodeNumber, ...]] | None = None) -> Topology:
    """Equal members on one shared air; without `groups` all are in group 1."""
    nodes = _numbered([(name, "member") for name in names])
    return Topology("broadcast", nodes, groups if groups is not None else {1: tuple(n.number for n in nodes)})


def cellular(
    stations: tuple[str, ...], hosts: Mapping[str, str], groups: Mapping[Group, tuple[NodeNumber, ...]] | None = None
) -> Topology:
    """Stations on a wire, and hosts by the station whose cell they start in (an empty name: in no cell)."""
    nodes = _numbered([(s, "station") for s in stations] + [(h, "host") for h in hosts])
    number = {node.name: node.number for node in nodes}
    attached = {number[h]: number[s] for h, s in hosts.items() if s}
    everyone = {1: tuple(number[h] for h in hosts)}
    fixed = frozenset(number[s] for s in stations)
    return Topology("cellular", nodes, groups if groups is not None else everyone, fixed, attached)


def three_tier(
    coordinators: Mapping[str, tuple[str, ...]],
    hosts: Mapping[str, str],
    sequencer: str,
    groups: Mapping[Group, tuple[NodeNumber, ...]] | None = None,
) -> Topology:
    """Coordinators with their stations, a sequencer on the wire, and hosts by the station they start at."""
    stations = [s for own in coordinators.values() for s in own]
    roles = [(sequencer, "sequencer")] + [(c, "coordinator") for c in coordinators] + [(s, "station") for s in stations]
    nodes = _numbered(roles + [(h, "host") for h in hosts])
    number = {node.name: node.number for node in nodes}
    parent = {number[s]: number[c] for c, own in coordinators.items() for s in own}
    attached = {number[h]: number[s] for h, s in hosts.items() if s}
    everyone = {1: tuple(number[h] for h in hosts)}
    fixed = frozenset(number[name] for name, _ in roles)
    return Topology("three_tier", nodes, groups if groups is not None else everyone, fixed, attached, parent)


def sites(names: tuple[str, ...], groups: Mapping[Group, tuple[NodeNumber, ...]] | None = None) -> Topology:
    """Fixed sites, each wired to each."""
    nodes = _numbered([(name, "site") for name in names])
    everyone = tuple(n.number for n in nodes)
    return Topology("sites", nodes, groups if groups is not None else {1: everyone}, frozenset(everyone))


def _numbered(roles: list[tuple[str, str]]) -> tuple[Node, ...]:
    seen: set[str] = set()
    for name, _ in roles:
        if name in seen:
            raise ValueError(f"two nodes are called {name!r}")
        seen.add(name)
    return tuple(Node(number, name, role) for number, (name, role) in enumerate(roles, start=1))
