"""Small networks to explore a protocol on: drawn at random within sizes, or given by an experiment file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from castbed.assembly import variant_name
from castbed.declarations import Protocol
from castbed.errors import ConfigurationError
from castbed_testbed.experiment import load_file
from castbed_testbed.explore.arena import SEED_MAX, Setup
from castbed_testbed.explore.chances import Limits

SIZES: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "broadcast": {"members": (2, 4)},
    "sites": {"sites": (2, 4)},
    "cellular": {"stations": (2, 3), "hosts": (1, 3)},
    "three_tier": {"coordinators": (1, 3), "stations": (2, 3), "hosts": (1, 3)},
}
"""The sizes that are drawn where nobody says otherwise: smallest and largest."""
SOME_OUTSIDE = 0.5  # of the networks whose users may join have some who are in no group yet
SIZE_MAX = 12  # exploration is for small networks; larger ones are for runs
GROUPS = "groups"
GROUPS_MAX = 3
SECOND_GROUP = 1 / 3  # of the networks have one, where the protocol serves more than one and nobody says otherwise
_LIMITS = tuple(field for field in Limits.__struct_fields__ if field != "messages_min")
_LEAST: Mapping[str, int] = {"steps": 5}  # fewer leave strategies nothing to draw; all others may be 0


class Model(msgspec.Struct, frozen=True):
    """What to explore on: sizes that are fixed, or a whole setup from an experiment file."""

    sizes: Mapping[str, int] = {}
    setup: Setup | None = None


def parse_model(text: str | None, protocol: Protocol, variant: str | None) -> Model:
    """`members=3,messages=5`, or the name of an experiment file, which may say the variant if nobody else does."""
    if text is None:
        return Model()
    if text.endswith(".toml"):
        return Model(setup=_from_file(Path(text), protocol, variant))
    sizes: dict[str, int] = {}
    known = (*SIZES[protocol.model], GROUPS, *_LIMITS)
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if key not in known or not equals or not value.isdigit():
            problem = f"{part!r}: expected an experiment file, or sizes as in {known[0]}=3 ({', '.join(known)})"
            raise ConfigurationError("--model", problem)
        if key in SIZES[protocol.model] and not 0 < int(value) <= SIZE_MAX:
            raise ConfigurationError("--model", f"{key} has to be from 1 to {SIZE_MAX}")
        if key == GROUPS and not 0 < int(value) <= GROUPS_MAX:
            raise ConfigurationError("--model", f"{key} has to be from 1 to {GROUPS_MAX}")
        if int(value) < _LEAST.get(key, 0):
            raise ConfigurationError("--model", f"{key} has to be at least {_LEAST[key]}")
        sizes[key] = int(value)
    return Model(sizes)


def _from_file(path: Path, protocol: Protocol, variant: str | None) -> Setup:
    loaded = load_file(path)
    experiment = loaded.experiment
    if experiment.protocol.name != protocol.name:
        raise ConfigurationError("--model", f"{path} is about {experiment.protocol.name}, not {protocol.name}")
    own = experiment.protocol.variant
    if variant is not None and own is not None and own != variant:
        raise ConfigurationError("--variant", f"is {variant!r}, but protocol.variant in {path} is {own!r}")
    chosen = variant_name(protocol, variant or own, "--variant" if variant else "protocol.variant")
    return Setup(protocol.name, chosen, loaded.data["topology"], experiment.protocol.options, experiment.membership)


def draw(
    protocol: Protocol, variant: str, model: Model, random: Random, several: Callable[[], bool] = lambda: False
) -> tuple[Setup, Limits]:
    """One network and the limits of its schedules; `several` says whether the protocol serves several groups."""
    sizes = {key: model.sizes.get(key) or random.randint(*span) for key, span in _spans(protocol).items()}
    given = {key: value for key, value in model.sizes.items() if key in _LIMITS}
    limits = Limits(**given, **({"messages_min": given["messages"]} if "messages" in given else {}))
    seed = random.randrange(SEED_MAX)
    if model.setup is not None:
        return msgspec.structs.replace(model.setup, seed=seed), limits
    topology = _topology(protocol, sizes, random)
    exercise = protocol.exercise.get("topology", {})
    if "groups" in exercise:
        topology["groups"] = dict(exercise["groups"])
    else:
        _add_groups(topology, model.sizes.get(GROUPS), several, Random(f"groups/{seed}"))
    return Setup(protocol.name, variant, topology, seed=seed), limits


def _add_groups(topology: dict[str, Any], wanted: int | None, several: Callable[[], bool], random: Random) -> None:
    """More groups that overlap: those wanted or, now and then, a second one where the protocol serves several."""
    users = topology.get("members") or topology.get("sites") or sorted(topology["hosts"])
    drawn = wanted is None and len(users) > 1 and random.random() < SECOND_GROUP and several()
    count = wanted or 1 + drawn
    if count > 1:
        groups = topology.setdefault("groups", {"1": list(users)})
        for number in range(2, count + 1):
            groups[str(number)] = sorted(random.sample(users, random.randint(min(2, len(users)), len(users))))


def _spans(protocol: Protocol) -> dict[str, tuple[int, int]]:
    """The usual sizes, up to those of the protocol's own exercise."""
    own = protocol.exercise.get("topology", {})
    return {
        key: (low, max(high, own[key]) if isinstance(own.get(key), int) else high)
        for key, (low, high) in SIZES[protocol.model].items()
    }


def _topology(protocol: Protocol, sizes: Mapping[str, int], random: Random) -> dict[str, Any]:
    model = protocol.model
    if model == "broadcast":
        return {"kind": model, "members": [chr(ord("A") + at) for at in range(sizes["members"])]}
    if model == "sites":
        return {"kind": model, "sites": [f"s{at + 1}" for at in range(sizes["sites"])]}
    stations = [f"S{at + 1}" for at in range(sizes["stations"])]
    hosts = {f"h{at + 1}": random.choice(stations) for at in range(sizes["hosts"])}
    made: dict[str, Any] = {"kind": model, "stations": stations, "hosts": hosts}
    if model == "three_tier":
        count = min(sizes["coordinators"], len(stations))
        made["coordinators"] = {f"C{at + 1}": stations[at::count] for at in range(count)}
        del made["stations"]
    if protocol.commands and random.random() < SOME_OUTSIDE:
        made["groups"] = {"1": sorted(random.sample(sorted(hosts), random.randint(0, len(hosts) - 1)))}
    return made
