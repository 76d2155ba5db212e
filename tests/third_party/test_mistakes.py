"""Every classic mistake that an installed plugin can make is found by exploration, soon; its correct form survives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from castbed import load_registry
from castbed_testbed.attack import attack, script_text
from castbed_testbed.explore.corpus import what_changed
from castbed_testbed.explore.script import parse
from installed import install, run_python

PROJECT = Path(__file__).parent / "castbed-mistakes"
STEPS_MAX = 12
SECONDS_MAX = 10  # for one process, with the shrinking
SCHEDULES = 5_000  # a second for two processes; the slowest mistake takes 2600 with the worst of ten seeds
MISTAKES = {
    ("example-fifo", "fifo-assumed"): {"fifo"},
    ("example-causal", "clock-not-merged"): {"causal"},
    ("example-resend", "delivered-before-dedup"): {"no_duplication", "exactly_once"},
    ("example-resend", "ack-counted-twice"): {"agreement", "exactly_once", "liveness"},
    ("example-restart", "number-reused"): {"integrity", "no_duplication"},
    ("example-handoff", "timer-left-running"): {"no_duplication", "exactly_once"},
    ("example-views", "view-before-messages"): {"sending_view_delivery", "same_view_delivery", "virtual_synchrony"},
}
EXAMPLES = sorted({protocol for protocol, _ in MISTAKES})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the distribution is installed."""
    site = tmp_path_factory.mktemp("installed") / "site"
    install(PROJECT, site)
    return site


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The distribution is installed for this process, too."""
    monkeypatch.syspath_prepend(str(site))


def castbed(site: Path, cwd: Path, *arguments: object) -> tuple[int, dict[str, Any]]:
    """The exit code and the document that the command prints."""
    ran = run_python(["-m", "castbed", *map(str, arguments), "--json"], site, cwd)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("protocol", "variant"), MISTAKES, ids=lambda name: name)
def test_a_planted_mistake_is_found_and_its_scripts_play(tmp_path: Path, protocol: str, variant: str) -> None:
    registry = load_registry()
    report = attack(registry, protocol, variant, SCHEDULES)
    found = report.findings
    assert found
    assert report.wall_s < SECONDS_MAX
    assert {finding.property for finding in found} <= MISTAKES[protocol, variant]
    assert max(len(finding.script.steps) for finding in found) <= STEPS_MAX
    for number, finding in enumerate(found):
        path = tmp_path / f"{number}.steps"
        path.write_text(script_text(finding), encoding="utf-8")
        assert what_changed(path, registry) == ""


def test_the_command_finds_a_mistake_of_an_installed_plugin(site: Path, tmp_path: Path) -> None:
    arguments = ("example-handoff", "--variant", "timer-left-running", "--budget", 500, "--out", "scripts")
    code, found = castbed(site, tmp_path, "explore", *arguments)
    assert code == 1
    assert {violation["property"] for violation in found["violations"]} == {"no_duplication", "exactly_once"}
    first = found["violations"][0]
    assert first["steps"] <= STEPS_MAX
    assert first["needs"][0] == "needs a handoff"
    code, played = castbed(site, tmp_path, "run", first["script"])
    assert (code, played["as_expected"]) == (1, True)
    assert played["properties"][first["property"]]["holds"] is False


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("protocol", EXAMPLES)
def test_the_correct_form_conforms_and_survives(
    protocol: str, castbed_conform: Callable[..., None], castbed_explore: Callable[..., None]
) -> None:
    castbed_conform(protocol, runs=5)
    castbed_explore(protocol, schedules=800)


@pytest.mark.long
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("protocol", EXAMPLES)
def test_the_correct_form_survives_many_schedules(protocol: str, castbed_explore: Callable[..., None]) -> None:
    castbed_explore(protocol, schedules=20_000)


def test_the_readme_lists_every_mistake() -> None:
    rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \|", (PROJECT / "README.md").read_text(), re.MULTILINE)
    assert rows == list(MISTAKES)


# --- the kit and the fixture -----------------------------------------------------------------------------------------


def test_a_mistake_that_random_runs_miss_does_not_conform(site: Path, tmp_path: Path) -> None:
    arguments = ("conform", "example-causal", "--variant", "clock-not-merged", "--runs", 1)
    assert castbed(site, tmp_path, *arguments, "--explore", 0)[0] == 0
    code, report = castbed(site, tmp_path, *arguments)
    assert (code, report["conforms"]) == (1, False)
    assert re.fullmatch(r"a schedule of \d+ steps violates causal", *report["failures"])
    assert "causal/wrong-order" in parse(report["script"]).expects


def test_the_kit_leaves_a_script_that_plays(site: Path, tmp_path: Path) -> None:
    arguments = ["-m", "castbed", "conform", "example-causal", "--variant", "clock-not-merged", "--runs", "1"]
    told = run_python(arguments, site, tmp_path)
    assert told.returncode == 1, told.stderr
    assert "then everything settles" in told.stdout
    command = told.stdout.splitlines()[-1].partition("castbed run ")[2]
    code, played = castbed(site, tmp_path, "run", command)
    assert (code, played["as_expected"]) == (1, True)


@pytest.mark.usefixtures("installed")
def test_the_fixture_passes_and_fails_with_the_script(castbed_explore: Callable[..., None]) -> None:
    castbed_explore("example-resend", schedules=100)
    with pytest.raises(pytest.fail.Exception) as raised:
        castbed_explore("example-resend", "delivered-before-dedup", schedules=100)
    script = parse(str(raised.value))
    assert "no_duplication/repeated" in script.expects
    assert 0 < len(script.steps) <= STEPS_MAX
