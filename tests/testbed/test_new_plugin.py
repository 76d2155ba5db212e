"""A new plugin is a whole project that works at once, or nothing at all."""

from __future__ import annotations

import ast
import json
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from castbed import ConfigurationError
from castbed_testbed import new_plugin
from castbed_testbed.new_plugin import NAME_CHARACTERS_MAX, write_plugin
from installed import install, run_python

LONGEST = "an-order-" + "x" * (NAME_CHARACTERS_MAX - 9)
RUN_IT = """
import json
from pathlib import Path
from castbed import load_registry
from castbed_testbed.experiment import load_file
from castbed_testbed.runner import run_experiment
outcome = run_experiment(load_file(Path("experiment.toml")), load_registry(), Path("run"))
print(json.dumps({"failures": outcome.failures, **outcome.summary}))
"""


def test_a_project_is_complete(tmp_path: Path) -> None:
    written = write_plugin("my-order", tmp_path / "my-order")
    assert {str(path.relative_to(tmp_path / "my-order")) for path in written} == {
        "pyproject.toml",
        "src/my_order/__init__.py",
        "src/my_order/py.typed",
        "tests/test_my_order.py",
        "experiment.toml",
        "tox.ini",
        "README.md",
        ".gitignore",
    }
    assert all(path.is_file() for path in written)
    assert stat.S_IMODE((tmp_path / "my-order").stat().st_mode) == 0o755


def test_the_project_names_its_package_and_its_entry_point(tmp_path: Path) -> None:
    write_plugin("my-order", tmp_path / "p")
    project = tomllib.loads((tmp_path / "p" / "pyproject.toml").read_text())["project"]
    assert project["name"] == "my-order"
    assert "castbed" in project["dependencies"]
    assert project["entry-points"]["castbed"] == {"my-order": "my_order"}


def test_no_placeholder_is_left(tmp_path: Path) -> None:
    assert [path for path in write_plugin("my-order", tmp_path / "p") if "{{" in path.read_text()] == []


@pytest.mark.parametrize("name", ["my-order", "x", LONGEST])
def test_the_tests_of_a_new_plugin_pass_at_once(tmp_path: Path, name: str) -> None:
    write_plugin(name, tmp_path / "p")
    install(tmp_path / "p", tmp_path / "site")
    ran = run_python(["-m", "pytest", "-q"], tmp_path / "site", tmp_path / "p")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_example_experiment_runs_and_keeps_every_promise(tmp_path: Path) -> None:
    write_plugin("my-order", tmp_path / "p")
    install(tmp_path / "p", tmp_path / "site")
    ran = run_python(["-c", RUN_IT], tmp_path / "site", tmp_path / "p")
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert summary["failures"] == []
    assert summary["delivered"] == summary["expected"] > 0
    assert summary["faults"]["reordering"] > 0
    assert set(summary["properties"]) == {"integrity", "no_duplication", "agreement", "validity", "fifo"}


@pytest.mark.parametrize("name", ["my-order", "x", LONGEST])
@pytest.mark.parametrize("command", [("ruff", "check"), ("ruff", "format", "--check"), ("mypy",)], ids=" ".join)
def test_a_new_plugin_is_clean(tmp_path: Path, name: str, command: tuple[str, ...]) -> None:
    """Where the tools are installed; continuous integration has them."""
    beside_python = Path(sys.executable).with_name(command[0])
    tool = str(beside_python) if beside_python.exists() else shutil.which(command[0])
    if tool is None:
        pytest.skip(f"{command[0]} is not installed")
    write_plugin(name, tmp_path / "p")
    arguments = [tool, *command[1:], "src", "tests"]
    ran = subprocess.run(arguments, cwd=tmp_path / "p", capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_templates_are_all_used() -> None:
    there = {path.name for path in (Path(new_plugin.__file__).parent / "templates" / "plugin").iterdir()}
    assert there == set(new_plugin._FILES)


def test_the_template_imports_nothing_but_castbed() -> None:
    source = (Path(new_plugin.__file__).parent / "templates" / "plugin" / "init.py.in").read_text()
    imported = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert imported == {"__future__", "typing", "castbed", "castbed.registry"}


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["", "My-Order", "my_order", "1st", "-order", "order-", "my--order", "a b", "../x", "ordnung-ü", LONGEST + "x"],
)
def test_a_name_that_breaks_the_rule_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a plugin: use up to") as caught:
        write_plugin(name, tmp_path / "p")
    assert caught.value.path == "NAME"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["class", "json", "castbed", "castbed-plugins"])
def test_a_name_that_python_knows_already_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="Python would import another"):
        write_plugin(name, tmp_path / "p")


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(ConfigurationError, match="is not empty") as caught:
        write_plugin("my-order", tmp_path)
    assert caught.value.path == str(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    write_plugin("my-order", tmp_path / "p")
    assert (tmp_path / "p" / "pyproject.toml").is_file()


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("a file")
    with pytest.raises(ConfigurationError, match="this is a file"):
        write_plugin("my-order", tmp_path / "p")


def test_a_place_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no directory to put it in"):
        write_plugin("my-order", tmp_path / "nowhere" / "p")


def test_nothing_is_left_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    write_text = Path.write_text

    def fills_up(path: Path, text: str, encoding: str | None = None) -> int:
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        written.append(path)
        return write_text(path, text, encoding)

    monkeypatch.setattr(Path, "write_text", fills_up)
    with pytest.raises(ConfigurationError, match="No space left on device"):
        write_plugin("my-order", tmp_path / "p")
    assert len(written) == 3
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_when_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_plugin("my-order", tmp_path / "p")
    assert list(tmp_path.iterdir()) == []
