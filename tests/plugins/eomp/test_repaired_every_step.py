"""A crash of a core node at every step of a small run, exhaustively over the moment: nothing is lost, nothing doubled.

The run: two hosts send, one of them moves to another region meanwhile, a third joins. Only node and step vary.
"""

from __future__ import annotations

import pytest
from eomp_bench import G
from repaired_bench import RepairedNet

from castbed_plugins.eomp import Join, Options

STEPS_MAX = 400  # more than the run has


class Crashing(RepairedNet):
    """Crashes `node` after `step` copies have arrived."""

    def __init__(self, node: str, step: int) -> None:
        self.node = node
        self.left = -1
        super().__init__(members="ac", options=Options(beat=40_000_000, patience=150_000_000))
        self.left = step

    def arrive(self, copy):  # type: ignore[no-untyped-def]  # as in Bench
        did = super().arrive(copy)
        self.left -= 1
        if self.left == 0:
            self.crash(self.node)
        return did

    def play_run(self) -> bool:
        """Whether the crash came before the end of the run."""
        self.submit("a", b"a1")
        self.ask("b", Join("1"))
        self.submit("c", b"c1")
        self.arrive_some(9)
        self.move("a", "M3")
        self.submit("a", b"a2")
        self.arrive_some(25)
        self.submit("c", b"c2")
        self.settle()
        return self.left <= 0

    def arrive_some(self, count: int) -> None:
        for _ in range(count):
            if self.in_flight:
                self.arrive(self.in_flight[0])


@pytest.mark.parametrize("node", ["T", "C1", "C2"])
def test_a_crash_at_any_step_costs_nothing(node: str) -> None:
    """E1 to E4, E7, E11."""
    for step in range(1, STEPS_MAX):
        net = Crashing(node, step)
        if not net.play_run():
            assert step > 50, "the run has become too short to say anything"
            return
        net.pass_time(0.8)
        net.start(node)
        net.pass_time(0.8)
        net.submit("b", b"b1")
        net.pass_time(1.5)
        assert net.broken() == {}, f"{node} crashed after step {step}"
        assert sorted(net.payloads("a").split()) == ["a1", "a2", "b1", "c1", "c2"], f"{node}, step {step}"
        assert net.payloads("a") == net.payloads("c"), f"{node}, step {step}"
        assert {net.machines[core].ledger.sent()[G] for core in ("T", "C1", "C2")} == {5}, f"{node}, step {step}"
    raise AssertionError("the run has more steps than expected")
