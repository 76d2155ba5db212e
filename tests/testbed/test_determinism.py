"""Same seed, same run: equal bytes in every process; other seeds, other runs; and every record says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from testbed_command import EXAMPLES, captures, castbed_process
from testbed_support import cells, do, planned, probe, registry, script, simulated

from castbed import Kind, Message, Mid
from castbed.actions import Deliver
from castbed.capture import read_captures, read_history
from castbed.errors import ConfigurationError
from castbed_testbed import runner
from castbed_testbed.experiment import Loaded, load, load_file
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import CaptureRecorder, MemoryRecorder
from castbed_testbed.runner import run_experiment
from castbed_testbed.sim.runner import simulate

MOVING = cells(
    protocol={"name": "relay"},
    mobility={"dwell": {"kind": "exponential", "mean": "100ms"}, "gap": "20ms"},
    workload={"kind": "steady", "rate": 20},
)
REPEATED = ("two-questions", "lossy", "absence-and-return", "m2mc-churn")


def run(loaded: Loaded, out: Path, **options: Any) -> dict[str, bytes]:
    changed = load({**loaded.data, "transport": {"name": "sim", "options": options}})
    run_experiment(changed, registry(), out)
    return captures(out)


def loaded(name: str) -> Loaded:
    return load(MOVING) if name == "moving" else load_file(EXAMPLES / f"{name}.toml")


@pytest.mark.parametrize("name", REPEATED)
def test_a_run_leaves_the_same_bytes_in_every_process(tmp_path: Path, name: str) -> None:
    left = []
    for hash_seed in ("1", "2"):
        arguments = ("run", EXAMPLES / f"{name}.toml", "--out", hash_seed)
        done = castbed_process(*arguments, cwd=tmp_path, PYTHONHASHSEED=hash_seed)
        assert done.returncode == 0, done.stdout
        left.append(captures(tmp_path / hash_seed))
    assert left[0] == left[1]
    assert len(left[0]) >= 4


@pytest.mark.parametrize("name", [*REPEATED, "moving"])
def test_receivers_that_decode_the_bytes_leave_the_same_captures(tmp_path: Path, name: str) -> None:
    shared = run(loaded(name), tmp_path / "shared", decode=False)
    assert shared == run(loaded(name), tmp_path / "decoded", decode=True)


@pytest.mark.parametrize("name", ["lossy", "m2mc-churn", "moving"])
def test_another_seed_gives_another_run(tmp_path: Path, name: str) -> None:
    one = loaded(name)
    other = load({**one.data, "seed": one.experiment.seed + 1})
    events = [
        read_history(tmp_path / str(at)).events for at, what in enumerate((one, other)) if run(what, tmp_path / str(at))
    ]
    assert events[0] != events[1]


@pytest.mark.parametrize("name", ["lossy", "m2mc-churn", "absence-and-return", "moving"])
def test_memory_and_captures_hold_the_same_history(tmp_path: Path, name: str) -> None:
    plan = make_plan(loaded(name).experiment, registry())
    memory = MemoryRecorder(plan.identity())
    one = simulate(plan, memory)
    assert one == simulate(plan, CaptureRecorder(tmp_path, plan.identity()))
    read = read_history(tmp_path)
    assert read.identity == plan.identity()
    assert read.by_node == memory.history().by_node
    assert len(read.of(Kind.DELIVER)) == one.delivered > 0
    assert len(read.of(Kind.SUBMIT)) == one.submitted > 0


def test_one_identity_in_two_groups_is_two_messages_in_every_record(tmp_path: Path) -> None:
    identity, mid, payload = planned(probe()).identity(), Mid(1, 1), b"same"
    messages = [Message(mid, group, payload, parent) for group, parent in ((1, None), (2, None), (2, Mid(1, 9)))]
    memory = MemoryRecorder(identity)
    for recorder in (CaptureRecorder(tmp_path, identity), memory):
        for message in messages:
            recorder.deliver(1, 5, Deliver(message))
        recorder.close()
    assert read_history(tmp_path).by_node[1] == memory.events
    assert [(event.group, event.parent) for event in memory.events] == [(1, None), (2, None), (2, Mid(1, 9))]


def test_frames_and_events_in_the_captures_are_those_of_the_run(tmp_path: Path) -> None:
    plan = planned(probe(workload=script(do("A", "1ms", "shout", times=3, size=10))))
    report = simulate(plan, CaptureRecorder(tmp_path, plan.identity()))
    sent, received = [], []
    for capture in read_captures(tmp_path):
        for frame in capture.frames:
            (sent if frame.outgoing else received).append((capture.node, frame.at // 1000, len(frame.data)))
    first = 1_000
    lasting = (14 + 44 + 10) * 8
    assert sent == [(1, first, 68)] * 3
    arrivals = [first + lasting * number for number in (1, 2, 3)]
    assert received == [(node, at, 68) for node in (2, 3) for at in arrivals]
    assert report.frames == 3


def test_chance_of_one_purpose_does_not_influence_another() -> None:
    workload = {"kind": "steady", "rate": 20}
    calm = simulated(probe(workload=workload))
    troubled = simulated(probe(workload=workload, faults={"loss": 0.5}))
    submissions = [[(e.node, e.at) for e in seen.history.of(Kind.SUBMIT)] for seen in (calm, troubled)]
    assert submissions[0] == submissions[1]
    assert len(calm.history.of(Kind.DELIVER)) > len(troubled.history.of(Kind.DELIVER))


def test_a_capture_directory_of_another_run_is_not_mixed_in(tmp_path: Path) -> None:
    run(loaded("two-questions"), tmp_path / "one")
    run(load({**loaded("two-questions").data, "seed": 8}), tmp_path / "other")
    foreign = (tmp_path / "other" / "captures" / "B.pcapng").read_bytes()
    (tmp_path / "one" / "captures" / "B.pcapng").write_bytes(foreign)
    with pytest.raises(ConfigurationError, match="belongs to another run"):
        runner.judge(tmp_path / "one", registry())
