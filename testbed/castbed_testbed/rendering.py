"""The speed-up of distributed rendering: the paper's tables, the same in the simulator, and worker processes of today.

Simulated times come from the protocol and the network; what one frame costs is taken from the paper (its time on one
host, divided by its frames). Measured times come from worker processes on this machine, on volumes as small as asked
for, and say nothing about a network: volume and frames go through pipes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, cast

import msgspec

from castbed.declarations import PUBLISHED, ApplicationPlugin, Protocol
from castbed.errors import ConfigurationError, UnavailableError
from castbed.registry import Registry, load_registry
from castbed.units import convert
from castbed_testbed.playing import play

FRAMES = 360
FRAGMENT = "4KiB"
PAPER_S: dict[int, dict[int, int]] = {
    333: {1: 422, 2: 206, 3: 142, 4: 107},
    500: {1: 298, 2: 146, 3: 99, 4: 74, 8: 41},
}
"""Tables 4 and 5: by clock rate in MHz and number of hosts, the time of a task in seconds."""

NETWORKS: dict[str, dict[str, Any]] = {
    "broadcast": {"air": {"rate": "10Mbit/s", "delay": "0ms"}},
    "three_tier": {
        "coordinators": 2,
        "stations": 4,
        "air": {"rate": "10Mbit/s", "delay": "0ms"},
        "wire": {"rate": "100Mbit/s", "delay": "500us"},
    },
}
"""By system model: the rates and delays of the paper's simulation (its Table 1)."""
_HOSTS = {"broadcast": "members", "three_tier": "hosts"}
_CLIENT = "w1"
_HEADING = "hosts  time s  speed-up  time s  speed-up  deviation"
WORKER_SECONDS_MAX = 600


class Row(msgspec.Struct, frozen=True):
    """One number of hosts: times of a task in seconds, in the paper and in the simulator."""

    mhz: int
    hosts: int
    paper_s: float
    paper_speed_up: float
    simulated_s: float
    simulated_speed_up: float

    @property
    def deviation_percent(self) -> float:
        """How far the simulated speed-up is from the paper's."""
        return 100 * (self.simulated_speed_up / self.paper_speed_up - 1)


class Measured(msgspec.Struct, frozen=True):
    """One number of worker processes on this machine; `identical` says whether all frames were those of one worker."""

    workers: int
    wall_s: float
    speed_up: float
    identical: bool


def speed_up_table(protocol: Protocol | None = None, application: ApplicationPlugin | None = None) -> list[Row]:
    """The paper's Tables 4 and 5 beside simulated tasks of the same size; by default over the installed `eomp`."""
    registry = load_registry()
    protocol = protocol or registry.protocols.get("eomp", "protocol")
    application = application or registry.applications.get("render", "application")
    if protocol.name not in registry.protocols:
        registry.protocols.add(protocol)
    rows = []
    for mhz, times in PAPER_S.items():
        cost_ns = times[1] * 10**9 // FRAMES
        simulated = {hosts: simulated_s(registry, protocol, application, hosts, cost_ns) for hosts in times}
        rows += [Row(mhz, n, s, times[1] / s, simulated[n], simulated[1] / simulated[n]) for n, s in times.items()]
    return rows


def simulated_s(
    registry: Registry, protocol: Protocol, application: ApplicationPlugin, hosts: int, frame_cost_ns: int
) -> float:
    """The virtual time of one task on so many hosts, from its submission until its client has all frames."""
    options = {
        "tasks": [{"node": _CLIENT, "at": "0s"}],
        "frames": FRAMES,
        "frame_cost": f"{frame_cost_ns}ns",
        "fragment": FRAGMENT,
    }
    data = _experiment(protocol, hosts, duration_ns=2 * FRAMES * frame_cost_ns)
    client = play(data, application, options, registry).programs[_CLIENT]
    (job,) = client.jobs.values()
    if job.finished is None:
        raise ConfigurationError("protocol", f"{protocol.name} did not finish the task on {hosts} hosts")
    return float((job.finished - job.begun) / 10**9)


def _experiment(protocol: Protocol, hosts: int, duration_ns: int) -> dict[str, Any]:
    if protocol.model not in NETWORKS:
        known = ", ".join(NETWORKS)
        raise ConfigurationError("protocol", f"{protocol.name} runs on {protocol.model!r}, this table on {known}")
    names = [f"w{number}" for number in range(1, hosts + 1)]
    topology = {"kind": protocol.model, _HOSTS[protocol.model]: names, **NETWORKS[protocol.model]}
    return {
        "name": "speed-up",
        "protocol": {"name": protocol.name, "variant": _as_measured(protocol)},
        "topology": topology,
        "duration": f"{duration_ns}ns",
        "drain": "0s",
    }


def _as_measured(protocol: Protocol) -> str:
    """The paper measured the protocol as published."""
    return PUBLISHED if PUBLISHED in protocol.variants else protocol.default_variant


def show(rows: Sequence[Row]) -> str:
    """The rows as text, a table per clock rate."""
    lines = []
    for mhz in dict.fromkeys(row.mhz for row in rows):
        lines += [f"{mhz} MHz   paper            simulated", _HEADING]
        lines += [_line(row) for row in rows if row.mhz == mhz]
        lines.append("")
    return "\n".join(lines)


def _line(row: Row) -> str:
    paper = f"{row.paper_s:6.0f}  {row.paper_speed_up:8.2f}"
    simulated = f"{row.simulated_s:6.1f}  {row.simulated_speed_up:8.2f}"
    return f"{row.hosts:5}  {paper}  {simulated}  {row.deviation_percent:+7.1f} %"


# --- worker processes ----------------------------------------------------------------------------------------------


def measured_table(
    workers: Sequence[int] = (1, 2),
    task: dict[str, Any] | None = None,
    application: ApplicationPlugin | None = None,
) -> list[Measured]:
    """Wall-clock times of real worker processes; `task` are options of the application, frames are really drawn.

    The first number of workers is what the others are compared with.
    """
    application = application or load_registry().applications.get("render", "application")
    options: Any = convert({**(task or {}), "draw": True}, application.options, "application.options")
    volume = options.volume()
    alone = {frame: options.image(volume, frame) for frame in range(options.frames)}
    times = [(n, *_measured(options, volume, n)) for n in workers]
    first = times[0][1]
    return [Measured(n, wall_s, first / wall_s, images == alone) for n, wall_s, images in times]


def show_measured(rows: Sequence[Measured]) -> str:
    """The rows as text, with the number of cores that they have to be read against."""
    lines = [f"{os.cpu_count()} cores", "workers  time s  speed-up  frames"]
    for row in rows:
        frames = "identical" if row.identical else "DIFFERENT"
        lines.append(f"{row.workers:7}  {row.wall_s:6.2f}  {row.speed_up:8.2f}  {frames}")
    return "\n".join(lines)


def _measured(options: Any, volume: Any, workers: int) -> tuple[float, dict[int, bytes]]:
    """From handing out the volume until the last frame is here; processes are up before the clock starts."""
    context = get_context("spawn")
    pipes = [context.Pipe() for _ in range(workers)]
    processes = [context.Process(target=_work, args=(there, options), daemon=True) for _, there in pipes]
    for process, (_, there) in zip(processes, pipes, strict=True):
        process.start()
        there.close()
    try:
        ends = [here for here, _ in pipes]
        for _ in ends:
            _received(ends)
        begun = time.perf_counter()
        for identity, end in enumerate(ends):
            end.send((volume, range(identity, options.frames, workers)))
        images = dict(_received(ends) for _ in range(options.frames))
        return time.perf_counter() - begun, images
    finally:
        for process, (here, _) in zip(processes, pipes, strict=True):
            process.terminate()
            process.join()
            here.close()


def _received(ends: list[Any]) -> Any:
    """The next thing that any worker says."""
    ready = wait(ends, WORKER_SECONDS_MAX)
    if not ready:
        raise UnavailableError(f"no worker process said anything for {WORKER_SECONDS_MAX} s")
    try:
        return cast(Connection, ready[0]).recv()
    except EOFError:
        raise UnavailableError("a worker process ended before its work did") from None


def _work(pipe: Connection, options: Any) -> None:
    """One worker process: says that it is up, then computes its share."""
    pipe.send("ready")
    volume, frames = pipe.recv()
    for frame in frames:
        pipe.send((frame, options.image(volume, frame)))
    pipe.poll(None)  # stay until the end: a pipe that closes is a worker that failed
