"""Who enters which cell when: the mobility of an experiment as moves, drawn from the seed or taken from a trace.

Every source moves hosts of its own. What is drawn for a host depends on the seed and the name of that host alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

import msgspec

from castbed.errors import ConfigurationError
from castbed.topology import Topology
from castbed.values import NOBODY, NodeNumber
from castbed_testbed.experiment import Experiment, MobilitySpec
from castbed_testbed.networks import host_number, station_number

MOVES_OF_A_HOST_MAX = 1_000_000  # all moves are kept in memory before the run begins
CELLS = ("uniform", "neighbours")

_USED: Mapping[str, tuple[str, ...]] = {
    "dwell": ("dwell", "cells", "gap", "gap_probability", "start_after", "until"),
    "trace": ("file", "format", "range_m", "moves", "points"),
}


class Move(msgspec.Struct, frozen=True):
    """A host enters the cell of a station, or none (NOBODY).

    `counted` is the name under which it is counted; empty where a host only gets to its place, or back into a cell.
    """

    at: int
    counted: str
    host: NodeNumber
    station: NodeNumber


class _Source(msgspec.Struct, frozen=True):
    """One table of mobility, where it is written, and what it is part of."""

    path: str
    spec: MobilitySpec
    experiment: Experiment
    topology: Topology

    def refused(self, key: str, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{self.path}.{key}", problem)


def moves(experiment: Experiment, topology: Topology) -> Iterator[Move]:
    """The moves of all sources, host by host; everything impossible about them is a ConfigurationError."""
    movers: dict[NodeNumber, str] = {}
    for path, spec in experiment.movements():
        source = _Source(path, spec, experiment, topology)
        _check_kind(source)
        if topology.model == "broadcast":
            continue  # its members move in metres, which is for `ranges`
        for host in _hosts(source):
            if host in movers:
                raise source.refused("hosts", f"{topology.name(host)!r} is moved by {movers[host]} already")
            movers[host] = path
        yield from _MOVES[spec.kind](source)


def coverage_gaps(experiment: Experiment) -> Iterator[str]:
    """The keys that take hosts out of every cell for a while."""
    for path, spec in experiment.movements():
        if spec.gap.most > 0 and spec.gap_probability > 0:
            yield f"{path}.gap"
        if any(not move.to for move in spec.moves or ()):
            yield f"{path}.moves"


def _check_kind(source: _Source) -> None:
    spec, plain = source.spec, MobilitySpec()
    if spec.kind not in _USED:
        raise source.refused("kind", f"{spec.kind!r} is none of {', '.join(_USED)}")
    for kind, keys in _USED.items():
        for key in keys:
            if kind != spec.kind and getattr(spec, key) != getattr(plain, key):
                raise source.refused(key, f"mobility of the kind {spec.kind!r} has none")
    model = source.topology.model
    if model == "broadcast" and spec.kind == "trace":
        _check_given(source, "points", "moves")
    elif not source.topology.numbers("station"):
        raise ConfigurationError(source.path, f"a {model} topology has no cells")
    elif spec.kind == "trace":
        _check_given(source, "moves", "points")


def _check_given(source: _Source, wanted: str, foreign: str) -> None:
    """A trace says what its topology has use for, and the file that said it has been read."""
    spec = source.spec
    if getattr(spec, foreign) is not None:
        raise source.refused(foreign, f"a trace on a {source.topology.model} topology has {wanted} instead")
    if getattr(spec, wanted) is None:
        raise source.refused("file", "is read with the experiment file beside it" if spec.file else "a trace needs it")
    for key in ("file", "format", "range_m"):
        if getattr(spec, key) != getattr(MobilitySpec(), key):
            raise source.refused(key, f"the {wanted} are given already")


def _hosts(source: _Source) -> list[NodeNumber]:
    """Whom the source may move."""
    topology, spec, path = source.topology, source.spec, f"{source.path}.hosts"
    if spec.hosts is None and spec.kind == "trace":
        return sorted({host for host, _, _ in _traced(source)})
    if spec.hosts is None:
        return list(topology.numbers("host"))
    found = [host_number(topology, name, path) for name in spec.hosts]
    if not found or len(set(found)) < len(found):
        raise ConfigurationError(path, "names a host twice" if found else "names nobody")
    return found


# --- dwelling --------------------------------------------------------------------------------------------------------


def _dwelling(source: _Source) -> Iterator[Move]:
    """Each host stays for a dwell time, is nowhere for the gap, and enters another cell."""
    spec = source.spec
    if len(source.topology.numbers("station")) < 2:
        raise ConfigurationError(source.path, "there is no second cell to move to")
    if spec.dwell is None:
        raise source.refused("dwell", "this key is required")
    if not spec.dwell.most:
        raise source.refused("dwell", "has to be longer than nothing")
    if not spec.gap.most and spec.gap_probability != 1:
        raise source.refused("gap_probability", "there is no gap")
    if spec.cells not in CELLS:
        raise source.refused("cells", f"{spec.cells!r} is none of {', '.join(CELLS)}")
    if spec.cells == "neighbours" and not any(source.topology.neighbours.values()):
        raise source.refused("cells", "topology.layout or topology.neighbours has to say which are neighbours")
    until = _until(source)
    for host in _hosts(source):
        yield from _walk(source, host, until)


def _until(source: _Source) -> int:
    spec, experiment = source.spec, source.experiment
    until = experiment.duration if spec.until is None else spec.until
    if until <= spec.start_after:
        late = "start_after" if spec.until is None else "until"
        raise source.refused(late, "leaves no time to move in")
    return min(until, experiment.duration + experiment.drain)


def _walk(source: _Source, host: NodeNumber, until: int) -> Iterator[Move]:
    spec, topology = source.spec, source.topology
    assert spec.dwell is not None
    random = Random(f"{source.experiment.seed}/mobility/{topology.name(host)}")
    at, here = int(spec.start_after), topology.attached.get(host, NOBODY)
    for _ in range(MOVES_OF_A_HOST_MAX):
        at += max(1, spec.dwell.sample(random))
        onward = _onward(source, here)
        if at >= until or not onward:
            return
        here, counted = random.choice(onward), source.path
        gap = spec.gap.sample(random) if random.random() < spec.gap_probability else 0
        if gap > 0:
            yield Move(at, counted, host, NOBODY)
            at, counted = at + gap, ""
        yield Move(at, counted, host, here)
    raise source.refused("dwell", f"is so short that a host moves more than {MOVES_OF_A_HOST_MAX} times")


def _onward(source: _Source, here: NodeNumber) -> tuple[NodeNumber, ...]:
    """The cells that a host may enter next; one that starts in no cell may enter any."""
    if source.spec.cells == "neighbours" and here != NOBODY:
        return source.topology.neighbours.get(here, ())
    return tuple(station for station in source.topology.numbers("station") if station != here)


# --- traces ----------------------------------------------------------------------------------------------------------


def _trace(source: _Source) -> Iterator[Move]:
    """What the trace says; where hosts are at time 0 is their place, not a move."""
    allowed = set(_hosts(source))
    for at, (host, time, station) in enumerate(_traced(source)):
        if host not in allowed:
            raise source.refused(f"moves[{at}].host", f"{source.topology.name(host)!r} is none of its hosts")
        yield Move(time, source.path if time else "", host, station)


def _traced(source: _Source) -> list[tuple[NodeNumber, int, NodeNumber]]:
    topology, found = source.topology, []
    for at, move in enumerate(source.spec.moves or ()):
        path = f"{source.path}.moves[{at}]"
        host = host_number(topology, move.host, f"{path}.host")
        station = station_number(topology, move.to, f"{path}.to") if move.to else NOBODY
        found.append((host, int(move.at), station))
    return found


_MOVES: Mapping[str, Callable[[_Source], Iterator[Move]]] = {"dwell": _dwelling, "trace": _trace}
