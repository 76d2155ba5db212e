"""The key of an experiment: read from where it says, used for frames, never written anywhere."""

from __future__ import annotations

from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from castbed import ConfigurationError, load_registry
from castbed.authentication import SEAL_BYTES, SealedCodec
from castbed.capture import read_captures, sent_headers
from castbed.wire import SEALED
from castbed_testbed.experiment import load, load_file
from castbed_testbed.keys import KeySource, read_key
from castbed_testbed.plan import make_plan
from castbed_testbed.runner import run_experiment

REGISTRY = load_registry()
KEY = "0123456789abcdef-a-secret"
PLAIN: dict[str, Any] = {
    "name": "sealed",
    "protocol": {"name": "sb"},
    "transport": {"name": "sim", "options": {"decode": True}},
    "duration": "2s",
    "drain": "3s",
    "topology": {"kind": "broadcast", "members": 3},
    "workload": {"kind": "steady", "rate": 5},
}
TOML = """
name = "sealed"
protocol = { name = "sb" }
duration = "2s"
key = { file = "the.key" }
topology = { members = 3 }
workload = { kind = "steady", rate = 5 }
"""


@pytest.fixture(autouse=True)
def _key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASTBED_TEST_KEY", KEY)


def sealed(**more: Any) -> dict[str, Any]:
    return PLAIN | {"key": {"env": "CASTBED_TEST_KEY"}} | more


def test_a_key_comes_from_the_environment_or_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "the.key").write_text(KEY + "\n")
    assert read_key(KeySource(env="CASTBED_TEST_KEY")).key == KEY.encode()
    assert read_key(KeySource(file=str(tmp_path / "the.key"))).key == KEY.encode()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (KeySource(), "key: name either a file or an environment variable"),
        (KeySource(file="a", env="b"), "key: name either"),
        (KeySource(env="CASTBED_NO_SUCH_KEY"), "key.env: the environment has no variable 'CASTBED_NO_SUCH_KEY'"),
        (KeySource(file="/nowhere/the.key"), "key.file: /nowhere/the.key cannot be read"),
        (KeySource(file="/dev/zero"), "key.file: /dev/zero is longer than a key"),
        (KeySource(file="/dev/null"), "key.file: the key there is too short"),
    ],
)
def test_every_reason_for_having_no_key_is_said(source: KeySource, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_key(source)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "key",
    [
        "MDEyMzQ1Njc4OWFiY2RlZg==",
        "deadbeef" * 4,
        "DEADBEEF" * 4,
        "correct horse battery",
        "x_Y" * 8,
        "A_" * 33,
        "",
        "a\0b",
    ],
)
def test_what_may_be_a_key_in_the_place_of_a_name_is_not_repeated(key: str) -> None:
    with pytest.raises(ConfigurationError, match="has no variable of the name that stands there") as caught:
        read_key(KeySource(env=key))
    assert not key or key not in str(caught.value)


def test_a_key_written_into_the_experiment_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(PLAIN | {"key": KEY})
    assert str(caught.value).startswith("key: ")
    assert KEY not in str(caught.value)


def test_simulated_frames_are_sealed_and_runs_hold_what_they_promise(tmp_path: Path) -> None:
    outcome = run_experiment(load(sealed()), REGISTRY, tmp_path / "sealed")
    plain = run_experiment(load(PLAIN), REGISTRY, tmp_path / "plain")
    assert outcome.failures == plain.failures == []
    captures = read_captures(tmp_path / "sealed")
    assert all(header.flags & SEALED for capture in captures for header in sent_headers(capture))
    frame = next(iter(captures[0].frames)).data
    assert len(frame) == len(next(iter(read_captures(tmp_path / "plain")[0].frames)).data) + SEAL_BYTES


def test_equal_runs_with_a_key_leave_equal_captures(tmp_path: Path) -> None:
    for name in ("one", "other"):
        run_experiment(load(sealed()), REGISTRY, tmp_path / name)
    one, other = ([c.path.read_bytes() for c in read_captures(tmp_path / name)] for name in ("one", "other"))
    assert one == other


def test_no_file_of_a_run_holds_the_key(tmp_path: Path) -> None:
    (tmp_path / "the.key").write_text(KEY)
    (tmp_path / "x.toml").write_text(TOML)
    loaded = load_file(tmp_path / "x.toml")
    run_experiment(loaded, REGISTRY, tmp_path / "run")
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) >= 5
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    again = load_file(tmp_path / "run" / "experiment.toml")
    assert again.data["key"] == {"file": str(tmp_path / "the.key")}
    assert KEY not in repr(make_plan(again.experiment, REGISTRY))


def test_nodes_on_real_networks_seal_with_the_key_and_the_run() -> None:
    plan, later = (make_plan(load(sealed()).experiment, REGISTRY) for _ in range(2))
    assert isinstance(plan.codec(0, monotonic_ns), SealedCodec)
    assert not isinstance(make_plan(load(PLAIN).experiment, REGISTRY).codec(0, monotonic_ns), SealedCodec)
    assert plan.secret is not None
    assert later.secret is not None
    assert plan.secret.run != later.secret.run
