#!/usr/bin/env python3
"""Captures into columns and tables, beside `tshark -T fields` on the same files, in one run on the same cores.

    python benchmarks/spark_read.py [--packets N] [--rounds N] [--tshark-packets N] [--captures DIR] [--json]

`reader` makes every column of `frames` and the fixed ones of `events`, in one process per core and without Spark;
`reader-details` makes the others of `events`, too. `deliveries` goes from the files to an aggregate over the table, by
`deliveries_of`, and `deliveries-plain` by `deliveries(events, nodes)`, both on a local session; the first time, while
Java is cold, stands apart. tshark reads the same files, of each the first million packets, because it would take
minutes for all of them; rates are per packet, and what tshark takes for one packet of each file, its start, is printed.
Processor time is given too, for machines that are busy with other things.

`growth` compares with the same work on a quarter of the packets: where cost is linear, the ratio is 1; above 1, a
packet costs less in the larger run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from castbed.capture import AIR, CaptureWriter, event_block, frame_block
from castbed.history import Kind, LocalEvent, RunIdentity
from castbed.packets import Packet
from castbed.values import Group, Mid
from castbed.wire import Codec, ethernet_frame

PACKETS = 2_000_000
NODES = 4
PACKETS_PER_MESSAGE = 3 + 2 * (NODES - 1)
HOLD_EVERY = 10  # messages; each then waits for the one before it, at the nodes that wrote neither
TSHARK_PACKETS = 1_000_000  # of each file: its start, less than a second, then hardly counts
SHARE = 4
MICROSECOND = 1_000
MILLION = 1_000_000
FIELDS = ("frame.time_epoch", "frame.interface_id", "frame.len", "eth.src", "eth.type", "data.data")


class Captures(NamedTuple):
    """A run to read, and how many packets it has."""

    directory: Path
    packets: int


class Said(Packet, frozen=True, tag=1):
    """A message with its predecessor."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None


def generate(directory: Path, packets: int) -> None:
    """Four nodes that broadcast in turn; every message is delivered everywhere, some after a wait."""
    names = tuple(f"n{number}" for number in range(1, NODES + 1))
    identity = RunIdentity("bench", 1, "bench", "repaired", "sim", names=names, guarantees=("causal",))
    captures = directory / "captures"
    captures.mkdir(parents=True)
    writers = [CaptureWriter(captures / f"{name}.pcapng", identity, at) for at, name in enumerate(names, start=1)]
    codec = Codec({"bench": (Said,)})
    late: dict[int, Mid] = {}
    for number in range(packets // PACKETS_PER_MESSAGE):
        writer, at = number % NODES + 1, number * 100 * MICROSECOND
        mid = Mid(writer, number // NODES + 1)
        ethernet = ethernet_frame(codec.encode(Said(1, mid, bytes(20 + number % 40), None), writer), writer)
        next_waits, next_writer = (number + 1) % HOLD_EVERY == 0, writer % NODES + 1
        for node, capture in enumerate(writers, start=1):
            if node == writer:
                capture.append(_event(node, at, Kind.SUBMIT, mid))
                capture.append(frame_block(AIR, at, ethernet, True))
                capture.append(_event(node, at, Kind.DELIVER, mid))
                continue
            came = at + node * 10 * MICROSECOND
            capture.append(frame_block(AIR, came, ethernet, False))
            if node in late:
                capture.append(_event(node, came, Kind.HOLD, mid, late[node]))
                came += 5 * MICROSECOND
                capture.append(_event(node, came, Kind.DELIVER, late.pop(node)))
            if next_waits and node != next_writer:
                late[node] = mid
            else:
                capture.append(_event(node, came, Kind.DELIVER, mid))
    for capture in writers:
        capture.close()


def _event(node: int, at: int, kind: Kind, mid: Mid, *waiting_for: Mid) -> bytes:
    return event_block(LocalEvent(node, at, kind, 1, mid, size=20, waiting_for=waiting_for))


def captures(place: Path, packets: int) -> Captures:
    """A run with about so many packets in it: the one that is there, or a new one."""
    from castbed_spark.reading import captures_row, plan

    directory = place / f"bench-{packets}"
    if not directory.is_dir():
        print(f"writing {packets} packets", file=sys.stderr, flush=True)
        generate(directory, packets)
    return Captures(directory, sum(captures_row(part)["packets"] for part in plan(str(directory))))


# --- the three --------------------------------------------------------------------------------------------------------


def _read_slice(details: bool, part: Any) -> int:
    """All frames of a slice, then all events, as record batches."""
    import pyarrow as pa

    from castbed_spark.details import DETAIL_COLUMNS
    from castbed_spark.reading import read
    from castbed_spark.schemas import EVENTS, FRAMES

    types = DETAIL_COLUMNS | {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}
    frames = pa.schema([(column.name, types[column.type]) for column in FRAMES])
    wanted = [column for column in EVENTS if details or column.name not in DETAIL_COLUMNS]
    events = pa.schema([(column.name, types.get(column.name) or types[column.type]) for column in wanted])
    tables = (("frames", frames), ("events", events))
    return sum(int(batch.num_rows) for table, schema in tables for batch in read(part, table, schema, []))


def reader(directory: Path, pool: ProcessPoolExecutor, details: bool) -> int:
    from castbed_spark.reading import plan

    return sum(pool.map(partial(_read_slice, details), plan(str(directory))))


def deliveries_job(spark: Any, directory: Path) -> int:
    from castbed_spark.tables import deliveries_of

    return _totalled(deliveries_of(spark, str(directory), ["copies", "latency_ns", "hold_ns", "needless_ns"]))


def deliveries_plain_job(spark: Any, directory: Path) -> int:
    from castbed_spark.source import read_events, read_nodes
    from castbed_spark.tables.deliveries import EVENT_COLUMNS, deliveries

    return _totalled(deliveries(read_events(spark, str(directory), EVENT_COLUMNS), read_nodes(spark, str(directory))))


def _totalled(table: Any) -> int:
    from pyspark.sql import functions as F

    totals = table.agg(F.sum("copies"), F.avg("latency_ns"), F.sum("hold_ns"), F.sum("needless_ns")).collect()[0]
    return int(totals[0])


def tshark(directory: Path, packets: int) -> int:
    """How many packets it wrote fields of: the first so many of each file, one file after the other."""
    lines = 0
    for file in sorted(directory.glob("captures/*.pcapng")):
        command = ["tshark", "-n", "-r", str(file), "-c", str(packets), "-T", "fields"]
        for field in FIELDS:
            command += ["-e", field]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            assert running.stdout is not None
            lines += sum(block.count(b"\n") for block in iter(partial(running.stdout.read, 1 << 20), b""))
        assert running.returncode == 0, file
    return lines


# --- running ----------------------------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    """Processor time of this process and all its descendants so far, Java and the workers among them."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            fields = file.read_text().rpartition(")")[2].split()
            number = int(file.parent.name)
            parents[number], spent[number] = int(fields[1]), sum(map(int, fields[11:15]))
    family, found = {os.getpid()}, 0
    while found < len(family):
        found = len(family)
        family |= {number for number, parent in parents.items() if parent in family}
    return sum(spent[number] for number in family) / os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What some work took."""

    wall_s: float
    cpu_s: float


def costs(captures: list[Captures], rounds: int, tshark_packets: int) -> Iterator[list[dict[str, Cost]]]:
    """What a million packets of each run cost, measured in turns; in the first turn Java is cold.

    tshark reads the last run only.
    """
    from castbed_spark.session import start_session

    cores = os.cpu_count() or 1
    spark = start_session(f"local[{cores}]")
    with ProcessPoolExecutor(cores) as pool:
        for _ in range(rounds + 1):
            *smaller, last = (_costs_of(one, spark, pool) for one in captures)
            theirs = _each(lambda: tshark(captures[-1].directory, tshark_packets))
            print(f"tshark, a million: {theirs.wall_s:.2f} s", file=sys.stderr, flush=True)
            yield [*smaller, last | {"tshark": theirs}]
    spark.stop()


def _costs_of(captures: Captures, spark: Any, pool: ProcessPoolExecutor) -> dict[str, Cost]:
    directory, packets = captures
    works: dict[str, Callable[[], int]] = {
        "reader": lambda: reader(directory, pool, details=False),
        "reader-details": lambda: reader(directory, pool, details=True),
        "deliveries": lambda: deliveries_job(spark, directory),
        "deliveries-plain": lambda: deliveries_plain_job(spark, directory),
    }
    found = {name: _each(work, packets) for name, work in works.items()}
    words = {name: f"{one.wall_s:.2f} s, cpu {one.cpu_s:.2f} s" for name, one in found.items()}
    print(f"{packets} packets, a million each:", words, file=sys.stderr, flush=True)
    return found


def _each(work: Callable[[], int], packets: int = 0) -> Cost:
    """What a million packets cost, of so many or of those that `work` counted."""
    start, cpu_start = time.perf_counter(), cpu_seconds()
    counted = work()
    share = MILLION / (packets or counted)
    return Cost((time.perf_counter() - start) * share, (cpu_seconds() - cpu_start) * share)


def rows(captures: list[Captures], rounds: int, tshark_packets: int) -> list[dict[str, Any]]:
    """How we compare with tshark on the last run, and with ourselves on the first."""
    start = time.perf_counter()
    started = tshark(captures[-1].directory, 1)
    print(f"tshark, {started} packets, one of each file: {time.perf_counter() - start:.2f} s", file=sys.stderr)
    (_, cold), *warm = costs(captures, rounds, tshark_packets)
    ours = [name for name in cold if name != "tshark"]
    larger = [large for _, large in warm]
    against_tshark = [
        row(f"spark-{name}{suffix}", [(one[name], one["tshark"]) for one in turns], "tshark -T fields")
        for name in ours
        for suffix, turns in (("-cold", [cold]), ("", larger))
    ]
    quarter = f"the same on {captures[0].packets:,} packets"
    return against_tshark + [
        row(f"spark-{name}-growth", [(large[name], small[name]) for small, large in warm], quarter) for name in ours
    ]


def row(name: str, turns: list[tuple[Cost, Cost]], peer_name: str) -> dict[str, Any]:
    """Medians of some turns; `cpu_ratio` is by processor time, as if tshark could use every core as well."""
    return {
        "name": name,
        "unit": "packets/s",
        "ours": statistics.median(MILLION / ours.wall_s for ours, _ in turns),
        "peer": statistics.median(MILLION / peer.wall_s for _, peer in turns),
        "peer_name": peer_name,
        "ratio": statistics.median(peer.wall_s / ours.wall_s for ours, peer in turns),
        "cpu_us": statistics.median(ours.cpu_s for ours, _ in turns),
        "peer_cpu_us": statistics.median(peer.cpu_s for _, peer in turns),
        "cpu_ratio": statistics.median(peer.cpu_s / ours.cpu_s for ours, peer in turns),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=PACKETS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tshark-packets", type=int, default=TSHARK_PACKETS, help="of each file, at most")
    parser.add_argument("--captures", type=Path, help="a directory to keep the captures in, for the next time")
    parser.add_argument("--json", action="store_true", help="print rows as one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = arguments.captures or Path(scratch)
        both = [captures(place, packets) for packets in (arguments.packets // SHARE, arguments.packets)]
        found = rows(both, arguments.rounds, arguments.tshark_packets)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for one in found:
        rate = f"{one['ours']:14,.0f}{one['peer']:12,.0f}{one['ratio']:8.1f}  {one['unit']}"
        print(
            f"{one['name']:30}{rate}{one['cpu_us']:8.2f}{one['peer_cpu_us']:8.2f}{one['cpu_ratio']:6.1f}  cpu us/packet"
        )


if __name__ == "__main__":
    main()
