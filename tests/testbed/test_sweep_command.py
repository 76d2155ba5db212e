"""`castbed sweep`: what it leaves and prints, how it is stopped, and how it goes on."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from testbed_command import LOSSY, SECONDS_MAX, captures, castbed, castbed_process, document, environment, experiment

from castbed import load_registry
from castbed_testbed.cli import sweeping
from castbed_testbed.sweep import check_points, load_sweep
from installed import write_metadata
from interruptions import heed_interruptions

GRID = {"faults": {"loss": [0.1, 0.3]}}
LONG = {**LOSSY, "duration": "20s", "workload": {"kind": "steady", "rate": 10}}
LONG_SEEDS = 8
LONG_RUNS = 2 * LONG_SEEDS
MOODY = """
import os
import msgspec
from castbed import Group, Machine, Message, Mid, Packet, Protocol, Variant, hookimpl, on

class Said(Packet, frozen=True, tag=1):
    group: Group
    mid: Mid
    payload: bytes

class Options(msgspec.Struct, frozen=True):
    mood: str = "calm"

class Moody(Machine):
    def submitted(self, message):
        mood = self.options.mood
        if mood == "raises":
            raise ValueError("not today")
        if mood == "exits":
            raise SystemExit(3)
        if mood == "dies":
            os._exit(9)
        accepted = self.accept(message)
        self.broadcast(Said(accepted.group, accepted.mid, accepted.payload))

    @on(Said)
    def heard(self, packet, sender):
        if self.options.mood != "mute":
            self.deliver(Message(packet.mid, packet.group, packet.payload))

NEEDS = frozenset({"air", "own_copy", "reliable_air"})

@hookimpl
def castbed_protocols(register):
    variants = {"plain": Variant({"member": Moody}, NEEDS, ("validity",))}
    register.add(Protocol("moody", "Has moods", "broadcast", (Said,), variants, options=Options))
"""


def sweep_file(folder: Path, **keys: Any) -> Path:
    path, data = folder / "sweep.toml", {"name": "s", "experiment": LOSSY, "seeds": 3, "grid": GRID, **keys}
    path.write_text(tomli_w.dumps(data), encoding="utf-8")
    return path


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "results.jsonl").read_bytes().splitlines()]


def timeless(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In the order of runs, without what differs from time to time."""
    kept = [{key: value for key, value in result.items() if key != "wall_s"} for result in results]
    return sorted(kept, key=lambda result: (result["number"], result["seed"]))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("finished")
    return folder / "out", castbed("sweep", sweep_file(folder), "--out", "out", "--jobs", 2, cwd=folder)


@pytest.fixture
def moody(tmp_path: Path) -> str:
    """Where a third party's distribution is installed."""
    site = tmp_path / "site"
    write_metadata(site, "castbed-moody", "1.0", {"moody": "castbed_moody"})
    (site / "castbed_moody.py").write_text(MOODY, encoding="utf-8")
    return str(site)


def moods(folder: Path, *chosen: str) -> Path:
    plain = {key: value for key, value in LOSSY.items() if key != "faults"}
    inline = {**plain, "protocol": {"name": "moody"}}
    return sweep_file(folder, experiment=inline, grid={"protocol.options.mood": list(chosen)}, seeds=2)


# --- what it leaves and prints ---------------------------------------------------------------------------------------


def test_a_sweep_leaves_a_line_per_run_and_a_table(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    directory, done = finished
    assert done.returncode == 0, done.stderr
    results = lines(directory)
    assert {(result["number"], result["seed"]) for result in results} == {(n, s) for n in (1, 2) for s in (1, 2, 3)}
    assert all(result["point"] == {"faults.loss": (0.1, 0.3)[result["number"] - 1]} for result in results)
    with (directory / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["number"], row["seed"]) for row in rows] == [(n, s) for n in "12" for s in "123"]
    assert [row["point.faults.loss"] for row in rows] == ["0.1"] * 3 + ["0.3"] * 3
    first = next(result for result in results if (result["number"], result["seed"]) == (1, 1))
    assert float(rows[0]["latency_ms.p99"]) == first["latency_ms"]["p99"]
    assert int(rows[0]["faults.loss"]) == first["faults"]["loss"] > 0
    assert float(rows[0]["control_bytes.mean"]) == first["control_bytes"]["mean"] > 0
    assert (rows[0]["violations.semantic"], rows[0]["vacuous"], rows[0]["error"]) == ("0", "", "")


def test_the_table_has_a_row_per_point(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    printed = [line.split() for line in finished[1].stdout.splitlines()]
    assert printed[1][:4] == ["point", "faults.loss", "runs", "properties"]
    assert [row[:5] for row in printed[2:4]] == [["1", "0.1", "3", "all", "hold"], ["2", "0.3", "3", "all", "hold"]]
    assert finished[1].stderr == ""


def test_away_from_a_terminal_progress_is_a_line_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "LINE_EVERY_S", 0.0)
    done = castbed("sweep", sweep_file(tmp_path, seeds=1), cwd=tmp_path)
    assert done.stderr == "s: 0 of 2 runs\ns: 1 of 2 runs\ns: 2 of 2 runs\n"


def test_the_resolved_sweep_and_a_manifest_are_kept(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    directory, _ = finished
    assert load_sweep(directory / "sweep.toml").runs == 6
    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["sweep"], manifest["points"], manifest["seeds"]) == ("s", 2, 3)


def test_one_job_and_two_jobs_and_single_runs_agree(
    finished: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    assert castbed("sweep", sweep_file(tmp_path), "--jobs", 1, cwd=tmp_path).returncode == 0
    alone = timeless(lines(tmp_path / "castbed-runs" / "sweep-s"))
    assert alone == timeless(lines(finished[0]))
    single = document(
        castbed("run", experiment(tmp_path), "--seed", 3, "--set", "faults.loss=0.3", "--json", cwd=tmp_path)
    )
    for key in ("wall_s", "directory"):
        del single[key]
    assert alone[-1] == {"number": 2, "point": {"faults.loss": 0.3}, **single}


def test_with_captures_each_run_has_a_directory(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, captures=True, seeds=[3])
    done = castbed("sweep", path, "--out", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [(point["runs"], point["failed"]) for point in document(done)["points"]] == [(1, 0), (1, 0)]
    castbed("run", experiment(tmp_path), "--seed", 3, "--set", "faults.loss=0.3", "--out", "single", cwd=tmp_path)
    assert captures(tmp_path / "out" / "runs" / "2-3") == captures(tmp_path / "single") != {}
    assert castbed("check", "out/runs/1-3", cwd=tmp_path).returncode == 0


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_runs_that_raise_or_violate_fail_the_sweep_and_stop_no_other(tmp_path: Path, moody: str) -> None:
    path = moods(tmp_path, "raises", "calm", "exits", "mute")
    done = castbed_process("sweep", path, "--out", "out", "--json", cwd=tmp_path, PYTHONPATH=moody)
    assert done.returncode == 1, done.stderr
    raising, calm, exiting, mute = document(done)["points"]
    assert [point["errors"] for point in (raising, calm, exiting, mute)] == [2, 0, 2, 0]
    assert [point["failed"] for point in (raising, calm, exiting, mute)] == [2, 0, 2, 2]
    assert (calm["violations"], mute["violated"]) == ({}, {"validity": 2})
    assert calm["delivered"] == calm["expected"] > 0
    assert lines(tmp_path / "out")[0]["error"] == "raises ValueError (not today)"
    again = castbed_process("sweep", path, "--out", "out", cwd=tmp_path, PYTHONPATH=moody)
    assert again.returncode == 1
    assert "validity: " in again.stdout
    assert "point 1, seed 1: raises ValueError (not today)" in again.stdout


def test_a_worker_that_dies_ends_the_sweep_in_one_sentence(tmp_path: Path, moody: str) -> None:
    done = castbed_process("sweep", moods(tmp_path, "dies"), "--out", "out", cwd=tmp_path, PYTHONPATH=moody)
    assert done.returncode == 1
    assert done.stderr == "castbed: a worker process died, perhaps for want of memory; the same command continues\n"


def test_a_mistake_in_one_point_shows_before_the_first_run(tmp_path: Path) -> None:
    done = castbed("sweep", sweep_file(tmp_path, grid={"faults.loss": [0.1, 2]}), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("castbed: grid.faults.loss: ")
    assert "(point 2: faults.loss = 2)" in done.stderr
    assert not (tmp_path / "castbed-runs").exists()


def test_another_sweep_in_the_directory_is_refused_unless_fresh(tmp_path: Path) -> None:
    castbed("sweep", sweep_file(tmp_path, seeds=1), "--out", "out", cwd=tmp_path)
    changed = sweep_file(tmp_path, seeds=2)
    before = lines(tmp_path / "out")
    refused = castbed("sweep", changed, "--out", "out", cwd=tmp_path)
    assert refused.returncode == 2
    assert "choose another directory with --out, or begin anew with --fresh" in refused.stderr
    assert lines(tmp_path / "out") == before
    assert castbed("sweep", changed, "--out", "out", "--fresh", cwd=tmp_path).returncode == 0
    assert len(lines(tmp_path / "out")) == 4


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    path = sweep_file(tmp_path)
    castbed("run", experiment(tmp_path), "--out", "run", cwd=tmp_path)
    for out in (".", "run"):
        there = sorted((tmp_path / out).iterdir())
        for extra in ((), ("--fresh",)):
            done = castbed("sweep", path, "--out", out, *extra, cwd=tmp_path)
            assert (done.returncode, "exists and is not a sweep" in done.stderr) == (2, True)
        assert sorted((tmp_path / out).iterdir()) == there


def test_a_run_does_not_replace_a_sweep(tmp_path: Path) -> None:
    castbed("sweep", sweep_file(tmp_path, seeds=1), "--out", "out", cwd=tmp_path)
    done = castbed("run", experiment(tmp_path), "--out", "out", cwd=tmp_path)
    assert (done.returncode, "exists and is not a run" in done.stderr) == (2, True)
    assert len(lines(tmp_path / "out")) == 2


def test_two_sweeps_do_not_share_a_directory(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, seeds=1)
    castbed("sweep", path, "--out", "out", cwd=tmp_path)
    with (tmp_path / "out" / "results.jsonl").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = castbed("sweep", path, "--out", "out", "--fresh", cwd=tmp_path)
    assert (done.returncode, "another sweep is at work here" in done.stderr) == (2, True)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, seeds=1)
    castbed("sweep", path, "--out", "out", cwd=tmp_path)
    results = tmp_path / "out" / "results.jsonl"
    results.write_bytes(b"{}\n" + results.read_bytes())
    done = castbed("sweep", path, "--out", "out", cwd=tmp_path)
    assert (done.returncode, "line 1 is no result" in done.stderr) == (2, True)


# --- stopping and going on -------------------------------------------------------------------------------------------


def stopped(folder: Path, sign: signal.Signals) -> tuple[int, str, bytes]:
    """Start a long sweep and stop it after some results: its exit code, its stderr, and what it left."""
    path = sweep_file(folder, experiment=LONG, seeds=LONG_SEEDS)
    command = [sys.executable, "-m", "castbed", "sweep", str(path), "--out", "out", "--jobs", "2"]
    marked, pipe = environment(SWEPT_IN=str(folder)), subprocess.PIPE
    heed = heed_interruptions
    with subprocess.Popen(
        command, cwd=folder, env=marked, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed
    ) as process:
        try:
            wait_until(lambda: file_lines(folder) >= 3)
            process.send_signal(sign)
            _, said = process.communicate(timeout=SECONDS_MAX)
        finally:
            process.kill()
    return process.returncode, said, (folder / "out" / "results.jsonl").read_bytes()


def file_lines(folder: Path) -> int:
    path = folder / "out" / "results.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_until(condition: Any) -> None:
    until = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.02)


def alive(folder: Path) -> list[str]:
    """The processes of the sweep in `folder`, workers and all."""
    mark = f"SWEPT_IN={folder}".encode()
    return [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if mark in environ(path).split(b"\0")]


def environ(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile, or is somebody else's
        return b""


def went_on(folder: Path, before: bytes) -> subprocess.CompletedProcess[str]:
    """Give the same command again; what was there has stayed, and every run is there once."""
    done = castbed("sweep", folder / "sweep.toml", "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "out" / "results.jsonl").read_bytes().startswith(before)
    done_once = sorted((result["number"], result["seed"]) for result in lines(folder / "out"))
    assert done_once == [(number, seed) for number in (1, 2) for seed in range(1, LONG_SEEDS + 1)]
    return done


def test_an_interrupted_sweep_keeps_its_results_and_goes_on(tmp_path: Path) -> None:
    code, said, left = stopped(tmp_path, signal.SIGINT)
    count = left.count(b"\n")
    assert code == 130
    assert said == f"s: {count} of {LONG_RUNS} runs are done; the same command continues\ncastbed: interrupted\n"
    assert left.endswith(b"\n")
    wait_until(lambda: alive(tmp_path) == [])
    assert not (tmp_path / "out" / "results.csv").exists()
    there = f"s: {count} of {LONG_RUNS} runs are there, {LONG_RUNS - count} are left\n"
    assert went_on(tmp_path, left).stderr.startswith(there)


def test_a_killed_sweep_goes_on_and_does_half_a_line_again(tmp_path: Path) -> None:
    code, _, left = stopped(tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    wait_until(lambda: alive(tmp_path) == [])
    whole = left[: left.rindex(b"\n") + 1]
    *_, last = whole.splitlines()
    half = whole[: -len(last) // 2]
    (tmp_path / "out" / "results.jsonl").write_bytes(half)
    went_on(tmp_path, half[: half.rindex(b"\n") + 1])


def test_a_finished_sweep_runs_nothing_again(finished: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    directory, done = finished
    before = os.stat(directory / "results.jsonl").st_mtime_ns
    again = castbed("sweep", directory / "sweep.toml", "--out", directory, cwd=directory.parent)
    assert (again.returncode, again.stdout.replace(str(directory), "out")) == (0, done.stdout)
    assert os.stat(directory / "results.jsonl").st_mtime_ns == before


def test_the_example_is_small_and_planned() -> None:
    made = load_sweep(Path(__file__).parents[2] / "examples" / "sweeps" / "sb-loss.toml")
    check_points(made, load_registry())
    assert made.runs <= 50
