"""A script carried out like any run: the same directory, captures, summary and verdicts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec

from castbed.capture import AIR, WIRE, frame_block
from castbed.events import Received
from castbed.history import Kind, LocalEvent
from castbed.properties import Violation
from castbed.registry import Registry
from castbed.values import NodeNumber
from castbed.wire import ethernet_frame
from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.judging import CONTRACT, arena_of, for_good, label
from castbed_testbed.explore.replaying import ExactReplay, WatchedWorld
from castbed_testbed.explore.script import SUFFIX, Script, read, write
from castbed_testbed.explore.world import Copy
from castbed_testbed.plan import Plan
from castbed_testbed.recorder import CaptureRecorder
from castbed_testbed.report import HostReport
from castbed_testbed.runner import (
    CAPTURES,
    MANIFEST,
    RUNS,
    SUMMARY,
    Outcome,
    judged,
    manifest_of,
    point_latest,
    prepare,
    write_json,
)
from castbed_testbed.summary import property_figures

SCRIPT = f"script{SUFFIX}"


class RecordedWorld(WatchedWorld):
    """A world whose nodes leave captures."""

    def __init__(self, arena: Arena, recorder: CaptureRecorder) -> None:
        self.recorder = recorder
        self.codec = arena.chosen.codec()
        self.frames = 0
        self.kept = 0
        super().__init__(arena)

    def keep_events(self) -> None:
        """Write the events that are not in the captures yet, so that these are in the order of time."""
        for event in self.events[self.kept :]:
            self.recorder.event(event)
        self.kept = len(self.events)

    def _transmitted(self, event: Received, to: NodeNumber, wired: bool) -> None:
        self.frames += 1
        self._capture(event.second, event, to, wired, outgoing=True)

    def _arrived(self, copy: Copy) -> None:
        self._capture(copy.to, copy.event, copy.to, copy.wired, outgoing=False)
        super()._arrived(copy)

    def _capture(self, at: NodeNumber, event: Received, to: NodeNumber, wired: bool, outgoing: bool) -> None:
        self.keep_events()
        frame = ethernet_frame(self.codec.encode(event.first, event.second), event.second, to)
        block = frame_block(WIRE if wired else AIR, self.now, frame, outgoing)
        append = self.recorder.appender(at)
        assert append is not None
        append(block)
        self.recorder.appended(len(block))


class Played(msgspec.Struct, frozen=True):
    """The outcome of a script as a run, and whether it is the expected one."""

    outcome: Outcome
    violated: tuple[str, ...]
    as_expected: bool


def expected(script: Script, violated: tuple[str, ...]) -> bool:
    """Whether what the script expects is violated, and nothing else."""
    return set(script.expects) == set(violated)


def play(script: Script, registry: Registry, name: str, out: Path | None = None) -> Played:
    """Carry the script out into a run directory and judge it by what the variant guarantees and the script expects."""
    arena = arena_of(script, registry)
    plan = _plan(arena, name)
    directory = prepare(out or Path(RUNS) / f"{name}-{arena.seed}")
    (directory / SCRIPT).write_text(write(script), encoding="utf-8")
    write_json(directory / MANIFEST, manifest_of(plan))
    start = time.perf_counter()
    report, stumbled = _recorded(arena, plan, script, directory / CAPTURES)
    outcome = judged(plan, directory, registry, report, time.perf_counter() - start, list(arena.properties))
    outcome = _believed(outcome, script.settles, stumbled)
    violated = _violated(outcome)
    outcome.summary["expects"] = list(script.expects)
    outcome.summary["as_expected"] = as_expected = expected(script, violated)
    write_json(directory / SUMMARY, outcome.summary)
    if out is None:
        point_latest(directory)
    return Played(outcome, violated, as_expected)


def judged_again(outcome: Outcome, directory: Path) -> Outcome:
    """What is believed of a verdict on the captures in a directory: where a script left them, what it lets one say."""
    if not (directory / SCRIPT).exists():
        return outcome
    before = json.loads((directory / SUMMARY).read_text(encoding="utf-8"))["properties"]
    return _believed(outcome, read(directory / SCRIPT).settles and CONTRACT not in before, [])


def _believed(outcome: Outcome, settled: bool, stumbled: list[Violation]) -> Outcome:
    """Of a script that does not settle, what nothing can mend; of one that ends with a stumbling machine, only that."""
    found = outcome.violations
    if stumbled:
        found = {CONTRACT: stumbled}
    elif not settled:
        found = {name: [one for one in violations if for_good(one)] for name, violations in found.items()}
    summary = outcome.summary | {"properties": property_figures(found)}
    return msgspec.structs.replace(outcome, summary=summary, violations=found)


def _violated(outcome: Outcome) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label(one) for violations in outcome.violations.values() for one in violations))


def _plan(arena: Arena, name: str) -> Plan:
    experiment = msgspec.structs.replace(arena.plan.experiment, name=name)
    return msgspec.structs.replace(arena.plan, experiment=experiment)


def _recorded(arena: Arena, plan: Plan, script: Script, captures: Path) -> tuple[HostReport, list[Violation]]:
    recorder = CaptureRecorder(captures, plan.identity())
    try:
        world = RecordedWorld(arena, recorder)
        played = ExactReplay(world)
        played.play(script.steps, script.settles, arena.freedoms)
        world.keep_events()
        _stop(world, recorder)
    finally:
        recorder.close()
    delivered = sum(event.kind == Kind.DELIVER for event in world.events)
    submitted = sum(event.kind == Kind.SUBMIT for event in world.events)
    dropped = sum(event.kind == Kind.DROP for event in world.events)
    report = HostReport(submitted, delivered, world.frames, len(world.shown), world.now, dropped)
    return report, [one for one in played.violations if one.property == CONTRACT]


def _stop(world: RecordedWorld, recorder: CaptureRecorder) -> None:
    for node in world.arena.numbers:
        if world.is_up(node):
            recorder.event(LocalEvent(node, world.now, Kind.STOP))
