"""`castbed evaluate`: what it prints and leaves, its exit codes, and how it goes on."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from evaluation_files import SMALL, evaluation_file
from testbed_command import EXAMPLES, castbed

from castbed_testbed.evaluation import writing
from castbed_testbed.evaluation.files import load_evaluation
from castbed_testbed.evaluation.outcomes import OVERLOAD
from castbed_testbed.sweep import check_points
from castbed_testbed.sweep_run import installed

QUICK = ("--seeds", 1, "--jobs", 1, "--out", "out")


def test_the_command_shows_ours_beside_the_papers_and_leaves_files(tmp_path: Path) -> None:
    done = castbed("evaluate", evaluation_file(tmp_path), *QUICK, "--figures", "plots", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "holds  about: plain: " in done.stdout
    assert OVERLOAD in done.stdout
    folder = tmp_path / "out" / "small" / "figures" / "small"
    rows = list(csv.DictReader((folder / "figures.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["series"], float(row["x"]), row["paper"]) for row in rows] == [
        ("slow", 256, ""),
        ("plain", 256, "2.5"),
        ("plain", 2048, "5.0"),
    ]
    assert (folder / "figures.md").read_text(encoding="utf-8").count("|") > 20
    assert (tmp_path / "plots" / "small.svg").read_bytes() == (folder / "small.svg").read_bytes()
    words = " ".join(" ".join(ElementTree.fromstring((folder / "small.svg").read_text()).itertext()).split())
    assert "slow plain paper" in words
    assert f"Hollow: {OVERLOAD}." in words


def test_a_condition_that_fails_is_exit_1(tmp_path: Path) -> None:
    wrong = [{"name": "never", "kind": "within", "series": ["plain"], "at": [256], "low": 50, "high": 60}]
    path = evaluation_file(tmp_path, accept=wrong)
    done = castbed("evaluate", path, *QUICK, "--quick", "--json", cwd=tmp_path)
    assert done.returncode == 1
    (document,) = json.loads(done.stdout)
    assert [(verdict["name"], verdict["holds"]) for verdict in document["accept"]] == [("never", False)]


def test_a_run_that_raises_is_exit_1_and_said(tmp_path: Path) -> None:
    slow, plain = SMALL["series"]
    broken = {**plain, "set": {"workload.senders": ["C1"]}}
    path = evaluation_file(tmp_path, series=[slow, broken], accept=[])
    done = castbed("evaluate", path, *QUICK, "--quick", cwd=tmp_path)
    assert done.returncode == 1
    assert "point 2, seed 1: raises ContractError" in done.stdout


def test_what_is_there_is_not_done_again_and_more_seeds_are_added(tmp_path: Path) -> None:
    path = evaluation_file(tmp_path)
    castbed("evaluate", path, *QUICK, cwd=tmp_path)
    results = tmp_path / "out" / "small" / "results.jsonl"
    first = results.read_text(encoding="utf-8")
    assert len(first.splitlines()) == 3
    again = castbed("evaluate", path, *QUICK, cwd=tmp_path)
    assert results.read_text(encoding="utf-8") == first
    assert again.returncode == 0
    more = castbed("evaluate", path, "--seeds", 2, "--jobs", 1, "--out", "out", cwd=tmp_path)
    assert "3 of 6 runs are there, 3 are left" in more.stderr
    assert results.read_text(encoding="utf-8").startswith(first)
    assert len(results.read_text(encoding="utf-8").splitlines()) == 6


def test_a_wrong_key_is_exit_2_with_its_file(tmp_path: Path) -> None:
    path = evaluation_file(tmp_path, plot=[])
    done = castbed("evaluate", path, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{path}: plot: unknown key (did you mean 'plots'?)" in done.stderr


def test_a_folder_without_evaluations_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert castbed("evaluate", "empty", cwd=tmp_path).returncode == 2


def test_tables_are_put_into_a_page_between_its_comments(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- evaluation: small -->\nwhat was there\n<!-- end of evaluation -->\nafter\n", encoding="utf-8"
    )
    castbed("evaluate", evaluation_file(tmp_path), *QUICK, "--quick", "--page", page, cwd=tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- evaluation: small -->\n\n### A small one")
    assert text.endswith("<!-- end of evaluation -->\nafter\n")
    assert "what was there" not in text


def test_without_pyarrow_the_command_says_how_to_get_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(writing, "import_module", missing)
    done = castbed("evaluate", evaluation_file(tmp_path), *QUICK, "--quick", cwd=tmp_path)
    assert writing.PARQUET_NEEDS in done.stdout
    assert not list(tmp_path.rglob("*.parquet"))


def test_parquet_holds_the_rows_of_the_csv_file(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    castbed("evaluate", evaluation_file(tmp_path), *QUICK, "--quick", cwd=tmp_path)
    (path,) = tmp_path.rglob("*.parquet")
    rows = parquet.read_table(path).to_pylist()
    assert [(row["series"], row["x"]) for row in rows] == [("slow", 256.0), ("plain", 256.0)]


@pytest.mark.parametrize("path", sorted((EXAMPLES / "evaluations").glob("*.toml")), ids=lambda path: path.stem)
@pytest.mark.parametrize("quick", [True, False])
def test_every_evaluation_that_is_shipped_can_be_planned(path: Path, quick: bool) -> None:
    evaluation = load_evaluation(path, quick=quick)
    check_points(evaluation.sweep, installed())
    assert evaluation.written.tables
    assert evaluation.written.plots


def test_a_file_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    done = castbed("evaluate", "nowhere.toml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "castbed: nowhere.toml: cannot be read (No such file or directory)\n")
