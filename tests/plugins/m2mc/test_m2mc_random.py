"""Random schedules for the repaired variant: whatever happened, once the air is quiet every guarantee holds.

A failure prints its seed; `M2MC_SEED=17 pytest -k random` repeats that one alone.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest
from m2mc_bench import SECOND, all_broken, m2mc_bench

from castbed import Kind
from castbed.testing import Bench, Copy
from castbed.values import Group, group_text
from castbed_plugins import m2mc

NAMES = "ABCDE"
STEPS = 150
QUIET = 20 * SECOND
SEEDS = [int(os.environ["M2MC_SEED"])] if "M2MC_SEED" in os.environ else range(60)


class Schedule:
    """One random run: every step lets something happen to the nodes or to the copies between them."""

    def __init__(self, seed: int, forgetful: bool) -> None:
        self.random = Random(seed)
        self.bench: Bench = m2mc_bench(NAMES, "repaired", seed=seed)
        self.groups: list[Group] = []
        self.away: set[str] = set()
        self.did: dict[str, int] = {}
        happenings = [
            (self.let_arrive, 30), (self.submit, 20), (self.let_a_timer_expire, 15), (self.lose, 8),
            (self.duplicate, 6), (self.join, 8), (self.leave, 3), (self.create, 1), (self.go_or_come, 4),
            (self.crash, 2), (self.crash_and_forget, int(forgetful)), (self.restart, 4), (self.advertise, 1),
        ]  # fmt: skip
        self.happenings = [happening for happening, weight in happenings for _ in range(weight)]

    def run(self) -> Bench:
        self.create()
        for _ in range(STEPS):
            self.bench.now += self.random.randrange(SECOND // 10)
            happening = self.random.choice(self.happenings)
            if happening():
                self.did[happening.__name__] = self.did.get(happening.__name__, 0) + 1
        self.come_to_rest()
        return self.bench

    def come_to_rest(self) -> None:
        for name in NAMES:
            if name not in self.bench.machines:
                self.bench.start(name)
            if name in self.away:
                self.away.discard(name)
                self.bench.back(name)
        self.bench.run(QUIET)

    # --- what may happen; each says whether it did -------------------------------------------------------------------

    def create(self) -> bool:
        node = self.somebody()
        if len(self.groups) < 2:
            self.bench.ask(node, m2mc.CreateGroup("g"))
            self.groups.append(self.bench.notices[node][-1].group)
        return True

    def join(self) -> bool:
        self.bench.ask(self.somebody(), m2mc.JoinGroup(self.some_group()))
        return True

    def leave(self) -> bool:
        self.bench.ask(self.somebody(), m2mc.LeaveGroup(self.some_group()))
        return True

    def advertise(self) -> bool:
        self.bench.ask(self.somebody(), m2mc.Advertise())
        return True

    def submit(self) -> bool:
        node, group = self.somebody(), self.random.choice(self.groups)
        shown = [message.mid for message in self.bench.messages[node] if message.group == group]
        parent = self.random.choice([None, *shown[-5:]])
        return self.bench.submit(node, b"x", group, parent) is not None

    def go_or_come(self) -> bool:
        node = self.somebody()
        (self.bench.back if node in self.away else self.bench.away)(node)
        self.away ^= {node}
        return True

    def crash(self, keep_storage: bool = True) -> bool:
        if len(self.bench.machines) < 3:
            return False
        self.bench.crash(self.somebody(), keep_storage)
        return True

    def crash_and_forget(self) -> bool:
        return self.crash(keep_storage=False)

    def restart(self) -> bool:
        down = [name for name in NAMES if name not in self.bench.machines]
        if down:
            self.bench.start(self.random.choice(down))
        return bool(down)

    def let_arrive(self) -> bool:
        for _ in range(self.random.randrange(1, 6)):
            if self.bench.in_flight:
                self.bench.arrive(self.some_copy())
        return True

    def lose(self) -> bool:
        return bool(self.bench.in_flight) and self.bench.lose(self.one()) > 0

    def duplicate(self) -> bool:
        if self.bench.in_flight:
            self.bench.in_flight.append(self.some_copy())
        return bool(self.bench.in_flight)

    def let_a_timer_expire(self) -> bool:
        if self.bench.timers:
            self.bench.expire(*self.random.choice(sorted(self.bench.timers, key=repr)))
        return True

    # --- chance ------------------------------------------------------------------------------------------------------

    def somebody(self) -> str:
        return self.random.choice(sorted(self.bench.machines))

    def some_group(self) -> str:
        return group_text(self.random.choice(self.groups), self.bench.topology.name)

    def some_copy(self) -> Copy:
        return self.random.choice(self.bench.in_flight)

    def one(self):
        lost = {self.some_copy().serial for _ in range(3)}
        return lambda copy: copy.serial in lost


def waits_for_what_somebody_has(bench: Bench) -> list[str]:
    """The messages that a member waits for although another member has them."""
    found = []
    for group in {group for machine in bench.machines.values() for group in machine.gjlp.joined()}:
        joined = [machine for machine in bench.machines.values() if machine.gjlp.is_member(group)]
        here = [machine.instances[group] for machine in joined]
        missing = {mid for instance in here for mid in instance.mop.ordering.missing_parents()}
        found += [bench.text(mid) for mid in missing if any(instance.log.knows(mid) for instance in here)]
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_after_any_random_schedule_every_guarantee_holds(seed: int) -> None:
    bench = Schedule(seed, forgetful=False).run()
    assert all_broken(bench) == {}, f"repeat with M2MC_SEED={seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_when_storage_is_lost_too_only_what_nobody_has_any_more_is_missed(seed: int) -> None:
    bench = Schedule(seed, forgetful=True).run()
    assert all_broken(bench) == {}, f"repeat with M2MC_SEED={seed}"
    assert waits_for_what_somebody_has(bench) == [], f"repeat with M2MC_SEED={seed}"


def test_random_schedules_meet_every_kind_of_trouble() -> None:
    did: set[str] = set()
    kinds: Counter[Kind] = Counter()
    for seed in range(5):
        schedule = Schedule(seed, forgetful=True)
        kinds.update(event.kind for event in schedule.run().events)
        did |= schedule.did.keys()
    assert did == {happening.__name__ for happening in schedule.happenings}
    assert kinds[Kind.DELIVER] > kinds[Kind.SUBMIT] > 50
    assert min(kinds[kind] for kind in (Kind.HOLD, Kind.LEAVE, Kind.DETACH, Kind.RESTART, Kind.VIEW)) > 5
