"""Whole runs in the simulator, without a key, while somebody says what almost makes sense.

Each frame that arrives anywhere is followed by changed copies of frames that were on the air and on wires before, each
with a checksum of its own. Who hears one decodes it as on a real network, and what still is a packet reaches its
machine; what that answers is encoded, addressed and recorded, its timers run out, and its applications hear of it. The
history is judged, too. Whatever comes out of all this but a PeerError is a problem.
"""

from __future__ import annotations

import traceback
from collections import Counter, deque
from pathlib import Path
from random import Random
from typing import Any

from castbed import History, LocalEvent, PeerError, Received, load_registry
from castbed.actions import Deliver
from castbed.properties import check
from castbed.recording import delivered
from castbed.records import decode_event, encode_event
from castbed_adapters.wifi.envelope import letter_bytes, read_letter
from castbed_testbed.disturbance import mutated
from castbed_testbed.experiment import load_file
from castbed_testbed.plan import Plan, make_plan
from castbed_testbed.recorder import MemoryRecorder
from castbed_testbed.sim.media import Arrival
from castbed_testbed.sim.node import SimNode
from castbed_testbed.sim.simulation import Simulation

EXAMPLES = Path(__file__).parent.parent / "examples"
TARGETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sb": ("lossy", ()),
    "sb published": ("plain", ()),
    "sb published, repaired below": ("published-lossy", ()),
    "m2mc": ("m2mc-churn", ()),
    "m2mc published": ("m2mc-churn", ("protocol.variant=published",)),
    "eomp": ("eomp-lossy", ()),
    "eomp published": ("eomp-lossy", ("protocol.variant=published",)),
    "relm": ("relm-plain", ()),
    "relm published": ("relm-plain", ("protocol.variant=published",)),
}
"""What is attacked: examples, and what is set in them."""
SHORT = ("duration=2s", "drain=1s")
KNOWN = 512  # frames that the attacker has heard last
TWISTED = 2  # changed copies for each arrival
RUN_FRAMES_MAX = 10_000  # then another run begins: what a node believes by then, it believes for good


class EnoughError(Exception):
    """The run has shown what it can."""


class CodedRecorder(MemoryRecorder):
    """Keeps local events as a capture would: as what their bytes say."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.identity())
        self.event = self._coded

    def _coded(self, event: LocalEvent) -> None:
        self.events.append(decode_event(encode_event(event), event.at))

    def deliver(self, node: int, at: int, action: Deliver) -> None:
        self._coded(delivered(node, at, action))


class AttackedSimulation(Simulation):
    """A run in which an attacker has a word after each frame; `counted` says what became of what it said."""

    def __init__(self, plan: Plan, frames: int, random: Random) -> None:
        self.said = CodedRecorder(plan)
        super().__init__(plan, self.said)
        self.counted: Counter[str] = Counter()
        self._attacker = random
        self._left = frames
        self._known: deque[bytes] = deque(maxlen=KNOWN)
        self._decode = plan.chosen.codec().decode

    def _arrive(self, arrival: Arrival) -> None:
        super()._arrive(arrival)
        self._known.append(arrival[0].frame)
        for node in arrival[1]:
            for _ in range(TWISTED if node.up else 0):
                self._attack(node)

    def _attack(self, node: SimNode) -> None:
        if not self._left:
            raise EnoughError
        self._left -= 1
        frame = mutated(self._attacker.choice(self._known), self._attacker)
        self.counted["frames"] += 1
        try:
            packet, sender = self._decode(read_letter(letter_bytes(b"this run", frame, 0, ())).frame)
        except PeerError:
            self.counted["malformed"] += 1
            return
        if sender > len(self.nodes) or sender == node.number:
            self.counted["foreign"] += 1
            return
        self.counted["passed"] += 1
        dropped = self.dropped
        self._step(node, Received(packet, sender))
        self.counted["blamed"] += self.dropped > dropped


def attack(name: str, frames: int) -> dict[str, Any]:
    """Runs of one target, each with another seed, until its nodes were shown that many frames."""
    example, settings = TARGETS[name]
    registry, counted, problems = load_registry(), Counter[str](), Counter[str]()
    seed = 0
    while counted["frames"] < frames:
        seed += 1
        loaded = load_file(EXAMPLES / f"{example}.toml", (*SHORT, *settings, f"seed={seed}"))
        plan = make_plan(loaded.experiment, registry)
        most = min(RUN_FRAMES_MAX, frames - counted["frames"])
        simulation = AttackedSimulation(plan, most, Random(f"{name}/{seed}"))
        try:
            simulation.run()
        except EnoughError:
            pass
        except Exception as error:  # anything is what is looked for
            problems[described(error)] += 1
        counted += simulation.counted
        problems.update(unjudged(plan, simulation.said))
    figures = {what: counted[what] for what in ("frames", "malformed", "foreign", "passed", "blamed")}
    return {"target": name, **figures, "runs": seed, "problems": dict(problems)}


def unjudged(plan: Plan, said: CodedRecorder) -> list[str]:
    """What goes wrong while the run is judged; that promises are broken is to be expected, and says nothing."""
    history, problems = History(plan.identity(), said.events), []
    for name in plan.chosen.variant.guarantees:
        try:
            check(history, [name])
        except Exception as error:
            problems.append(f"{name}: {described(error)}")
    return problems


def described(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
