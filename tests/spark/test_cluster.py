"""The same on a real standalone master with two workers, started from the installed pyspark, on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

import spark_captures as c
from conftest import missing

LOOPBACK = "127.0.0.1"
START_SECONDS_MAX = 240
JOB_SECONDS_MAX = 400
JOB = """
import json, sys
from castbed_spark.session import start_session
from castbed_spark.source import read_events, read_nodes
from castbed_spark.tables import deliveries
settings = {"spark.executor.memory": "600m", "spark.cores.max": "2", "spark.sql.shuffle.partitions": "2"}
spark = start_session(sys.argv[1], settings=settings)
events = read_events(spark, sys.argv[2], where=[("kind", "=", 7)])
def where(rows):
    import castbed, os
    yield os.getpid(), castbed.__file__, sum(1 for _ in rows)
found = events.select("at").rdd.mapPartitions(where).collect()
table = deliveries(read_events(spark, sys.argv[2]), read_nodes(spark, sys.argv[2])).count()
print(json.dumps({"rows": [list(row) for row in found], "deliveries": table}))
spark.stop()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def spark_class(name: str, *arguments: str, cwd: Path) -> subprocess.Popen[bytes]:
    from castbed_spark.java import java_home

    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    environment = {
        **os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_WORKER_DIR": str(cwd),
        "SPARK_LOCAL_DIRS": str(cwd), "SPARK_DAEMON_JAVA_OPTS": f"-Djava.io.tmpdir={cwd}",
        "SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    program = Path(spec.origin).parent / "bin" / "spark-class"
    return subprocess.Popen(
        [str(program), f"org.apache.spark.deploy.{name}", "--host", LOOPBACK, *arguments],
        cwd=cwd, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def alive_workers(status: str) -> int:
    try:
        with urlopen(status, timeout=5) as answer:
            return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])
    except (OSError, ValueError):
        return 0


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a master that two workers have joined; all three end with the test, by their process groups."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    work, port, status = tmp_path_factory.mktemp("cluster"), free_port(), free_port()
    address = f"spark://{LOOPBACK}:{port}"
    started = [spark_class("master.Master", "--port", str(port), "--webui-port", str(status), cwd=work)]
    try:
        for _ in range(2):
            options = ("--cores", "1", "--memory", "700m", "--webui-port", str(free_port()))
            started.append(spark_class("worker.Worker", *options, address, cwd=work))
        limit = time.monotonic() + START_SECONDS_MAX
        while alive_workers(f"http://{LOOPBACK}:{status}/json/") < 2:
            assert time.monotonic() < limit, "the workers did not join the master"
            time.sleep(0.5)
        yield address
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_cluster_reads_captures_with_the_code_that_it_was_sent(master: str, tmp_path: Path) -> None:
    """The executors take Castbed from the zip file, before any that may be installed where they run."""
    for run in ("one", "two"):
        captures = tmp_path / run / "captures"
        captures.mkdir(parents=True)
        (captures / "A.pcapng").write_bytes(c.header() + c.many(20_000))
    environment = {**os.environ, "SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(
        [sys.executable, "-c", JOB, master, str(tmp_path)],
        capture_output=True, text=True, timeout=JOB_SECONDS_MAX, check=False, env=environment,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    result = json.loads(ran.stdout.splitlines()[-1])
    assert sum(count for _, _, count in result["rows"]) == 40_000
    assert all("castbed.zip" in code for _, code, count in result["rows"] if count)
    assert result["deliveries"] == 40_000
