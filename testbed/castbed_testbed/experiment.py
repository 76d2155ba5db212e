"""An experiment as a value: read from TOML, checked key by key, able to say itself again.

Reading never runs anything. Every mistake is a ConfigurationError that names the key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import tomli_w

from castbed.errors import ConfigurationError
from castbed.parts.cell_channel import CellOptions
from castbed.parts.repair_layer import RepairOptions
from castbed.topology import NODES_MAX
from castbed.units import BitRate, Duration, convert, show_duration
from castbed_testbed.delays import Delay
from castbed_testbed.faults import Faults, Handoff, Probability
from castbed_testbed.keys import KeySource, with_key_path
from castbed_testbed.paths import Point, read_points
from castbed_testbed.traces import Cells, Position, read_trace

TIME_MAX = 1 << 62  # nanoseconds, 146 years: captures keep times in 64 bits
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")

GSM_KEYS = frozenset({"backend", "gsm", "delay"})  # of the air; the others describe a pipe

NAME_MAX = 100  # leaves room for what is put behind a name in the 255 bytes of a file name


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plugin by name, with its options."""

    name: str
    options: dict[str, Any] = {}


class ProtocolChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The protocol under test."""

    name: str
    variant: str | None = None
    options: dict[str, Any] = {}


class GsmSpec(CellOptions, frozen=True, forbid_unknown_fields=True):
    """The cellular channel below an air of the back-end `gsm`, and what packets for one receiver need besides."""

    unicast_setup: Duration = Duration(500_000_000)
    """Until a dedicated channel is there: a 51-multiframe for the page or request, another for the assignment."""


class AirSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The shared medium. `pipe`: every transmitter has a queue of its own and sends at `rate`. `gsm`: channels.

    In a pipe, hosts may share one queue per cell with each other (`shared = "uplink"`) or with the station, too
    (`"cell"`). With `sizes = "messages"` a frame takes as long as its payload alone would, as papers count. Members of
    a broadcast topology that are further apart than `range_m` do not hear each other.
    """

    rate: BitRate = BitRate(2_000_000)
    delay: Delay = Delay("fixed", 1_000)
    shared: Literal["none", "uplink", "cell"] = "none"
    sizes: Literal["frames", "messages"] = "frames"
    backend: Literal["pipe", "gsm"] = "pipe"
    gsm: GsmSpec | None = None
    range_m: float | None = None


class WireSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The wires between fixed nodes; without `fifo` packets of one link may overtake each other.

    Each direction of each wire has a transmitter and a queue of its own, or each node has one for all its wires; that
    one sends a copy to each receiver of a multicast, or (`fanout = "multicast"`) one for all of them.
    """

    rate: BitRate = BitRate(100_000_000)
    delay: Delay = Delay("fixed", 1_000_000)
    fifo: bool = True
    sizes: Literal["frames", "messages"] = "frames"
    transmitter: Literal["link", "node"] = "link"
    fanout: Literal["copies", "multicast"] = "copies"


class TopologySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes as a number or as names; which keys apply depends on `kind`.

    `hosts` may also say where each starts (`{h1 = "S1"}`). `coordinators` may say which stations they have
    (`{C1 = ["S1", "S2"]}`). `groups` maps group numbers to names, or is a number of groups; left out, everybody is in
    group 1. Of a number of groups everybody is in all, or in `groups_of_each` of them, dealt out in turn. `layout` or
    `neighbours` says which cells lie side by side, `positions` (in metres) where stations or members are.
    """

    kind: str = "broadcast"
    members: int | list[str] | None = None
    sites: int | list[str] | None = None
    stations: int | list[str] | None = None
    hosts: int | list[str] | dict[str, str] | None = None
    coordinators: int | dict[str, list[str]] | None = None
    sequencer: str = "Q"
    groups: int | dict[str, list[str]] | None = None
    groups_of_each: int | None = None
    layout: str | None = None
    neighbours: dict[str, list[str]] | None = None
    positions: dict[str, Position] | None = None
    air: AirSpec = AirSpec()
    wire: WireSpec = WireSpec()


class MobilitySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts that change cell by themselves, or members that move; which keys apply depends on `kind`.

    `dwell`: they stay for a `dwell` time, then move to another cell; with `gap` they are in no cell for that long on
    the way. `trace`: they go where a `file` says, or `moves` (of hosts) or `points` (of members), which is what the
    file becomes when it is read.
    """

    kind: str = "dwell"
    hosts: list[str] | None = None
    dwell: Delay | None = None
    cells: str = "uniform"
    gap: Delay = Delay("fixed", 0)
    gap_probability: Probability = 1.0
    start_after: Duration = Duration(0)
    until: Duration | None = None
    file: str | None = None
    format: str = "csv"
    range_m: float | None = None
    moves: list[Handoff] | None = None
    points: list[Point] | None = None


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that determines a run. `workload` is `kind` plus the keys of that workload."""

    name: str
    protocol: ProtocolChoice
    topology: TopologySpec
    duration: Duration
    membership: Named = Named("static")
    transport: Named = Named("sim")
    seed: int = 1
    drain: Duration = Duration(5_000_000_000)
    workload: dict[str, Any] = {}
    application: Named | None = None
    mobility: MobilitySpec | list[MobilitySpec] | None = None
    faults: Faults = Faults()
    repair: RepairOptions | None = None
    key: KeySource | None = None

    def movements(self) -> list[tuple[str, MobilitySpec]]:
        """Everything that moves hosts, each with the path of its key, under which its moves are counted."""
        if isinstance(self.mobility, list):
            return [(f"mobility[{at}]", source) for at, source in enumerate(self.mobility)]
        return [("mobility", self.mobility)] if self.mobility is not None else []

    def asked_for(self) -> list[str]:
        """The names of everything that has to take effect at least once."""
        return self.faults.asked_for() + [path for path, _ in self.movements()]


class Loaded(msgspec.Struct, frozen=True):
    """An experiment together with the plain data it was read from, which is what a run keeps."""

    experiment: Experiment
    data: dict[str, Any]

    def toml(self) -> str:
        """The experiment as a file that gives the same run again."""
        return tomli_w.dumps(self.data)


def load_file(path: Path, overrides: Sequence[str] = (), seed: int | None = None) -> Loaded:
    """Read an experiment file and apply `key=value` overrides to it."""
    data = read_toml(path)
    topology = data.get("topology")
    if isinstance(topology, str):
        data["topology"] = read_toml(path.parent / topology)
    for override in overrides:
        _set(data, override)
    if seed is not None:
        data["seed"] = seed
    return load(with_key_path(with_traces(data, path.parent), path.parent))


def load(data: dict[str, Any]) -> Loaded:
    """Check plain data and make an experiment of it."""
    experiment = convert(data, Experiment)
    _check_name(experiment.name)
    if experiment.duration <= 0:
        raise ConfigurationError("duration", "has to be longer than nothing")
    for key in ("duration", "drain"):
        if getattr(experiment, key) > TIME_MAX:
            raise ConfigurationError(key, "is more than a capture can hold (146 years)")
    for key in ("air", "wire"):
        if getattr(experiment.topology, key).rate <= 0:
            raise ConfigurationError(f"topology.{key}.rate", "has to be more than nothing")
    if experiment.topology.wire.fanout == "multicast" and experiment.topology.wire.transmitter != "node":
        raise ConfigurationError("topology.wire.fanout", "one transmission for all needs transmitter = 'node'")
    _check_backend(experiment)
    _check_simulated(experiment)
    if not 0 <= experiment.seed < 1 << 63:
        raise ConfigurationError("seed", "has to be a number from 0 to 2**63 - 1")
    return Loaded(experiment, {**data, "seed": experiment.seed})


def _check_simulated(experiment: Experiment) -> None:
    """Models of media that only a simulation can follow."""
    topology = experiment.topology
    set_keys = [
        f"topology.{medium}.{key}"
        for medium, plain in (("air", AirSpec()), ("wire", WireSpec()))
        for key in ("shared", "sizes", "transmitter", "fanout")
        if getattr(getattr(topology, medium), key, None) != getattr(plain, key, None)
    ]
    set_keys += ["faults.loss_spares"] if experiment.faults.loss_spares else []
    if set_keys and experiment.transport.name != "sim":
        raise ConfigurationError(set_keys[0], "only the transport 'sim' has this")


def _check_backend(experiment: Experiment) -> None:
    air, kind = experiment.topology.air, experiment.topology.kind
    if air.backend == "pipe":
        if air.gsm is not None:
            raise ConfigurationError("topology.air.gsm", "is for the back-end 'gsm'")
        return
    if kind not in ("cellular", "three_tier"):
        raise ConfigurationError("topology.air.backend", f"gsm needs stations, and a {kind} topology has none")
    if experiment.transport.name != "sim":
        raise ConfigurationError("topology.air.backend", "only the transport 'sim' has gsm")
    for key in sorted(set(AirSpec.__struct_fields__) - GSM_KEYS):
        if getattr(air, key) != getattr(AirSpec(), key):
            raise ConfigurationError(f"topology.air.{key}", "is for the back-end 'pipe'; gsm has what its blocks carry")


def with_traces(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The data with the moves of every trace in place of its file, so that it runs again without that."""
    if not isinstance(data.get("mobility"), (dict, list)):
        return data
    experiment, written = convert(data, Experiment), data["mobility"]
    tables = written if isinstance(written, list) else [written]
    read = [
        _with_moves(table, source, path, experiment.topology, folder)
        for table, (path, source) in zip(tables, experiment.movements(), strict=True)
    ]
    return {**data, "mobility": read if isinstance(written, list) else read[0]}


def _with_moves(
    table: dict[str, Any], source: MobilitySpec, path: str, topology: TopologySpec, folder: Path
) -> dict[str, Any]:
    if source.kind != "trace" or source.file is None:
        return table
    for key in ("moves", "points"):
        if getattr(source, key) is not None:
            raise ConfigurationError(f"{path}.{key}", f"a trace has either a file or {key}")
    if topology.kind == "broadcast":
        return _with_points(table, source, path, topology, folder)
    hosts = host_names(topology) if source.hosts is None else source.hosts
    cells = Cells(hosts, station_names(topology), topology.positions or {}, source.range_m)
    moves = read_trace(folder / source.file, source.format, cells, path)
    kept = {key: value for key, value in table.items() if key not in ("file", "format", "range_m")}
    return {**kept, "moves": [{"host": m.host, "at": show_duration(m.at), "to": m.to} for m in moves]}


def _with_points(
    table: dict[str, Any], source: MobilitySpec, path: str, topology: TopologySpec, folder: Path
) -> dict[str, Any]:
    if source.range_m is not None:
        raise ConfigurationError(f"{path}.range_m", "members hear each other as far as topology.air.range_m says")
    members = node_names(topology, "members", "n") if source.hosts is None else source.hosts
    points = read_points(folder / source.file, source.format, members, path) if source.file is not None else []
    kept = {key: value for key, value in table.items() if key not in ("file", "format")}
    shown = [{"node": p.node, "at": show_duration(p.at), "x": p.x, "y": p.y} for p in points]
    return {**kept, "points": shown}


def _check_name(name: str) -> None:
    if not is_file_name(name):
        raise ConfigurationError("name", "use letters, digits, '-', '_' and '.', because a directory is named after it")


def is_file_name(name: str) -> bool:
    """Whether a file or directory can be named so, on any machine."""
    return bool(name) and NAME_CHARACTERS.issuperset(name) and not name.startswith(".") and len(name) <= NAME_MAX


def read_toml(path: Path) -> dict[str, Any]:
    """The plain data of a file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(str(path), f"cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(path), f"is not TOML: {error}") from None


def _set(data: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise ConfigurationError("--set", f"expected key=value, got {override!r}")
    *path, last = key.split(".")
    table: Any = data
    for step in path:
        table = table.setdefault(step, {})
        if not isinstance(table, dict):
            raise ConfigurationError("--set", f"{key!r}: {step!r} is not a table")
    table[last] = _plain_value(value)


def _plain_value(text: str) -> Any:
    """A TOML value, or the text itself: `--set duration=5s` needs no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def names_of(spec: int | Sequence[str] | Mapping[str, Any], prefix: str, path: str, most: int) -> list[str]:
    """Names from a count (`A1`, `A2`, ...) or a list."""
    if isinstance(spec, int):
        if not 0 < spec <= most:
            raise ConfigurationError(path, f"has to be from 1 to {most}")
        return [f"{prefix}{number}" for number in range(1, spec + 1)]
    names = list(spec)
    if not names:
        raise ConfigurationError(path, "names nobody")
    return names


def node_names(spec: TopologySpec, key: str, prefix: str) -> list[str]:
    """The names of the nodes that the topology has under this key, in the order written."""
    value = getattr(spec, key)
    if value is None:
        raise ConfigurationError(f"topology.{key}", f"a {spec.kind} topology needs it: a number, or names")
    return names_of(value, prefix, f"topology.{key}", NODES_MAX)


def station_names(spec: TopologySpec) -> list[str]:
    """The stations in the order written, which is the order of a layout."""
    if isinstance(spec.coordinators, dict):
        return [station for own in spec.coordinators.values() for station in own]
    return node_names(spec, "stations", "S")


def host_names(spec: TopologySpec) -> list[str]:
    """The hosts in the order written, which is the order of the nodes of a trace."""
    return node_names(spec, "hosts", "h")
