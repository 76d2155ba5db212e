"""`castbed sweep --master`: the same results as the local pool leaves, from a local session and from a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

from conftest import missing
from test_cluster import JOB_SECONDS_MAX, LOOPBACK, master

from castbed.errors import CastbedError, UnavailableError
from castbed_spark.executing import results_on
from interruptions import heed_interruptions

__all__ = ["master"]

INTERRUPTED = 130

SWEEP = """
name = "small"
seeds = 2
[experiment]
name = "small"
protocol = { name = "sb" }
membership = { name = "static" }
transport = { name = "sim" }
duration = "1s"
[experiment.topology]
kind = "broadcast"
members = 3
[experiment.workload]
kind = "steady"
rate = 5
[grid]
faults.loss = [0.1, 0.2]
"""


def sweep(folder: Path, out: str, *options: str, memory: str = "600m") -> subprocess.Popen[str]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    (folder / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    environment = {
        **os.environ, "SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--conf spark.executor.memory={memory} --conf spark.cores.max=2 pyspark-shell",
    }  # fmt: skip
    program = "from castbed_testbed.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, "sweep", "sweep.toml", "--out", out, "--json", *options],
        cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=heed_interruptions,
    )  # fmt: skip


def swept(folder: Path, out: str, *options: str) -> subprocess.CompletedProcess[str]:
    with sweep(folder, out, *options) as process:
        said = process.communicate(timeout=JOB_SECONDS_MAX)
        return subprocess.CompletedProcess(process.args, process.returncode, *said)


def results(folder: Path) -> list[dict[str, Any]]:
    """The lines in the order of points and seeds, without what a clock said."""
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    untimed = ({key: value for key, value in line.items() if key != "wall_s"} for line in lines)
    return sorted(untimed, key=lambda line: (line["number"], line["seed"]))


def test_a_local_session_leaves_what_the_pool_leaves_and_goes_on_where_it_was(tmp_path: Path) -> None:
    assert swept(tmp_path, "pool", "--jobs", "1").returncode == 0
    first = swept(tmp_path, "spark", "--master", "local[2]")
    assert first.returncode == 0, first.stderr[-3000:]
    assert json.loads(first.stdout)["runs"] == 4
    assert results(tmp_path / "spark") == results(tmp_path / "pool")
    lines = (tmp_path / "spark" / "results.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "spark" / "results.jsonl").write_text("".join(lines[:3]), encoding="utf-8")
    again = swept(tmp_path, "spark", "--master", "local[1]")
    assert "3 of 4 runs are there, 1 are left" in again.stderr
    assert results(tmp_path / "spark") == results(tmp_path / "pool")


def test_a_cluster_leaves_what_the_pool_leaves(master: str, tmp_path: Path) -> None:
    assert swept(tmp_path, "pool", "--jobs", "1").returncode == 0
    ran = swept(tmp_path, "cluster", "--master", master)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert results(tmp_path / "cluster") == results(tmp_path / "pool")


def test_a_cluster_that_gives_nothing_is_said_to_do_so(master: str, tmp_path: Path) -> None:
    """Its workers have less memory than an executor asks for, so Spark waits for ever."""
    with sweep(tmp_path, "cluster", "--master", master, memory="9000g") as process:
        assert process.stderr is not None
        said = next((line for line in process.stderr if "has given no executor yet" in line), "")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=JOB_SECONDS_MAX)
    assert said.startswith(master)
    assert process.returncode == INTERRUPTED


def test_a_task_that_takes_its_process_with_it_ends_in_one_sentence(spark: Any) -> None:
    def dies(task: int) -> int:
        os._exit(task)

    with pytest.raises(CastbedError, match="an executor died"):
        list(results_on("local[2]", dies, [9]))
    assert spark.range(3).count() == 3


def test_what_a_task_raises_is_quoted(spark: Any) -> None:
    def refuses(task: int) -> int:
        raise ValueError(f"task {task} is not to my taste")

    with pytest.raises(CastbedError, match="a task raised ValueError: task 9 is not to my taste; the same command"):
        list(results_on("local[2]", refuses, [9]))
    assert spark.range(3).count() == 3


def test_jobs_of_others_in_the_session_go_on_when_the_sweep_ends(spark: Any) -> None:
    def slow(rows: Any) -> Any:
        time.sleep(5)
        return rows

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(lambda: spark.sparkContext.parallelize([1, 2], 1).mapPartitions(slow).collect())
        arriving = results_on("local[2]", abs, [-1, -2, -3, -4], 1)
        assert next(arriving) == 1
        assert not other.done()
        arriving.close()
        assert other.result() == [1, 2]


def test_where_spark_is_missing_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castbed_spark.session.NEEDED", ("no_such_package",))
    for name in ("py4j", "py4j.protocol", "pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnavailableError, match=r"pip install 'castbed\[spark\]'"):
        next(results_on("local[1]", abs, [-1]))


def test_results_arrive_while_others_are_under_way(spark: Any) -> None:
    """A session that was there stays, and closing early leaves the rest undone."""
    arriving = results_on("local[2]", abs, [-1, -2, -3, -4], 1)
    assert next(arriving) == 1
    arriving.close()
    assert sorted(results_on("local[2]", abs, [-5, -6])) == [5, 6]
    assert spark.range(3).count() == 3
