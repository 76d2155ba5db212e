"""An experiment as a value: read from TOML, checked key by key, able to say itself again.

Reading never runs anything. Every mistake is a ConfigurationError that names the key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from castbed.errors import ConfigurationError
from castbed.units import BitRate, Duration, convert
from castbed_testbed.delays import Delay
from castbed_testbed.faults import Faults

TIME_MAX = 1 << 62  # nanoseconds, 146 years: captures keep times in 64 bits
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")

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


class AirSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The shared medium: every transmitter has a queue of its own and sends at `rate`."""

    rate: BitRate = BitRate(2_000_000)
    delay: Delay = Delay("fixed", 1_000)


class WireSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The wires between fixed nodes; without `fifo` packets of one link may overtake each other."""

    rate: BitRate = BitRate(100_000_000)
    delay: Delay = Delay("fixed", 1_000_000)
    fifo: bool = True


class TopologySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes as a number or as names; which keys apply depends on `kind`.

    `hosts` may also say where each starts (`{h1 = "S1"}`). `coordinators` may say which stations they have
    (`{C1 = ["S1", "S2"]}`). `groups` maps group numbers to names; left out, everybody is in group 1.
    """

    kind: str = "broadcast"
    members: int | list[str] | None = None
    sites: int | list[str] | None = None
    stations: int | list[str] | None = None
    hosts: int | list[str] | dict[str, str] | None = None
    coordinators: int | dict[str, list[str]] | None = None
    sequencer: str = "Q"
    groups: dict[str, list[str]] | None = None
    air: AirSpec = AirSpec()
    wire: WireSpec = WireSpec()


class MobilitySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hosts that change cell by themselves: they stay for a `dwell` time, then move to any other cell.

    With `gap` they are in no cell for that long on the way.
    """

    dwell: Delay
    gap: Delay = Delay("fixed", 0)
    hosts: list[str] | None = None


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
    mobility: MobilitySpec | None = None
    faults: Faults = Faults()


class Loaded(msgspec.Struct, frozen=True):
    """An experiment together with the plain data it was read from, which is what a run keeps."""

    experiment: Experiment
    data: dict[str, Any]

    def toml(self) -> str:
        """The experiment as a file that gives the same run again."""
        return tomli_w.dumps(self.data)


def load_file(path: Path, overrides: Sequence[str] = (), seed: int | None = None) -> Loaded:
    """Read an experiment file and apply `key=value` overrides to it."""
    data = _read_toml(path)
    topology = data.get("topology")
    if isinstance(topology, str):
        data["topology"] = _read_toml(path.parent / topology)
    for override in overrides:
        _set(data, override)
    if seed is not None:
        data["seed"] = seed
    return load(data)


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
    if not 0 <= experiment.seed < 1 << 63:
        raise ConfigurationError("seed", "has to be a number from 0 to 2**63 - 1")
    return Loaded(experiment, {**data, "seed": experiment.seed})


def _check_name(name: str) -> None:
    if not is_file_name(name):
        raise ConfigurationError("name", "use letters, digits, '-', '_' and '.', because a directory is named after it")


def is_file_name(name: str) -> bool:
    """Whether a file or directory can be named so, on any machine."""
    return bool(name) and NAME_CHARACTERS.issuperset(name) and not name.startswith(".") and len(name) <= NAME_MAX


def _read_toml(path: Path) -> dict[str, Any]:
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
