"""The plugin tutorial tells the truth: its Python runs, its experiment is the generated one, its refusals are real."""

from __future__ import annotations

import re
import sys
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path
from types import ModuleType

import pytest

from castbed import ConfigurationError, load_registry
from castbed_testbed.experiment import load_file
from castbed_testbed.new_plugin import write_plugin
from castbed_testbed.plan import make_plan
from castbed_testbed.runner import run_experiment
from installed import run_python, write_metadata

TUTORIAL = Path(__file__).parents[2] / "docs" / "plugin-tutorial.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[int, str]]:
    """The blocks of one language, each with the line that it starts on."""
    text = TUTORIAL.read_text(encoding="utf-8")
    return [(text.count("\n", 0, at.start(2)), at[2]) for at in _BLOCK.finditer(text) if at[1] == language]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The Python blocks, run in order as one module; a failure points at the line of the page."""
    module = ModuleType("tutorial")
    monkeypatch.setitem(sys.modules, "tutorial", module)
    for line, source in blocks("python"):
        exec(compile("\n" * line + source, str(TUTORIAL), "exec"), module.__dict__)
    return module


def test_every_python_block_runs(program: ModuleType) -> None:
    assert len(blocks("python")) == TUTORIAL.read_text(encoding="utf-8").count("```python")
    assert program.PROTOCOL.name == "my-order"


def test_the_protocol_of_the_tutorial_registers(program: ModuleType) -> None:
    registry = load_registry(extra={"my-order": program}, installed=False)
    assert registry.problems == []
    assert registry.protocols.get("my-order", "") is program.PROTOCOL


def test_the_tutorial_uses_the_conformance_test_as_the_fixture_offers_it(program: ModuleType) -> None:
    asked: list[str] = []
    program.test_it_keeps_its_promises(asked.append)
    assert asked == ["my-order"]


def test_the_tables_list_handlers_and_asks_that_exist(program: ModuleType) -> None:
    rows = re.findall(r"^\| (`.*?) \|", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)\(", row)}
    assert len(named) > 15
    assert [name for name in sorted(named) if not callable(getattr(program.Member, name, None))] == []


def test_the_experiment_of_the_tutorial_is_the_generated_one(tmp_path: Path) -> None:
    write_plugin("my-order", tmp_path / "p")
    entry_point, experiment = (source for _, source in blocks("toml"))
    assert experiment == (tmp_path / "p" / "experiment.toml").read_text(encoding="utf-8")
    assert entry_point in (tmp_path / "p" / "pyproject.toml").read_text(encoding="utf-8")


def test_a_loss_is_refused_in_the_words_of_the_tutorial(program: ModuleType, tmp_path: Path) -> None:
    write_plugin("my-order", tmp_path / "p")
    registry = load_registry(extra={"my-order": program})
    loaded = load_file(tmp_path / "p" / "experiment.toml", ["faults.loss=0.1"])
    with pytest.raises(ConfigurationError) as caught:
        make_plan(loaded.experiment, registry)
    assert f"castbed: {caught.value}" in TUTORIAL.read_text(encoding="utf-8").splitlines()


def test_the_verdict_of_the_tutorial_is_that_of_the_run(program: ModuleType, tmp_path: Path) -> None:
    write_plugin("my-order", tmp_path / "p")
    registry = load_registry(extra={"my-order": program})
    outcome = run_experiment(load_file(tmp_path / "p" / "experiment.toml"), registry, tmp_path / "run")
    assert outcome.failures == []
    held = re.findall(r"^✓ (\w+)$", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE)
    assert held == list(outcome.violations)


def test_the_attack_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_metadata(site, "my-order", "1", {"my-order": "my_order"})
    (site / "my_order.py").write_text("\n".join(source for _, source in blocks("python")), encoding="utf-8")
    (shown,) = (source for _, source in blocks("console") if "castbed explore" in source)
    attacks = re.findall(r"^\$ castbed (.*)\n((?:(?!\$).*\n)+)", shown, re.MULTILINE)
    for arguments, documented in attacks:
        ran = run_python(["-m", "castbed", *arguments.split()], site, tmp_path)
        assert OutputChecker().check_output(documented, ran.stdout, ELLIPSIS), ran.stdout + ran.stderr
        assert ran.returncode == ("✗" in documented)
    assert [("bold" in arguments, "✗" in documented) for arguments, documented in attacks] == [(0, 0), (1, 1)]


def test_the_tutorial_attacks_as_the_fixture_offers_it(program: ModuleType) -> None:
    asked: list[str] = []
    program.test_no_schedule_breaks_its_promises(asked.append)
    assert asked == ["my-order"]
