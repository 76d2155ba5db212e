"""Makes the topology that an experiment describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isqrt

import msgspec

from castbed import topology as shapes
from castbed.errors import ConfigurationError
from castbed.topology import MODELS, Topology
from castbed.values import DEFAULT_GROUP, Group, NodeNumber
from castbed_testbed.experiment import TopologySpec, host_names, is_file_name, node_names, station_names

GROUPS_MAX = 1024  # more than any node can keep apart
_CELLS = ("stations", "hosts", "layout", "neighbours", "positions")
_USED: Mapping[str, tuple[str, ...]] = {
    "broadcast": ("members", "positions"),
    "cellular": _CELLS,
    "three_tier": ("coordinators", *_CELLS),
    "sites": ("sites",),
}
_ALL_KEYS = ("members", "sites", "coordinators", *_CELLS)


def build_topology(spec: TopologySpec) -> Topology:
    """The network as a value; everything impossible about it is a ConfigurationError."""
    if spec.kind not in MODELS:
        raise ConfigurationError("topology.kind", f"{spec.kind!r} is none of {', '.join(MODELS)}")
    for key in _ALL_KEYS:
        if getattr(spec, key) is not None and key not in _USED[spec.kind]:
            raise ConfigurationError(f"topology.{key}", f"a {spec.kind} topology has none")
    try:
        bare = _BUILDERS[spec.kind](spec)
    except ValueError as error:
        raise ConfigurationError("topology", str(error)) from None
    _check_names(bare)
    return _with_groups(_with_neighbours(bare, spec), spec)


def _check_names(topology: Topology) -> None:
    for node in topology.nodes:
        if not is_file_name(node.name):
            problem = f"{node.name!r} is no name: use letters, digits, '-', '_' and '.', because a capture has it"
            raise ConfigurationError("topology", problem)


def _broadcast(spec: TopologySpec) -> Topology:
    return shapes.broadcast(tuple(node_names(spec, "members", "n")))


def _sites(spec: TopologySpec) -> Topology:
    return shapes.sites(tuple(node_names(spec, "sites", "s")))


def _cellular(spec: TopologySpec) -> Topology:
    stations = station_names(spec)
    return shapes.cellular(tuple(stations), _placed(spec, stations))


def _three_tier(spec: TopologySpec) -> Topology:
    if isinstance(spec.coordinators, dict):
        if spec.stations is not None:
            raise ConfigurationError("topology.stations", "coordinators name their stations already")
        coordinators = {name: tuple(stations) for name, stations in spec.coordinators.items()}
    else:
        names = node_names(spec, "coordinators", "C")
        stations = station_names(spec)
        coordinators = {name: tuple(stations[at :: len(names)]) for at, name in enumerate(names)}
    all_stations = [station for own in coordinators.values() for station in own]
    if not all_stations:
        raise ConfigurationError("topology.coordinators", "there is no station")
    return shapes.three_tier(coordinators, _placed(spec, all_stations), spec.sequencer)


def _placed(spec: TopologySpec, stations: Sequence[str]) -> dict[str, str]:
    """Each host with the station it starts at: as written, or dealt out evenly."""
    names = host_names(spec)
    if not isinstance(spec.hosts, dict):
        return {host: stations[at % len(stations)] for at, host in enumerate(names)}
    for host, station in spec.hosts.items():
        if station and station not in stations:
            raise ConfigurationError(f"topology.hosts.{host}", f"there is no station {station!r}")
    return dict(spec.hosts)


_BUILDERS = {"broadcast": _broadcast, "cellular": _cellular, "three_tier": _three_tier, "sites": _sites}


def _with_neighbours(topology: Topology, spec: TopologySpec) -> Topology:
    placed = "member" if topology.model == "broadcast" else "station"
    for name in spec.positions or ():
        _in_role(topology, name, f"topology.positions.{name}", placed)
    if spec.layout is not None and spec.neighbours is not None:
        raise ConfigurationError("topology.neighbours", "the layout says already which cells are neighbours")
    beside = spec.neighbours or {}
    if spec.layout is not None:
        beside = _laid_out(spec.layout, station_names(spec))
    found = {station_number(topology, name, f"topology.neighbours.{name}"): name for name in beside}
    neighbours = {number: _beside(topology, name, beside[name]) for number, name in found.items()}
    return msgspec.structs.replace(topology, neighbours=neighbours)


def _beside(topology: Topology, name: str, others: list[str]) -> tuple[NodeNumber, ...]:
    path = f"topology.neighbours.{name}"
    if name in others:
        raise ConfigurationError(path, "a cell is no neighbour of itself")
    if len(set(others)) < len(others):
        raise ConfigurationError(path, "names a neighbour twice")
    return tuple(station_number(topology, other, path) for other in others)


def _laid_out(layout: str, stations: Sequence[str]) -> dict[str, list[str]]:
    if layout not in LAYOUTS:
        raise ConfigurationError("topology.layout", f"{layout!r} is none of {', '.join(LAYOUTS)}")
    places = range(len(stations))
    return {stations[at]: [stations[other] for other in LAYOUTS[layout](at, len(stations))] for at in places}


def _line(at: int, count: int) -> list[int]:
    return [other for other in (at - 1, at + 1) if 0 <= other < count]


def _ring(at: int, count: int) -> list[int]:
    return sorted({(at - 1) % count, (at + 1) % count} - {at})


def _grid(at: int, count: int) -> list[int]:
    """Rows of equal length, as square as can be; the last row may be shorter."""
    columns = isqrt(count - 1) + 1
    left, right = at - 1, at + 1
    beside = [other for other in (left, right) if other // columns == at // columns]
    return sorted(other for other in (at - columns, *beside, at + columns) if 0 <= other < count)


LAYOUTS: Mapping[str, Callable[[int, int], list[int]]] = {"ring": _ring, "line": _line, "grid": _grid}


def _with_groups(topology: Topology, spec: TopologySpec) -> Topology:
    groups = spec.groups
    if spec.groups_of_each is not None and not isinstance(groups, int):
        raise ConfigurationError("topology.groups_of_each", "is for a number of groups")
    if groups is None:
        return topology
    if isinstance(groups, int):
        return msgspec.structs.replace(topology, groups=_dealt(topology, groups, spec.groups_of_each))
    made: dict[Group, tuple[NodeNumber, ...]] = {}
    for text, names in groups.items():
        number = _group_number(text)
        if number in made:
            raise ConfigurationError(f"topology.groups.{text}", f"a second group {number}")
        made[number] = _members(topology, text, names)
    return msgspec.structs.replace(topology, groups=made)


def _dealt(topology: Topology, count: int, of_each: int | None) -> dict[Group, tuple[NodeNumber, ...]]:
    """Groups 1 to `count` with everybody in all of them, or in so many, one after the other."""
    if not 0 < count <= GROUPS_MAX:
        raise ConfigurationError("topology.groups", f"has to be from 1 to {GROUPS_MAX}")
    if of_each is not None and not 0 < of_each <= count:
        raise ConfigurationError("topology.groups_of_each", f"has to be from 1 to {count}")
    everybody = topology.groups[DEFAULT_GROUP]
    return {
        group + 1: tuple(node for at, node in enumerate(everybody) if (group - at) % count < (of_each or count))
        for group in range(count)
    }


def _group_number(text: str) -> Group:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 1 << 32:
        raise ConfigurationError(f"topology.groups.{text}", "groups are numbered: 1, 2, 3, ...")
    return int(text)


def _members(topology: Topology, text: str, names: list[str]) -> tuple[NodeNumber, ...]:
    members = tuple(node_number(topology, name, f"topology.groups.{text}") for name in names)
    if len(set(members)) < len(members):
        raise ConfigurationError(f"topology.groups.{text}", "names a member twice")
    return members


def node_number(topology: Topology, name: str, path: str) -> NodeNumber:
    """The number of a node that the configuration names at `path`."""
    try:
        return topology.number(name)
    except KeyError:
        raise ConfigurationError(path, f"there is no node {name!r}") from None


def host_number(topology: Topology, name: str, path: str) -> NodeNumber:
    """The number of a host that the configuration names at `path`."""
    return _in_role(topology, name, path, "host")


def station_number(topology: Topology, name: str, path: str) -> NodeNumber:
    """The number of a station that the configuration names at `path`."""
    return _in_role(topology, name, path, "station")


def _in_role(topology: Topology, name: str, path: str, role: str) -> NodeNumber:
    number = node_number(topology, name, path)
    if topology.role(number) != role:
        raise ConfigurationError(path, f"{name!r} is a {topology.role(number)}, no {role}")
    return number
