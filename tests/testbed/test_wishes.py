"""What programs wish becomes steps of the machine: the same on every host."""

from __future__ import annotations

import time
from collections import Counter
from random import Random
from typing import Any

import pytest
from testbed_support import Probe, Trio, probe, simulated

from castbed import Asked, Command, ContractError, Event, Message, Submitted, SubmittedTogether
from castbed import topology as shapes
from castbed.application import Call, Setting, Submit, Wake, Wish
from castbed_testbed.hosting.programs import Programs
from castbed_testbed.wishes import in_steps


class Stop(Command, frozen=True):
    """Something else than a message."""


def submit(payload: bytes) -> Submit:
    return Submit(Message(payload=payload))


def shown(*wishes: Wish) -> list[Any]:
    """What becomes of the wishes: the payloads of what is submitted at once, commands, and the names of wakes."""
    return [_in_short(step) for step in in_steps(wishes, "A")]


def _in_short(step: Event | Wake) -> Any:
    if isinstance(step, SubmittedTogether):
        return [message.payload for message in step.first]
    if isinstance(step, Submitted):
        return step.first.payload
    return step.first if isinstance(step, Asked) else step.name  # type: ignore[union-attr]  # a Wake


def test_messages_between_which_nothing_else_is_wished_are_submitted_together() -> None:
    wishes = submit(b"1"), submit(b"2"), Call(Stop()), submit(b"3"), Wake("soon", 5), submit(b"4"), submit(b"5")
    assert shown(*wishes) == [[b"1", b"2"], Stop(), b"3", "soon", [b"4", b"5"]]
    assert shown() == []


def test_nobody_is_woken_in_the_past() -> None:
    with pytest.raises(ContractError, match="on A wants to be woken in the past"):
        shown(Wake("soon", -1))


class Stage:
    """A node that notes what its machine would be shown, with links that carry nothing."""

    def __init__(self) -> None:
        self.now = 0
        self.congested = False
        self.counters: Counter[str] = Counter()
        self.steps: list[Any] = []

    def tick(self) -> None:
        self.now = time.monotonic_ns()

    def step(self, event: Event) -> None:
        self.steps.append(_in_short(event))


def test_real_nodes_are_shown_together_what_a_program_wished_together() -> None:
    stage: Any = Stage()
    setting = Setting(1, shapes.broadcast(("A",)), Random(1), 0)
    Programs([Trio(setting, None)], "A", stage, stage, stage).start()
    assert stage.steps == [[b"1", b"2", b"3"]]


def test_simulated_nodes_are_shown_together_what_a_program_wished_together(monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []

    def note(machine: Probe, messages: list[Message]) -> None:
        together.append(len(messages))
        for message in messages:
            machine.submitted(message)

    monkeypatch.setattr(Probe, "submitted_together", note)
    seen = simulated(probe(application={"name": "trio"}))
    assert together == [3, 3, 3]
    assert [mid for mid in seen.delivered("B") if mid[0] == "A"] == ["A1", "A2", "A3"]
