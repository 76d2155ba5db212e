#!/usr/bin/env python3
"""Properties over histories that grow: how time and memory grow with them.

    python benchmarks/spark_checks.py [--deliveries N] [--memory 2g] [--json]

The same run, once with a quarter of the deliveries and once with all, is judged for `causal`, `total` and
`exactly_once` on a local session. Where cost is linear, the rates are equal; where memory is bounded, so are the peaks.
`worker` is the largest Python process, `jvm` the Java process, whose heap is limited by --memory. The default is 1
million; a run of 10 million deliveries is what the checks are made for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from castbed.history import Kind

DELIVERIES = 1_000_000
NODES = 10
SHARE = 4
WARM_UP = 10_000  # judged first and not counted
PLACE = 16
PROPERTIES = ("causal", "total", "exactly_once")
SAMPLE_SECONDS = 0.2
MEGABYTE = 1 << 20


def history(spark: Any, deliveries: int) -> dict[str, Any]:
    """Ten members that broadcast in turn; every message is delivered by all, in one order, half a step later."""
    from pyspark.sql import functions as F

    from castbed_spark.checks.lanes import EVENT_COLUMNS
    from castbed_spark.schemas import EVENTS

    types = {column.name: column.type for column in EVENTS}
    everybody = F.explode(F.sequence(F.lit(1), F.lit(NODES))).alias("node")
    messages = spark.range(deliveries // NODES).withColumn("origin", F.col("id") % NODES + 1)
    submitted = messages.withColumn("node", F.col("origin")).withColumn("step", F.lit(0))
    delivered = messages.select("id", "origin", everybody).withColumn("step", F.lit(1))
    steps = submitted.unionByName(delivered).select(
        "node", (F.col("id") * 2 + F.col("step") + NODES).alias("moment"), "origin",
        F.when(F.col("step") == 0, int(Kind.SUBMIT)).otherwise(int(Kind.DELIVER)).alias("kind"),
        (F.floor(F.col("id") / NODES) + 1).alias("seqno"),
    )  # fmt: skip
    starts = spark.range(1).select(everybody, F.explode(F.array(F.lit(1), F.lit(11))).alias("kind"))
    beginning = starts.withColumn("moment", F.when(F.col("kind") == int(Kind.START), 0).otherwise(1))
    said = {"run": F.lit("bench"), "place": F.col("moment") * PLACE, "at": F.col("moment") * 1000, "group": F.lit(1)}
    said |= {"incarnation": F.when(F.col("origin").isNotNull(), 0)} | dict.fromkeys(
        ("number", "size", "digest"), F.lit(0)
    )
    both = steps.unionByName(beginning, allowMissingColumns=True).withColumns(said)
    missing = [name for name in EVENT_COLUMNS if name not in both.columns]
    whole = both.withColumns({name: F.lit(None) for name in missing})
    events = whole.select(*(F.col(name).cast(types[name]).alias(name) for name in EVENT_COLUMNS))
    return {"events": events, "nodes": _nodes(spark)}


def _nodes(spark: Any) -> Any:
    from castbed_spark.schemas import NODES as COLUMNS
    from castbed_spark.schemas import ddl

    names = [f"n{number}" for number in range(1, NODES + 1)]
    rows = [
        ("bench", number, name, "member", "bench", 1, "bench", "repaired", "sim", "broadcast", [], names, "")
        for number, name in enumerate(names, start=1)
    ]
    return spark.createDataFrame(rows, ddl(COLUMNS))


# --- memory ----------------------------------------------------------------------------------------------------------


@contextmanager
def watched() -> Iterator[dict[str, int]]:
    """The peaks of resident memory among the processes that descend from this one."""
    peaks = {"worker": 0, "jvm": 0}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(SAMPLE_SECONDS):
            for name, size in _descendants():
                kind = "jvm" if name.startswith("java") else "worker"
                peaks[kind] = max(peaks[kind], size)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def _descendants() -> Iterator[tuple[str, int]]:
    """Name and resident bytes of each."""
    parents: dict[int, tuple[int, str, int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = entry.read_text().rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        name = head.partition("(")[2]
        parents[int(entry.parent.name)] = int(fields[1]), name, int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    mine = {os.getpid()}
    for _ in parents:
        grown = mine | {process for process, (parent, _, _) in parents.items() if parent in mine}
        if grown == mine:
            break
        mine = grown
    yield from ((name, size) for process, (_, name, size) in parents.items() if process in mine - {os.getpid()})


# --- measuring -------------------------------------------------------------------------------------------------------


def measured(spark: Any, deliveries: int) -> Iterator[dict[str, Any]]:
    from castbed_spark.checks import judge

    for name in PROPERTIES:
        tables = history(spark, deliveries)
        start = time.perf_counter()
        with watched() as peaks:
            (row,) = judge(spark, tables, [name]).collect()
        assert row["holds"], row["witness"]
        seconds = time.perf_counter() - start
        found = {
            "name": name,
            "deliveries": deliveries,
            "seconds": round(seconds, 1),
            "rate": round(deliveries / seconds),
        }
        yield found | {f"{process}_mb": size // MEGABYTE for process, size in peaks.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deliveries", type=int, default=DELIVERIES)
    parser.add_argument("--memory", default="2g", help="the heap of the Java process")
    parser.add_argument("--json", action="store_true", help="print rows as one JSON document")
    arguments = parser.parse_args()
    from castbed_spark.session import start_session

    spark = start_session(settings={"spark.driver.memory": arguments.memory})
    found = []
    list(measured(spark, WARM_UP))
    for deliveries in (arguments.deliveries // SHARE, arguments.deliveries):
        for row in measured(spark, deliveries):
            print(row, file=sys.stderr, flush=True)
            found.append(row)
    spark.stop()
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for row in found:
        memory = f"worker {row['worker_mb']:6,} MB   jvm {row['jvm_mb']:6,} MB"
        print(f"{row['name']:14}{row['deliveries']:12,}{row['seconds']:9} s {row['rate']:10,}/s   {memory}")


if __name__ == "__main__":
    main()
