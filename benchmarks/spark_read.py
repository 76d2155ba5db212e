#!/usr/bin/env python3
"""Captures into columns and tables, beside `tshark -T fields` on the same files, in one run on the same cores.

    python benchmarks/spark_read.py [--packets N] [--rounds N] [--captures DIR] [--json]

`reader` makes every column of `frames` and the fixed ones of `events`, in one process per core and without Spark;
`deliveries` goes from the files to an aggregate over the table `deliveries`, on a local session; the first time, while
Java is cold, stands apart. Peers read a part of the first file, because they would take minutes for all of it; rates
are per packet. Processor time is given too, for machines that are busy with other things.

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
TSHARK_PACKETS = 100_000
OURS = ("reader", "deliveries")
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


def _read_slice(part: Any) -> int:
    """All frames of a slice, then all events, as record batches."""
    import pyarrow as pa

    from castbed_spark.details import DETAIL_COLUMNS
    from castbed_spark.reading import read
    from castbed_spark.schemas import EVENTS, FRAMES

    types = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}
    frames = pa.schema([(column.name, types[column.type]) for column in FRAMES])
    events = pa.schema([(column.name, types[column.type]) for column in EVENTS if column.name not in DETAIL_COLUMNS])
    tables = (("frames", frames), ("events", events))
    return sum(int(batch.num_rows) for table, schema in tables for batch in read(part, table, schema, []))


def reader(directory: Path, pool: ProcessPoolExecutor) -> int:
    from castbed_spark.reading import plan

    return sum(pool.map(_read_slice, plan(str(directory))))


def deliveries_job(spark: Any, directory: Path) -> int:
    from pyspark.sql import functions as F

    from castbed_spark.tables import deliveries_of

    table = deliveries_of(spark, str(directory), ["copies", "latency_ns", "hold_ns", "needless_ns"])
    totals = table.agg(F.sum("copies"), F.avg("latency_ns"), F.sum("hold_ns"), F.sum("needless_ns")).collect()[0]
    return int(totals[0])


def tshark(file: Path, packets: int) -> int:
    command = ["tshark", "-n", "-r", str(file), "-c", str(packets), "-T", "fields"]
    for field in FIELDS:
        command += ["-e", field]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return out.count(b"\n")


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


def cost(work: Callable[[], object]) -> Cost:
    start, cpu_start = time.perf_counter(), cpu_seconds()
    work()
    return Cost(time.perf_counter() - start, cpu_seconds() - cpu_start)


def costs(captures: list[Captures], rounds: int) -> Iterator[list[dict[str, Cost]]]:
    """What a million packets of each run cost, measured in turns; in the first turn Java is cold."""
    from castbed_spark.session import start_session

    cores = os.cpu_count() or 1
    spark = start_session(f"local[{cores}]")
    with ProcessPoolExecutor(cores) as pool:
        for _ in range(rounds + 1):
            yield [_costs_of(one, spark, pool) for one in captures]
    spark.stop()


def _costs_of(captures: Captures, spark: Any, pool: ProcessPoolExecutor) -> dict[str, Cost]:
    directory, packets = captures
    file = sorted(directory.glob("captures/*.pcapng"))[0]
    found = {
        "tshark": _each(TSHARK_PACKETS, lambda: tshark(file, TSHARK_PACKETS)),
        "reader": _each(packets, lambda: reader(directory, pool)),
        "deliveries": _each(packets, lambda: deliveries_job(spark, directory)),
    }
    words = {name: f"{one.wall_s:.2f} s, cpu {one.cpu_s:.2f} s" for name, one in found.items()}
    print(f"{packets} packets, a million each:", words, file=sys.stderr, flush=True)
    return found


def _each(packets: int, work: Callable[[], object]) -> Cost:
    """What a million packets cost."""
    whole = cost(work)
    return Cost(whole.wall_s / packets * MILLION, whole.cpu_s / packets * MILLION)


def rows(captures: list[Captures], rounds: int) -> list[dict[str, Any]]:
    """How we compare with tshark on the last run, and with ourselves on the first."""
    (_, cold), *warm = costs(captures, rounds)
    larger = [large for _, large in warm]
    against_tshark = [
        row(f"spark-{name}{suffix}", [(one[name], one["tshark"]) for one in turns], "tshark -T fields")
        for name in OURS
        for suffix, turns in (("-cold", [cold]), ("", larger))
    ]
    quarter = f"the same on {captures[0].packets:,} packets"
    return against_tshark + [
        row(f"spark-{name}-growth", [(large[name], small[name]) for small, large in warm], quarter) for name in OURS
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
    parser.add_argument("--captures", type=Path, help="a directory to keep the captures in, for the next time")
    parser.add_argument("--json", action="store_true", help="print rows as one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = arguments.captures or Path(scratch)
        both = [captures(place, packets) for packets in (arguments.packets // SHARE, arguments.packets)]
        found = rows(both, arguments.rounds)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for one in found:
        rate = f"{one['ours']:14,.0f}{one['peer']:12,.0f}{one['ratio']:8.1f}  {one['unit']}"
        print(
            f"{one['name']:24}{rate}{one['cpu_us']:8.2f}{one['peer_cpu_us']:8.2f}{one['cpu_ratio']:6.1f}  cpu us/packet"
        )


if __name__ == "__main__":
    main()
