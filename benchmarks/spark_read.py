#!/usr/bin/env python3
"""Captures into columns and tables, beside `tshark -T fields` on the same files, in one run on the same cores.

    python benchmarks/spark_read.py [--packets N] [--rounds N] [--captures DIR] [--json]

`reader` makes every column of `frames` and the fixed ones of `events`, in one process per core and without Spark;
`deliveries` goes from the files to an aggregate over the table `deliveries`, on a local session. Peers read a part of
the first file, because they would take minutes for all of it; rates are per packet.
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
from pathlib import Path
from typing import Any

from castbed.capture import AIR, CaptureWriter, event_block, frame_block
from castbed.history import Kind, LocalEvent, RunIdentity
from castbed.packets import Packet
from castbed.values import Group, Mid
from castbed.wire import Codec, ethernet_frame

PACKETS = 2_000_000
NODES = 4
PACKETS_PER_MESSAGE = 3 + 2 * (NODES - 1)
HOLD_EVERY = 20  # messages; each then waits for the one before it at every receiver
TSHARK_PACKETS = 100_000
MICROSECOND = 1_000
FIELDS = ("frame.time_epoch", "frame.interface_id", "frame.len", "eth.src", "eth.type", "data.data")


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
    for number in range(packets // PACKETS_PER_MESSAGE):
        writer, at = number % NODES + 1, number * 100 * MICROSECOND
        mid = Mid(writer, number // NODES + 1)
        ethernet = ethernet_frame(codec.encode(Said(1, mid, bytes(20 + number % 40), None), writer), writer)
        holds = number % HOLD_EVERY == 0
        for node, capture in enumerate(writers, start=1):
            if node == writer:
                capture.append(event_block(LocalEvent(node, at, Kind.SUBMIT, 1, mid, size=20)))
                capture.append(frame_block(AIR, at, ethernet, True))
                capture.append(event_block(LocalEvent(node, at, Kind.DELIVER, 1, mid, size=20)))
            else:
                came = at + node * 10 * MICROSECOND
                capture.append(frame_block(AIR, came, ethernet, False))
                if holds:
                    capture.append(event_block(LocalEvent(node, came, Kind.HOLD, 1, mid, size=20, waiting_for=(mid,))))
                    came += 5 * MICROSECOND
                capture.append(event_block(LocalEvent(node, came, Kind.DELIVER, 1, mid, size=20)))
    for capture in writers:
        capture.close()


def counted(directory: Path) -> int:
    from castbed_spark.reading import captures_row, plan

    return sum(captures_row(part)["packets"] for part in plan(str(directory)))


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
    return sum(batch.num_rows for batch in read(part, "frames", frames, [])) + sum(
        batch.num_rows for batch in read(part, "events", events, [])
    )


def reader(directory: Path, pool: ProcessPoolExecutor) -> int:
    from castbed_spark.reading import plan

    return sum(pool.map(_read_slice, plan(str(directory))))


def deliveries_job(spark: Any, directory: Path) -> int:
    from pyspark.sql import functions as F

    from castbed_spark.source import read_events, read_nodes
    from castbed_spark.tables import deliveries
    from castbed_spark.tables.deliveries import EVENT_COLUMNS

    events = read_events(spark, str(directory), EVENT_COLUMNS).persist()  # the table looks at them several times
    table = deliveries(events, read_nodes(spark, str(directory)))
    totals = table.agg(F.sum("copies"), F.avg("latency_ns"), F.sum("hold_ns"), F.sum("needless_ns")).collect()[0]
    events.unpersist(blocking=True)
    return int(totals[0])


def tshark(file: Path, packets: int) -> int:
    command = ["tshark", "-n", "-r", str(file), "-c", str(packets), "-T", "fields"]
    for field in FIELDS:
        command += ["-e", field]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return out.count(b"\n")


# --- running ----------------------------------------------------------------------------------------------------------


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rates(directory: Path, packets: int, rounds: int) -> Iterator[dict[str, float]]:
    """Packets per second of each, measured in turns; the first turn warms up and does not count."""
    from castbed_spark.session import start_session

    file = sorted(directory.glob("captures/*.pcapng"))[0]
    cores = os.cpu_count() or 1
    spark = start_session(f"local[{cores}]")
    with ProcessPoolExecutor(cores) as pool:
        for turn in range(rounds + 1):
            found = {
                "tshark": TSHARK_PACKETS / timed(lambda: tshark(file, TSHARK_PACKETS)),
                "reader": packets / timed(lambda: reader(directory, pool)),
                "deliveries": packets / timed(lambda: deliveries_job(spark, directory)),
            }
            print({name: round(rate) for name, rate in found.items()}, file=sys.stderr, flush=True)
            if turn:
                yield found
    spark.stop()


def rows(directory: Path, packets: int, rounds: int) -> list[dict[str, Any]]:
    passes = list(rates(directory, packets, rounds))
    return [
        {
            "name": f"spark-{name}",
            "unit": "packets/s",
            "ours": statistics.median(found[name] for found in passes),
            "peer": statistics.median(found["tshark"] for found in passes),
            "peer_name": "tshark -T fields",
            "ratio": statistics.median(found[name] / found["tshark"] for found in passes),
        }
        for name in ("reader", "deliveries")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=PACKETS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--captures", type=Path, help="a directory to keep the captures in, for the next time")
    parser.add_argument("--json", action="store_true", help="print rows as one JSON document")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = (arguments.captures or Path(scratch)) / f"bench-{arguments.packets}"
        if not directory.is_dir():
            print(f"writing {arguments.packets} packets", file=sys.stderr, flush=True)
            generate(directory, arguments.packets)
        found = rows(directory, counted(directory), arguments.rounds)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for row in found:
        print(f"{row['name']:20}{row['ours']:14,.0f}{row['peer']:12,.0f}{row['ratio']:8.1f}  {row['unit']}")


if __name__ == "__main__":
    main()
