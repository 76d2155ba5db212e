"""The declaration of `sb`: what it is, what each variant needs of the network, and what it guarantees."""

from __future__ import annotations

from castbed import Protocol, Variant
from castbed.parts import AntiEntropy
from castbed_plugins.sb.options import Options
from castbed_plugins.sb.packets import Data
from castbed_plugins.sb.published import Published
from castbed_plugins.sb.repaired import Repaired

GUARANTEES = (
    "integrity",
    "no_duplication",
    "agreement",
    "validity",
    "semantic",
    "liveness",
    "no_needless_wait",
    "exactly_once",
)

PUBLISHED = Variant(
    {"member": Published},
    frozenset({"air", "reliable_air", "own_copy", "no_crash", "no_absence"}),
    GUARANTEES,
    "As in the paper: one packet per message, over a broadcast that loses and duplicates nothing",
)
REPAIRED = Variant(
    {"member": Repaired},
    frozenset({"air"}),
    (*GUARANTEES, "recovery"),
    "The same order over a lossy air, with absences and restarts: repair by digests",
)
PROTOCOL = Protocol(
    "sb",
    "S_B ordering: a reply is never shown before the message that it answers, and nothing else waits",
    "broadcast",
    (Data, *AntiEntropy.PACKETS),
    {"published": PUBLISHED, "repaired": REPAIRED},
    paper="S_B ordering: message ordering by semantic relation, for group communication over broadcast networks",
    options=Options,
)
