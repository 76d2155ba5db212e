"""Distributions from outside this repository work where they are installed, and break nothing where they are broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from installed import install, run_python

HERE = Path(__file__).parent
LIST_PLUGINS = """
import json
from castbed import load_registry
registry = load_registry()
print(json.dumps({
    "lamport": registry.protocols.distribution_of("lamport"),
    "memberships": sorted(registry.memberships.names()),
    "problems": [[p.plugin, p.distribution, p.problem] for p in registry.problems if p.distribution != "castbed"],
}))
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory in which both distributions are installed."""
    for name in ("castbed-lamport", "castbed-broken"):
        install(HERE / name, tmp_path / "site")
    return tmp_path / "site"


def test_a_broken_plugin_is_reported_and_the_others_work(site: Path, tmp_path: Path) -> None:
    ran = run_python(["-c", LIST_PLUGINS], site, tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["lamport"] == "castbed-lamport"
    assert "static" in found["memberships"]
    problem = "ImportError: castbed-broken needs a library that is not there"
    assert found["problems"] == [["broken", "castbed-broken", problem]]


def test_the_tests_of_the_lamport_distribution_pass_where_it_is_installed(site: Path, tmp_path: Path) -> None:
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "castbed-lamport")]
    ran = run_python(arguments, site, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
