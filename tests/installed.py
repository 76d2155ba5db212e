"""Installs a project the way an installer leaves it, offline: its package, its metadata and its entry points."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import castbed

RUN_SECONDS_MAX = 300


def install(project: Path, site: Path) -> None:
    """Put the distribution of `project` into `site`, a directory for the search path."""
    described = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package in (project / "src").iterdir():
        shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    write_metadata(site, described["name"], described["version"], described["entry-points"]["castbed"])


def write_metadata(site: Path, name: str, version: str, points: dict[str, str]) -> None:
    """What `importlib.metadata` reads of an installed distribution."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = [f"{point} = {target}" for point, target in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[castbed]", *lines, ""]), encoding="utf-8")


def run_python(arguments: Sequence[str], site: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python where the distributions in `site` are installed, and this Castbed with them."""
    rooms = Path(castbed.__file__).parents[2]
    roots = [str(rooms / room) for room in ("framework", "plugins", "testbed", "adapters", "spark")]
    path = os.pathsep.join([str(site), *(root for root in roots if Path(root).is_dir())])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
