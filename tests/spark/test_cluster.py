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
from typing import Any
from urllib.request import urlopen

import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

import spark_captures as c
from conftest import missing

from castbed.capture import read_captures, read_history
from castbed.history import Kind
from castbed.properties import check
from castbed.registry import load_registry
from castbed_testbed.experiment import load
from castbed_testbed.runner import run_experiment

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


JUDGING = """
import json, sys
from castbed_spark.checks import judge
from castbed_spark.session import start_session
from castbed_spark.store import read_stored, write_tables
from castbed_spark.tables import deliveries_of
import castbed_spark.store as store
settings = {"spark.executor.memory": "600m", "spark.cores.max": "2", "spark.sql.shuffle.partitions": "2"}
spark = start_session(sys.argv[1], settings=settings)
names = ["causal", "agreement"]
verdicts = {row["property"]: row["holds"] for row in judge(spark, sys.argv[2], names).collect()}
direct = deliveries_of(spark, sys.argv[2], ["latency_ns"]).count()
store.are_small = lambda paths: False
write_tables(spark, sys.argv[2], sys.argv[3])
stored = {name: read_stored(spark, sys.argv[3], name).count() for name in ("deliveries", "clocks", "frames")}
print(json.dumps({"verdicts": verdicts, "direct": direct, "stored": stored}))
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


def done_on(job: str, *arguments: str) -> Any:
    """What a program says last, as JSON."""
    ran = run_python(job, *arguments)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


def run_python(job: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    submitted = "--conf spark.executor.memory=600m --conf spark.cores.max=2 pyspark-shell"
    environment = {
        **os.environ, "SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": submitted
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", job, *arguments],
        capture_output=True, text=True, timeout=JOB_SECONDS_MAX, check=False, env=environment,
    )  # fmt: skip


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = {
        "name": "lossy", "seed": 4, "protocol": {"name": "sb"}, "duration": "2s", "drain": "1s",
        "topology": {"kind": "broadcast", "members": 4}, "workload": {"kind": "steady", "rate": 5, "replies": 0.6},
        "faults": {"loss": 0.1},
    }  # fmt: skip
    run = tmp_path_factory.mktemp("lossy") / "run"
    run_experiment(load(data), load_registry(), run)
    return run


def test_a_cluster_judges_and_makes_all_tables(master: str, lossy: Path, tmp_path: Path) -> None:
    result = done_on(JUDGING, master, str(lossy), str(tmp_path / "tables"))
    history = read_history(lossy)
    names = ("causal", "agreement")
    assert result["verdicts"] == {name: not found for name, found in check(history, names).items()}
    delivered = len(history.of(Kind.DELIVER))
    assert (result["direct"], result["stored"]["deliveries"]) == (delivered, delivered)
    assert result["stored"]["clocks"] == 4
    assert result["stored"]["frames"] == sum(1 for one in read_captures(lossy) for _ in one.frames)


def test_a_cluster_makes_a_report(master: str, lossy: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    program = "from castbed_testbed.cli import main; main()"
    made = run_python(program, "report", str(lossy), "--master", master, "--out", str(page), "--json")
    assert made.returncode == 0, made.stderr[-3000:]
    (run,) = json.loads(made.stdout)["document"]["runs"]
    assert run["summary"]["delivered"] == len(read_history(lossy).of(Kind.DELIVER))
    assert page.exists()


def test_a_cluster_reads_captures_with_the_code_that_it_was_sent(master: str, tmp_path: Path) -> None:
    """The executors take Castbed from the zip file, before any that may be installed where they run."""
    for run in ("one", "two"):
        captures = tmp_path / run / "captures"
        captures.mkdir(parents=True)
        (captures / "A.pcapng").write_bytes(c.header() + c.many(20_000))
    result = done_on(JOB, master, str(tmp_path))
    assert sum(count for _, _, count in result["rows"]) == 40_000
    assert all("castbed.zip" in code for _, code, count in result["rows"] if count)
    assert result["deliveries"] == 40_000
