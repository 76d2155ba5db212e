"""The `castbed` command: its exit codes, what it prints where, what it leaves behind and what it leaves alone."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from testbed_command import (
    EXAMPLES,
    LOSSY,
    castbed,
    castbed_process,
    document,
    experiment,
    python,
)

from castbed import UnavailableError
from castbed_testbed.cli import doctor
from castbed_testbed.sim import runner as simulator
from installed import install, write_metadata

SUMMARY: dict[str, Any] = {
    "run": str, "protocol": str, "variant": str, "transport": str, "seed": int, "submitted": int, "delivered": int,
    "expected": int, "duplicates": int, "held_at_end": int, "properties": dict, "latency_ms": dict,
    "control_bytes": dict, "frames": int, "events": int, "virtual_s": float, "wall_s": float, "faults": dict,
}  # fmt: skip
VACUOUS = {"crashes": [{"node": "A", "at": "1h"}]}
BROKEN = Path(__file__).parents[1] / "third_party" / "castbed-broken"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory that tests only read."""
    folder = tmp_path_factory.mktemp("finished")
    done = castbed("run", experiment(folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "castbed-runs" / "lossy-3"


# --- run -------------------------------------------------------------------------------------------------------------


def test_a_run_tells_its_figures_and_exits_with_0(tmp_path: Path) -> None:
    done = castbed_process("run", EXAMPLES / "two-questions.toml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "two-questions: sb (repaired) on sim, seed 7" in done.stdout
    assert "4 messages submitted, 16 delivered (16 deliveries owed)" in done.stdout
    assert "✓ semantic" in done.stdout
    assert "Left in castbed-runs/two-questions-7" in done.stdout


def test_a_run_leaves_its_directory(finished: Path) -> None:
    names = {str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file()}
    assert names == {
        "experiment.toml",
        "manifest.json",
        "summary.json",
        "captures/A.pcapng",
        "captures/B.pcapng",
        "captures/C.pcapng",
    }
    manifest = json.loads((finished / "manifest.json").read_text())
    assert (manifest["castbed"], manifest["seed"], manifest["variant"]) == (version("castbed"), 3, "repaired")
    assert tomllib.loads((finished / "experiment.toml").read_text()) == LOSSY


def test_latest_points_at_the_newest_run(tmp_path: Path) -> None:
    path = experiment(tmp_path)
    for seed in (8, 9):
        assert castbed("run", path, "--seed", seed, cwd=tmp_path).returncode == 0
        link = tmp_path / "castbed-runs" / "latest"
        assert link.is_symlink()
        assert link.resolve() == tmp_path / "castbed-runs" / f"lossy-{seed}"
    assert {entry.name for entry in link.parent.iterdir()} == {"lossy-8", "lossy-9", "latest"}


def test_the_json_of_a_run_is_one_document_with_every_promised_key(tmp_path: Path) -> None:
    done = castbed("run", experiment(tmp_path), "--json", "--out", "there", cwd=tmp_path)
    printed = document(done)
    assert {key: type(printed.get(key)) for key in SUMMARY} == SUMMARY
    assert set(printed["latency_ms"]) == {"mean", "p50", "p99"}
    assert set(printed["control_bytes"]) == {"mean", "max"}
    assert all(set(found) == {"holds", "violations"} for found in printed["properties"].values())
    assert printed["faults"]["loss"] > 0
    assert printed["delivered"] == printed["expected"] == 3 * printed["submitted"] > 0
    kept = json.loads((tmp_path / "there" / "summary.json").read_text())
    assert printed == kept | {"directory": "there"}


def test_overrides_and_seed_reach_the_run(tmp_path: Path) -> None:
    arguments = ("--set", "faults.loss=0", "--set", "duration=1s", "--seed", 12, "--json", "--out", "there")
    printed = document(castbed("run", experiment(tmp_path), *arguments, cwd=tmp_path))
    assert (printed["seed"], printed["faults"], printed["virtual_s"]) == (12, {}, 6.0)
    kept = tomllib.loads((tmp_path / "there" / "experiment.toml").read_text())
    assert (kept["seed"], kept["duration"]) == (12, "1s")


def test_a_run_without_captures_leaves_nothing_and_counts_the_same(tmp_path: Path, finished: Path) -> None:
    done = castbed("run", experiment(tmp_path), "--no-captures", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.toml"]
    kept = json.loads((finished / "summary.json").read_text())
    for key in ("submitted", "delivered", "frames", "events", "faults"):
        assert document(done)[key] == kept[key]
    assert document(done)["properties"] == {}


def test_a_run_of_the_same_name_replaces_the_earlier_one(tmp_path: Path) -> None:
    path = experiment(tmp_path)
    assert castbed("run", path, "--out", "there", cwd=tmp_path).returncode == 0
    (tmp_path / "there" / "captures" / "old.pcapng").write_bytes(b"old")
    assert castbed("run", path, "--out", "there", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "there" / "captures" / "old.pcapng").exists()


def test_a_fault_that_never_took_effect_fails_the_run(tmp_path: Path) -> None:
    path = experiment(tmp_path, faults=VACUOUS)
    done = castbed("run", path, cwd=tmp_path)
    assert done.returncode == 1
    assert "the fault crashes was asked for and never took effect" in done.stdout
    assert castbed("run", path, "--no-captures", cwd=tmp_path).returncode == 1


def test_a_violated_property_fails_the_run_and_leaves_a_picture(tmp_path: Path) -> None:
    path = experiment(tmp_path, faults={"loss": 0.9}, drain="0s")
    done = castbed("run", path, "--out", "there", cwd=tmp_path)
    assert done.returncode == 1
    assert re.search(r"✗ liveness: \d+ violations, for example", done.stdout)
    assert "submitted" in done.stdout.partition("✗ liveness")[2]
    assert (tmp_path / "there" / "witnesses" / "liveness-1.svg").read_text().startswith("<svg")


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"colour": 1}, "castbed: colour: unknown key"),
        ({"protocol": {"name": "none"}}, "castbed: protocol.name: there is no protocol 'none' (installed: "),
        ({"workload": {"kind": "steady", "senders": ["Z"]}}, "castbed: workload.senders: there is no node 'Z'"),
        ({"duration": 10}, "castbed: duration: expected a duration"),
    ],
)
def test_a_wrong_experiment_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    done = castbed("run", experiment(tmp_path, **changes), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.toml"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("run",),
        ("run", "no-such-file.toml"),
        ("fly",),
        ("run", "experiment.toml", "--set", "nonsense"),
        ("run", "experiment.toml", "--seed", "-5"),
        ("run", "experiment.toml", "--seed", "five"),
        ("rerun", "."),
        ("check", "."),
        ("check", "no-such-directory"),
        ("conform", "no-such-protocol"),
        ("check", "run", "--property", "beauty"),
    ],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, finished: Path, arguments: tuple[str, ...]) -> None:
    experiment(tmp_path)
    (tmp_path / "run").symlink_to(finished)
    done = castbed(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("out", ["file", "file/run"])
def test_a_file_in_the_way_of_the_run_is_refused(tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("precious")
    done = castbed("run", experiment(tmp_path), "--out", out, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"castbed: {out}: cannot be written")
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("name", ["notes.txt", "manifest.json"])
def test_a_directory_that_is_no_run_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / name).write_text('{"precious": true}')
    done = castbed("run", experiment(tmp_path), "--out", "there", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("castbed: there: exists and is not a run")
    assert [path.name for path in (tmp_path / "there").iterdir()] == [name]
    assert (tmp_path / "there" / name).read_text() == '{"precious": true}'


def test_an_empty_directory_may_become_a_run(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert castbed("run", experiment(tmp_path), "--out", "there", cwd=tmp_path).returncode == 0


# --- plugins, imports, colour ----------------------------------------------------------------------------------------


def test_a_broken_plugin_breaks_neither_the_list_nor_a_run(tmp_path: Path) -> None:
    site = tmp_path / "site"
    if BROKEN.is_dir():
        install(BROKEN, site)
    write_metadata(site, "castbed-missing", "1", {"missing": "no_such_module_anywhere"})
    listed = document(castbed_process("plugins", "--json", cwd=tmp_path, PYTHONPATH=str(site)))
    assert "castbed-missing" in {error["distribution"] for error in listed["errors"]}
    assert {"sb", "m2mc"} <= {protocol["name"] for protocol in listed["protocols"]}
    done = castbed_process("plugins", cwd=tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 0
    assert "the plugin missing (from castbed-missing) cannot be used" in done.stdout
    assert castbed_process("run", experiment(tmp_path), cwd=tmp_path, PYTHONPATH=str(site)).returncode == 0


def test_the_list_of_plugins_has_the_promised_keys(tmp_path: Path) -> None:
    listed = document(castbed("plugins", "--json", cwd=tmp_path))
    assert {"protocols", "memberships", "transports", "checks", "applications", "errors"} <= set(listed)
    promised = {"name", "paper", "model", "guarantees", "variants", "distribution"}
    assert all(promised <= set(protocol) for protocol in listed["protocols"])
    assert "sim" in {transport["name"] for transport in listed["transports"]}


HEAVY = ("scapy", "pyspark", "hypothesis", "pytest", "textual", "castbed_testbed.sim.simulation")


def test_importing_the_framework_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        f"import sys, castbed; print([m for m in {(*HEAVY, 'rich', 'typer', 'castbed_testbed')} if m in sys.modules])"
    )
    assert python("-c", code, cwd=tmp_path).stdout.strip() == "[]"


def test_the_help_imports_neither_the_simulator_nor_anything_heavy(tmp_path: Path) -> None:
    code = f"""
import sys
from castbed_testbed.cli import main
sys.argv = ["castbed", "--help"]
try:
    main()
finally:
    print([m for m in {(*HEAVY, "castbed_plugins", "castbed_testbed.runner")} if m in sys.modules])
"""
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "[]"
    assert "rerun" in done.stdout


def test_nothing_is_coloured_away_from_a_terminal_or_where_it_is_unwanted(tmp_path: Path) -> None:
    path = experiment(tmp_path)
    assert "\x1b" not in castbed_process("run", path, cwd=tmp_path).stdout
    assert "\x1b[32m" in castbed_process("run", path, cwd=tmp_path, FORCE_COLOR="1", TERM="xterm").stdout
    unwanted = castbed_process("run", path, cwd=tmp_path, FORCE_COLOR="1", TERM="xterm", NO_COLOR="1").stdout
    assert not re.search("\x1b\\[[0-9;]*3[0-9]m", unwanted)


def test_the_version_is_printed(tmp_path: Path) -> None:
    assert castbed("--version", cwd=tmp_path).stdout == f"castbed {version('castbed')}\n"


def test_a_healthy_machine_is_called_healthy(tmp_path: Path) -> None:
    done = castbed("doctor", "--json", cwd=tmp_path)
    found = {finding["what"]: finding["found"] for finding in document(done)["findings"]}
    assert (done.returncode, document(done)["healthy"]) == (0, True)
    assert found["msgspec"]


def test_a_machine_that_lacks_something_is_exit_code_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_package", lambda name: doctor.Finding(name, name != "pluggy", "missing"))
    done = castbed("doctor", cwd=tmp_path)
    assert done.returncode == 3
    assert "✗ pluggy: missing" in done.stdout

    def lacking(*_: object, **__: object) -> None:
        raise UnavailableError("no radio here; plug one in")

    monkeypatch.setattr(simulator, "run", lacking)
    done = castbed("run", experiment(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "castbed: no radio here; plug one in\n")
