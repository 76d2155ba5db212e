"""EOMP under random schedules that keep the paper's assumptions: wires and radio in order, wires lossless, hosts up.

They show where the trouble is: as long as hosts that send stay in their cell, every claim holds whatever else happens;
let senders move, and the claims about requests break.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest
from eomp_bench import HOME, SECOND, Net

from castbed import Kind
from castbed.testing.bench import Copy

STEPS = 500
QUIET = 200 * SECOND  # a host catches up by one message per second
STATIONS = ("M1", "M2", "M3")
SEEDS = [int(os.environ["EOMP_SEED"])] if "EOMP_SEED" in os.environ else range(12)


class Schedule:
    """One random run; `senders` submit, `movers` change cells, stations crash and are replaced."""

    def __init__(self, seed: int, senders: str, movers: str) -> None:
        self.random = Random(f"eomp/{seed}")
        self.net = Net({**HOME, "d": "M1"}, members="abcd")
        self.senders = senders
        self.movers = movers
        self.stalled = ("", "")
        self.did: Counter[str] = Counter()
        likely = [self.let_arrive] * 12 + [self.submit, self.let_time_pass] * 2
        self.happenings = [*likely, self.lose, self.move, self.go_away, self.stall, self.crash, self.replace]

    def run(self) -> Net:
        for _ in range(STEPS):
            happening = self.random.choice(self.happenings)
            if happening():
                self.did[happening.__name__] += 1
        return self.come_to_rest()

    def come_to_rest(self) -> Net:
        """All stations and hosts are back, nothing is lost any more."""
        while self.replace():
            pass
        for host in self.movers:
            self.net.move(host, self.random.choice(STATIONS))
        self.net.lose(lambda copy: self.net.radio(copy) and not self.net.may_pass(copy))
        self.net.run(QUIET)
        return self.net

    # --- what may happen; each says whether it did -------------------------------------------------------------------

    def submit(self) -> bool:
        host = self.random.choice(self.senders)
        return self.net.submit(host, f"{host}{len(self.net.events)}".encode()) is not None

    def let_arrive(self) -> bool:
        copy = self.some_copy()
        if copy is not None:
            self.net.arrive(copy)
        return copy is not None

    def lose(self) -> bool:
        copy = self.some_copy()
        if copy is None or not self.net.radio(copy):
            return False
        self.net.in_flight.remove(copy)
        return True

    def move(self) -> bool:
        self.net.move(self.random.choice(self.movers), self.random.choice(STATIONS))
        self.forget_what_nobody_hears()
        return True

    def go_away(self) -> bool:
        self.net.move(self.random.choice(self.movers), None)
        self.forget_what_nobody_hears()
        return True

    def stall(self) -> bool:
        """One wire carries nothing until another one stalls: the paper bounds no delay."""
        wires = [(copy.sender, copy.to) for copy in self.net.in_flight if not self.net.radio(copy)]
        self.stalled = self.random.choice(wires or [("", "")])
        return bool(wires)

    def crash(self) -> bool:
        up = [station for station in STATIONS if station in self.net.machines]
        if len(up) < len(STATIONS):
            return False
        self.net.crash(self.random.choice(up))
        return True

    def replace(self) -> bool:
        down = [station for station in STATIONS if station not in self.net.machines]
        if down:
            self.net.start(down[0])
        return bool(down)

    def let_time_pass(self) -> bool:
        node, timer = min(self.net.timers, key=lambda key: self.net.timers[key])
        self.net.expire(node, timer)
        return True

    # --- chance ------------------------------------------------------------------------------------------------------

    def some_copy(self) -> Copy | None:
        """The oldest copy of some direction."""
        heads: dict[tuple[str, str], Copy] = {}
        for copy in self.net.in_flight:
            heads.setdefault((copy.sender, copy.to), copy)
        heads.pop(self.stalled, None)
        heard = [copy for copy in heads.values() if self.net.may_pass(copy)]
        return self.random.choice(heard) if heard else None

    def forget_what_nobody_hears(self) -> None:
        self.net.lose(lambda copy: self.net.radio(copy) and not self.net.may_pass(copy))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_claim_holds_while_senders_stay_in_their_cell(seed: int) -> None:
    """E1 to E4, E8, E9, E14, for receivers that move at will."""
    assert Schedule(seed, senders="bc", movers="ad").run().broken() == {}, f"repeat with EOMP_SEED={seed}"


def test_senders_that_move_break_the_claims_about_requests() -> None:
    """Not E2, not E7; order and integrity survive."""
    broken: set[str] = set()
    for seed in range(12):
        broken |= set(Schedule(seed, senders="ad", movers="ad").run().broken())
    assert {"no_duplication", "exactly_once"} <= broken
    assert broken.isdisjoint({"integrity", "total", "agreement"})


def test_random_schedules_meet_every_kind_of_trouble() -> None:
    did: Counter[str] = Counter()
    kinds: Counter[Kind] = Counter()
    for seed in range(5):
        schedule = Schedule(seed, senders="bc", movers="ad")
        kinds.update(event.kind for event in schedule.run().events)
        did += schedule.did
    assert set(did) == {happening.__name__ for happening in schedule.happenings}
    assert kinds[Kind.DELIVER] > kinds[Kind.SUBMIT] > 50
    assert min(kinds[kind] for kind in (Kind.HOLD, Kind.DETACH, Kind.RESTART)) > 5
