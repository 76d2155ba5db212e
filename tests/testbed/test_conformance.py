"""The conformance kit finds what is wrong with a protocol and says it in words; a sound protocol passes."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
import testbed_faulty
from testbed_command import castbed_process, document

from castbed import ConfigurationError, load_registry
from castbed_testbed import elsewhere
from castbed_testbed.conformance import ConformanceReport, conform, random_experiment, run_trial
from castbed_testbed.disturbance import disturbed, state_of
from castbed_testbed.plan import make_plan
from installed import write_metadata

REGISTRY = load_registry(extra={"faulty": testbed_faulty})
RUNS = 12


def judged(name: str) -> ConformanceReport:
    return conform(REGISTRY, name, runs=RUNS)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A directory where the faulty protocols are installed as a third party's distribution."""
    site = tmp_path / "site"
    write_metadata(site, "castbed-faulty", "1", {"faulty": "testbed_faulty"})
    shutil.copy(Path(testbed_faulty.__file__), site)
    return site


def test_a_sound_protocol_conforms() -> None:
    report = judged("sound")
    assert (report.failures, report.failed_trial, report.trials) == ([], None, RUNS)
    assert report.deliveries > 100


def test_a_protocol_that_delivers_twice_is_caught() -> None:
    report = judged("twice")
    assert report.failures == ["seed 1 violates no_duplication"]
    assert report.failed_trial is not None
    assert report.failed_trial.violations["no_duplication"][0].words == "n1 delivered n1.1 again."


def test_a_protocol_that_forgets_to_order_is_caught() -> None:
    report = judged("hasty")
    assert [failure.partition(" violates ")[2] for failure in report.failures] == ["semantic"]
    assert report.trials > 1
    assert report.failed_trial is not None
    assert report.failed_trial.violations["semantic"][0].words


def test_a_failed_trial_fails_again() -> None:
    report = judged("hasty")
    assert report.failed_trial is not None
    again = run_trial(REGISTRY, report.failed_trial.loaded)
    assert again.failed == ["semantic"]
    assert again.history.events == report.failed_trial.history.events


def test_a_protocol_that_remembers_other_runs_is_caught() -> None:
    (failure,) = judged("moody").failures
    assert failure.startswith("not deterministic: two runs with seed 1 part at event ")


def test_a_protocol_that_depends_on_the_order_of_a_set_is_caught(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed))
    (failure,) = judged("hashing").failures
    assert failure.startswith("not deterministic: the run with seed 1 differs in another process")


def test_a_sound_protocol_does_the_same_in_another_process(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = random_experiment(REGISTRY.protocols.get("sound", ""), "only", 1)
    assert elsewhere.fingerprint_elsewhere(loaded) is None
    monkeypatch.setenv("PYTHONPATH", str(installed))
    events = run_trial(REGISTRY, loaded).history.events
    assert elsewhere.fingerprint_elsewhere(loaded) == elsewhere.fingerprint(events)


def test_a_protocol_that_stumbles_over_a_malformed_packet_is_caught() -> None:
    failures = judged("trusting").failures
    assert failures
    assert all(failure.startswith("Trusting raised KeyError") for failure in failures)


def test_a_protocol_that_changes_before_it_blames_its_peer_is_caught() -> None:
    failures = judged("rash").failures
    assert failures
    assert all(failure.startswith("Rash changed although it blamed Received(Said") for failure in failures)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("echoing", "Echoing asked for what cannot be (there is no node "),
        ("counting", "Counting asked for what cannot be (GAUGE of node "),
        ("greeting", "Greeting asked for what cannot be (Said holds a number that fits no frame"),
    ],
)
def test_a_protocol_that_asks_for_what_cannot_be_because_a_peer_said_so_is_caught(name: str, problem: str) -> None:
    failures = judged(name).failures
    assert failures
    assert all(failure.startswith(problem) for failure in failures)


@pytest.mark.parametrize("variant", ["published", "repaired"])
@pytest.mark.parametrize("name", ["sb", "m2mc", "eomp", "relm"])
def test_malformed_frames_disturb_no_protocol_that_ships(name: str, variant: str) -> None:
    """Whatever the variant guarantees: a published one may fail to conform before it comes to this."""
    loaded = random_experiment(REGISTRY.protocols.get(name, ""), variant, 1)
    assert disturbed(REGISTRY, loaded) == []


def test_a_protocol_that_breaks_down_is_caught_with_its_experiment() -> None:
    report = judged("fragile")
    assert report.failures == ["seed 1 raises RuntimeError (64 bytes are too many)"]
    assert report.failed_trial is not None
    assert report.failed_trial.loaded.experiment.seed == 1


def test_a_protocol_that_does_nothing_is_caught() -> None:
    (failure,) = judged("silent").failures
    assert failure.startswith("no trial delivered anything")


def test_an_unknown_protocol_is_answered_with_the_installed_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"there is no protocol 'nothing' \(installed: .*sound"):
        judged("nothing")


def test_an_unknown_variant_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"--variant: sound has no variant 'better' \(it has: only\)"):
        conform(REGISTRY, "sound", "better")


@pytest.mark.parametrize(("name", "variant"), [("sb", "repaired"), ("sb", "published"), ("m2mc", "repaired")])
def test_trials_take_away_only_what_a_variant_does_not_need(name: str, variant: str) -> None:
    protocol = REGISTRY.protocols.get(name, "")
    asked: set[str] = set()
    for seed in range(40):
        plan = make_plan(random_experiment(protocol, variant, seed).experiment, REGISTRY)
        asked.update(plan.experiment.faults.asked_for())
    spared = "reliable_air" in protocol.variants[variant].needs
    assert ("loss" in asked) is not spared
    assert ("random_partitions" in asked) is not spared


def test_the_state_of_a_machine_is_seen_in_full() -> None:
    class Base:
        __slots__ = ("inner", "unset")

        def __init__(self, inner: object) -> None:
            self.inner = inner

    class Helper(Base):
        __slots__ = ()

    assert state_of({"a": [Helper({1, 2})]}) == state_of({"a": [Helper({2, 1})]})
    assert state_of({"a": [Helper({1, 2})]}) != state_of({"a": [Helper({1, 3})]})


def test_things_that_know_each_other_have_a_state() -> None:
    class Knot:
        def __init__(self) -> None:
            self.other: object = self
            self.size = 1

    one, other = Knot(), Knot()
    assert state_of(one) == state_of(other)
    other.size = 2
    assert state_of(one) != state_of(other)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_leaves_an_experiment_that_repeats_the_violation(tmp_path: Path, installed: Path) -> None:
    path = str(installed)
    done = castbed_process("conform", "hasty", "--runs", RUNS, cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 1
    assert "✗ hasty (only) does not conform" in done.stdout
    assert "violates semantic" in done.stdout
    (written,) = tmp_path.glob("conform-hasty-*.toml")
    assert f"repeat it with: castbed run {written.name}" in done.stdout
    assert tomllib.loads(written.read_text())["protocol"] == {"name": "hasty", "variant": "only"}
    repeated = castbed_process("run", written, "--json", cwd=tmp_path, PYTHONPATH=path)
    assert repeated.returncode == 1
    assert document(repeated)["properties"]["semantic"]["holds"] is False


def test_the_command_says_that_a_sound_protocol_conforms(tmp_path: Path, installed: Path) -> None:
    arguments = ("conform", "sound", "--runs", 3, "--json")
    done = castbed_process(*arguments, cwd=tmp_path, PYTHONPATH=str(installed))
    assert done.returncode == 0
    assert document(done)["conforms"] is True
    assert document(done)["trials"] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_the_fixture_for_plugin_authors_passes_and_fails_with_the_experiment(
    castbed_conform: object, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(castbed_conform)
    castbed_conform("sb", "published", runs=2)
    monkeypatch.syspath_prepend(str(installed))
    with pytest.raises(pytest.fail.Exception, match="violates no_duplication") as raised:
        castbed_conform("twice", runs=2)
    assert 'name = "conform-twice"' in str(raised.value)
