"""Makes the topology that an experiment describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from castbed import topology as shapes
from castbed.errors import ConfigurationError
from castbed.topology import MODELS, NODES_MAX, Topology
from castbed.values import Group, NodeNumber
from castbed_testbed.experiment import TopologySpec, is_file_name, names_of

_USED: Mapping[str, tuple[str, ...]] = {
    "broadcast": ("members",),
    "cellular": ("stations", "hosts"),
    "three_tier": ("coordinators", "stations", "hosts"),
    "sites": ("sites",),
}
_ALL_SIZES = ("members", "sites", "stations", "hosts", "coordinators")


def build_topology(spec: TopologySpec) -> Topology:
    """The network as a value; everything impossible about it is a ConfigurationError."""
    if spec.kind not in MODELS:
        raise ConfigurationError("topology.kind", f"{spec.kind!r} is none of {', '.join(MODELS)}")
    for key in _ALL_SIZES:
        if getattr(spec, key) is not None and key not in _USED[spec.kind]:
            raise ConfigurationError(f"topology.{key}", f"a {spec.kind} topology has none")
    try:
        bare = _BUILDERS[spec.kind](spec)
    except ValueError as error:
        raise ConfigurationError("topology", str(error)) from None
    _check_names(bare)
    return _with_groups(bare, spec.groups)


def _check_names(topology: Topology) -> None:
    for node in topology.nodes:
        if not is_file_name(node.name):
            problem = f"{node.name!r} is no name: use letters, digits, '-', '_' and '.', because a capture has it"
            raise ConfigurationError("topology", problem)


def _required(spec: TopologySpec, key: str, prefix: str) -> list[str]:
    value = getattr(spec, key)
    if value is None:
        raise ConfigurationError(f"topology.{key}", f"a {spec.kind} topology needs it: a number, or names")
    return names_of(value, prefix, f"topology.{key}", NODES_MAX)


def _broadcast(spec: TopologySpec) -> Topology:
    return shapes.broadcast(tuple(_required(spec, "members", "n")))


def _sites(spec: TopologySpec) -> Topology:
    return shapes.sites(tuple(_required(spec, "sites", "s")))


def _cellular(spec: TopologySpec) -> Topology:
    stations = _required(spec, "stations", "S")
    return shapes.cellular(tuple(stations), _placed(spec, stations))


def _three_tier(spec: TopologySpec) -> Topology:
    if isinstance(spec.coordinators, dict):
        if spec.stations is not None:
            raise ConfigurationError("topology.stations", "coordinators name their stations already")
        coordinators = {name: tuple(stations) for name, stations in spec.coordinators.items()}
    else:
        names = _required(spec, "coordinators", "C")
        stations = _required(spec, "stations", "S")
        coordinators = {name: tuple(stations[at :: len(names)]) for at, name in enumerate(names)}
    all_stations = [station for own in coordinators.values() for station in own]
    if not all_stations:
        raise ConfigurationError("topology.coordinators", "there is no station")
    return shapes.three_tier(coordinators, _placed(spec, all_stations), spec.sequencer)


def _placed(spec: TopologySpec, stations: Sequence[str]) -> dict[str, str]:
    """Each host with the station it starts at: as written, or dealt out evenly."""
    names = _required(spec, "hosts", "h")
    if not isinstance(spec.hosts, dict):
        return {host: stations[at % len(stations)] for at, host in enumerate(names)}
    for host, station in spec.hosts.items():
        if station and station not in stations:
            raise ConfigurationError(f"topology.hosts.{host}", f"there is no station {station!r}")
    return dict(spec.hosts)


_BUILDERS = {"broadcast": _broadcast, "cellular": _cellular, "three_tier": _three_tier, "sites": _sites}


def _with_groups(topology: Topology, groups: Mapping[str, list[str]] | None) -> Topology:
    if groups is None:
        return topology
    made: dict[Group, tuple[NodeNumber, ...]] = {}
    for text, names in groups.items():
        number = _group_number(text)
        if number in made:
            raise ConfigurationError(f"topology.groups.{text}", f"a second group {number}")
        made[number] = _members(topology, text, names)
    return Topology(
        topology.model, topology.nodes, made, topology.fixed, topology.attached, topology.parent, topology.neighbours
    )


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
