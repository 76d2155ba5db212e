"""Every mistake in an experiment is refused before anything runs, in a sentence that begins with the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from testbed_support import cells, changed, planned, post, probe, refusal, say, script

from castbed import ConfigurationError
from castbed_testbed.delays import Delay
from castbed_testbed.experiment import Loaded, load, load_file

HOUR = "100000000000h"
CRASH = {"node": "A", "at": "1ms"}
SPAN = {"start": "1ms", "end": "2ms"}
UNIFORM = {"kind": "uniform", "low": "0ms", "high": "1ms"}


def test_the_experiments_that_the_mistakes_are_made_in_are_right() -> None:
    for data in (probe(), post(), cells()):
        assert planned(data).topology.nodes


# --- keys and types --------------------------------------------------------------------------------------------------

UNKNOWN_KEYS = (
    "colour",
    "protocol.colour",
    "protocol.options.colour",
    "membership.colour",
    "membership.options.colour",
    "transport.options.colour",
    "topology.colour",
    "topology.air.colour",
    "topology.wire.colour",
    "faults.colour",
    "workload.colour",
)


@pytest.mark.parametrize("path", UNKNOWN_KEYS)
def test_an_unknown_key_is_named(path: str) -> None:
    data = probe(workload={"kind": "steady"}, membership={"name": "static"}, transport={"name": "sim"})
    assert refusal(changed(path, 1, data)).startswith(f"{path}: unknown key (known: ")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("faults.los", "loss"),
        ("topology.air.rat", "rate"),
        ("workload.size_", "size"),
        ("protocl", "protocol"),
    ],
)
def test_a_key_that_is_nearly_right_is_suggested(path: str, meant: str) -> None:
    data = probe(workload={"kind": "steady"})
    assert refusal(changed(path, 1, data)) == f"{path}: unknown key (did you mean {meant!r}?)"


@pytest.mark.parametrize(
    "kind", ["cuts", "partitions", "crashes", "restarts", "absences", "handoffs", "joins", "leaves"]
)
def test_an_unknown_key_in_a_listed_fault_is_named_with_its_place(kind: str) -> None:
    whole: dict[str, dict[str, Any]] = {
        "cuts": {"source": "A", "target": "B", **SPAN},
        "partitions": {"sides": [["A"], ["B"]], **SPAN},
        "crashes": CRASH,
        "restarts": CRASH,
        "absences": {"node": "A", **SPAN},
        "handoffs": {"host": "A", "at": "1ms"},
        "joins": CRASH,
        "leaves": CRASH,
    }
    data = probe(faults={kind: [whole[kind], {**whole[kind], "colour": 1}]})
    assert refusal(data).startswith(f"faults.{kind}[1].colour: unknown key (known: ")


def test_an_unknown_key_in_a_line_of_a_script_is_named_with_its_place() -> None:
    data = probe(workload=script(say("A", "1ms"), say("A", "2ms", colour=1)))
    assert refusal(data).startswith("workload.lines[1].colour: unknown key (known: ")


@pytest.mark.parametrize("key", ["name", "protocol", "topology", "duration"])
def test_a_missing_key_is_named(key: str) -> None:
    data = probe()
    del data[key]
    assert refusal(data) == f"{key}: this key is required"


WRONG = (
    ("name", 7),
    ("name", ""),
    ("name", "a/b"),
    ("name", ".."),
    ("name", "x" * 200),
    ("seed", "seven"),
    ("seed", -1),
    ("seed", 1 << 63),
    ("seed", True),
    ("duration", 10),
    ("duration", "10"),
    ("duration", "10 parsecs"),
    ("duration", "-1s"),
    ("duration", "0s"),
    ("duration", HOUR),
    ("drain", 1.5),
    ("drain", HOUR),
    ("protocol", "probe"),
    ("protocol.name", 3),
    ("protocol.options.patience", 10),
    ("topology.kind", "ring"),
    ("topology.members", 0),
    ("topology.members", -3),
    ("topology.members", True),
    ("topology.members", 1 << 30),
    ("topology.members", []),
    ("topology.air.rate", 1000),
    ("topology.air.rate", "fast"),
    ("topology.air.rate", "0bit/s"),
    ("topology.wire.rate", "0bit/s"),
    ("topology.air.delay", 5),
    ("topology.air.delay", {"kind": "normal"}),
    ("topology.air.delay", {"kind": ["uniform"]}),
    ("topology.air.delay", {"kind": "uniform", "low": "5ms", "high": "1ms"}),
    ("topology.air.delay", {"kind": "uniform", "low": "5ms"}),
    ("topology.air.delay", {"kind": "exponential"}),
    ("topology.air.delay", {"kind": "exponential", "low": "5ms", "mean": "1ms"}),
    ("topology.air.delay", {"kind": "fixed"}),
    ("topology.air.delay", {"kind": "uniform", "high": "1ms", "mean": "1ms"}),
    ("topology.wire.fifo", "yes"),
    ("faults.loss", 1.5),
    ("faults.loss", -0.1),
    ("faults.loss", float("nan")),
    ("faults.duplication", "often"),
    ("faults.reordering.probability", 2),
    ("faults.random_crashes.count", 0),
    ("faults.random_absences.count", 100_000),
)


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_a_wrong_value_is_refused_with_its_key(path: str, value: object) -> None:
    filled = probe(
        faults={
            "reordering": {"probability": 0.1, "delay": "1ms"},
            "random_crashes": {"count": 1, "down": "1ms"},
            "random_absences": {"count": 1, "length": "1ms"},
        }
    )
    assert refusal(changed(path, value, filled)).startswith(f"{path}: ")


STEADY = (
    ("rate", 0),
    ("rate", float("nan")),
    ("rate", "2/s"),
    ("size", 64),
    ("size", "64 miles"),
    ("senders", ["Z"]),
    ("senders", 0),
    ("arrivals", "sometimes"),
    ("replies", 1.1),
    ("start", 5),
    ("count", -1),
)


@pytest.mark.parametrize(("key", "value"), STEADY)
def test_a_wrong_value_of_a_steady_workload_is_refused_with_its_key(key: str, value: object) -> None:
    assert refusal(probe(workload={"kind": "steady", key: value})).startswith(f"workload.{key}: ")


def test_a_workload_needs_its_kind() -> None:
    assert refusal(probe(workload={"rate": 1})) == "workload.kind: this key is required"


# --- topologies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topology", "path"),
    [
        ({"kind": "broadcast"}, "topology.members"),
        ({"kind": "sites"}, "topology.sites"),
        ({"kind": "cellular", "hosts": 3}, "topology.stations"),
        ({"kind": "cellular", "stations": 3}, "topology.hosts"),
        ({"kind": "three_tier", "stations": 3, "hosts": 2}, "topology.coordinators"),
        ({"kind": "three_tier", "coordinators": {"C": []}, "hosts": 2}, "topology.coordinators"),
        ({"kind": "three_tier", "coordinators": {"C": ["S"]}, "stations": 1, "hosts": 2}, "topology.stations"),
        ({"kind": "broadcast", "members": 2, "stations": 1}, "topology.stations"),
        ({"kind": "cellular", "members": 2, "stations": 1, "hosts": 1}, "topology.members"),
        ({"kind": "sites", "sites": 2, "hosts": 1}, "topology.hosts"),
        ({"kind": "cellular", "stations": 1, "hosts": {"h": "S9"}}, "topology.hosts.h"),
        ({"kind": "broadcast", "members": ["A", "B", "A"]}, "topology"),
        ({"kind": "cellular", "stations": ["A"], "hosts": ["A"]}, "topology"),
        ({"kind": "broadcast", "members": ["../A", "B"]}, "topology"),
        ({"kind": "broadcast", "members": ["", "B"]}, "topology"),
        ({"kind": "broadcast", "members": ["A", "B"], "groups": {"1": ["A", "Z"]}}, "topology.groups.1"),
        ({"kind": "broadcast", "members": ["A", "B"], "groups": {"1": ["A", "A"]}}, "topology.groups.1"),
        ({"kind": "broadcast", "members": ["A", "B"], "groups": {"friends": ["A"]}}, "topology.groups.friends"),
        ({"kind": "broadcast", "members": ["A", "B"], "groups": {"²": ["A"]}}, "topology.groups.²"),
        ({"kind": "broadcast", "members": ["A", "B"], "groups": {"0": ["A"]}}, "topology.groups.0"),
        ({"kind": "broadcast", "members": ["A", "B"], "groups": {"1": ["A"], "01": ["B"]}}, "topology.groups.01"),
    ],
)
def test_an_impossible_topology_is_refused_with_its_key(topology: dict[str, Any], path: str) -> None:
    assert refusal(probe(topology=topology)).startswith(f"{path}: ")


def test_hosts_are_dealt_out_evenly() -> None:
    topology = planned(cells(topology={"kind": "cellular", "stations": 2, "hosts": 3})).topology
    assert [topology.name(topology.attached[topology.number(host)]) for host in ("h1", "h2", "h3")] == [
        "S1",
        "S2",
        "S1",
    ]


# --- files -----------------------------------------------------------------------------------------------------------


def written(path: Path, data: dict[str, Any]) -> Path:
    path.write_text(tomli_w.dumps(data), encoding="utf-8")
    return path


def overridden(tmp_path: Path, *overrides: str, seed: int | None = None) -> Loaded:
    return load_file(written(tmp_path / "e.toml", probe()), overrides, seed)


def test_overrides_take_toml_values_and_plain_words(tmp_path: Path) -> None:
    overrides = ("duration=5s", "faults.loss=0.25", "topology.members=['X', 'Y']", "protocol.variant='greeter'")
    experiment = overridden(tmp_path, *overrides).experiment
    assert experiment.duration == 5 * 10**9
    assert experiment.faults.loss == 0.25
    assert experiment.topology.members == ["X", "Y"]
    assert experiment.protocol.variant == "greeter"


def test_the_last_of_two_overrides_counts(tmp_path: Path) -> None:
    assert overridden(tmp_path, "seed=3", "seed=4").experiment.seed == 4
    assert overridden(tmp_path, "seed=3", seed=5).experiment.seed == 5


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("duration", "--set: expected key=value"),
        ("=5", "--set: expected key=value"),
        ("name.first=5", "--set: 'name.first': 'name' is not a table"),
        ("colour=red", "colour: unknown key"),
        ("faults.loss=always", "faults.loss: expected `float`"),
    ],
)
def test_a_wrong_override_is_refused(tmp_path: Path, override: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        overridden(tmp_path, override)
    assert str(raised.value).startswith(said)


def test_a_topology_may_be_a_file_beside_the_experiment(tmp_path: Path) -> None:
    written(tmp_path / "network.toml", probe()["topology"])
    path = written(tmp_path / "e.toml", probe(topology="network.toml"))
    assert load_file(path).experiment == load(probe()).experiment
    assert load_file(path, ["topology.members=2"]).experiment.topology.members == 2


@pytest.mark.parametrize("content", [None, b"name = ", b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "e.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError) as raised:
        load_file(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_a_topology_file_that_is_missing_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "e.toml", probe(topology="network.toml"))
    with pytest.raises(ConfigurationError, match=r"network\.toml: cannot be read"):
        load_file(path)


def test_the_resolved_file_gives_an_equal_experiment(tmp_path: Path) -> None:
    faults = {"reordering": {"probability": 0.5, "delay": {"kind": "exponential", "mean": "2ms"}}, "loss": 0.1}
    data = cells(faults=faults, mobility={"dwell": UNIFORM}, workload=script(say("a", "1ms", 'he said "é"')))
    loaded = load_file(written(tmp_path / "e.toml", data), ["faults.crashes=[{node='a', at='1ms'}]"], seed=99)
    (tmp_path / "again.toml").write_text(loaded.toml(), encoding="utf-8")
    again = load_file(tmp_path / "again.toml")
    assert again.experiment == loaded.experiment
    assert again.toml() == loaded.toml()


def test_delays_are_equal_when_they_say_the_same() -> None:
    assert Delay.parse("2ms") == Delay.parse({"kind": "fixed", "value": "2000us"})
    assert Delay.parse("2ms") != Delay.parse("3ms")
    assert Delay.parse(UNIFORM) != Delay.parse({"kind": "exponential", "mean": "1ms"})
    assert len({Delay.parse("2ms"), Delay.parse("2ms")}) == 1
