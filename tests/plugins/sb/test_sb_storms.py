"""The repaired machine when everything goes wrong at random; a failing seed is in the name of its test."""

from __future__ import annotations

from random import Random

import pytest

from castbed import Kind, Received
from castbed.properties import check
from castbed.testing import Bench
from castbed.testing.bench import Copy
from castbed_plugins.sb import PROTOCOL, Options

REPAIR_TIME = 6 * 10**9  # a few rounds of digests, each a second on average


def violated(bench: Bench) -> set[str]:
    """The guarantees of the variant that the history refutes."""
    return {name for name, found in check(bench.history(), bench.chosen.variant.guarantees).items() if found}


class Storm:
    """A bench on which everything goes wrong at random: loss, duplication, reordering, absence, crashes."""

    def __init__(self, seed: int, store: str, forgetful: float = 0) -> None:
        self.random = Random(seed)
        self.nodes = "ABCD"
        self.bench = Bench(PROTOCOL, tuple(self.nodes), options=Options(store=store, held_max=16), seed=seed)
        self.forgetful = forgetful
        self.away: set[str] = set()
        self.lost = self.duplicated = self.crashed = 0

    def blow(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice((self.write, self.write, self.carry, self.carry, self.tick, self.roam, self.crash))()

    def write(self) -> None:
        node = self.random.choice(self.nodes)
        known = self.bench.messages[node]
        parent = self.random.choice(known).mid if known and self.random.random() < 0.7 else None
        self.bench.submit(node, parent=parent)

    def carry(self) -> None:
        for copy in self.random.sample(self.bench.in_flight, len(self.bench.in_flight) * 2 // 3):
            self._carry(copy)

    def _carry(self, copy: Copy) -> None:
        fate = self.random.random()
        if fate < 0.3:
            self.bench.in_flight.remove(copy)
            self.lost += 1
            return
        if fate < 0.5:
            self.bench.step(copy.to, Received(copy.packet, self.bench.topology.number(copy.sender)))
            self.duplicated += 1
        self.bench.arrive(copy)

    def tick(self) -> None:
        self.bench.expire(*self.random.choice(sorted(self.bench.timers, key=repr)))

    def roam(self) -> None:
        node = self.random.choice(self.nodes)
        (self.bench.back if node in self.away else self.bench.away)(node)
        self.away ^= {node}

    def crash(self) -> None:
        if self.random.random() < 0.3:
            node = self.random.choice(self.nodes)
            self.bench.crash(node, keep_storage=self.random.random() >= self.forgetful)
            self.bench.start(node)
            self.crashed += 1

    def calm(self) -> None:
        for node in sorted(self.away):
            self.bench.back(node)
        self.away.clear()
        self.bench.run(REPAIR_TIME)


@pytest.mark.parametrize("seed", range(40))
def test_members_agree_a_few_digests_after_any_storm(seed: int) -> None:
    """SB-R1 to R7, I6; repeat one with the seed in its name."""
    storm = Storm(seed, ("indexed", "literal")[seed % 2])
    storm.blow(150)
    storm.calm()
    assert storm.lost
    assert storm.duplicated
    written = {event.message for event in storm.bench.events if event.kind == Kind.SUBMIT}
    for node in storm.nodes:
        assert {(one.group, one.mid) for one in storm.bench.messages[node]} == written
    assert violated(storm.bench) == set()


@pytest.mark.parametrize("seed", range(20))
def test_members_that_lost_their_storage_catch_up_too(seed: int) -> None:
    """What nobody remembers is gone; everything that somebody has reaches everybody."""
    storm = Storm(seed, "indexed", forgetful=0.3)
    storm.blow(150)
    storm.calm()
    assert violated(storm.bench) == set()
