"""What a system model leaves open, and what a protocol's needs rule out.

A *freedom* is something that the network, the hosts or their users may do at any time. A schedule uses freedoms; what
a variant's needs rule out is never tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from castbed.declarations import Protocol
from castbed.errors import ConfigurationError
from castbed.topology import Topology

AIR_OVERTAKING, WIRE_OVERTAKING = "air_overtaking", "wire_overtaking"
AIR_LOSS, WIRE_LOSS = "air_loss", "wire_loss"
AIR_DUPLICATION, WIRE_DUPLICATION = "air_duplication", "wire_duplication"
CRASH, AMNESIA, ABSENCE, HANDOFF, COMMANDS = "crash", "amnesia", "absence", "handoff", "commands"

WORDS: Mapping[str, str] = {
    AIR_OVERTAKING: "overtaking on the air",
    WIRE_OVERTAKING: "wired overtaking",
    AIR_LOSS: "loss on the air",
    WIRE_LOSS: "loss on wires",
    AIR_DUPLICATION: "duplication on the air",
    WIRE_DUPLICATION: "duplication on wires",
    CRASH: "a crash",
    AMNESIA: "a restart without storage",
    ABSENCE: "a node out of range",
    HANDOFF: "a handoff",
    COMMANDS: "users who join, leave or ask",
}
"""How to say each freedom to people."""

SPARED: Mapping[str, tuple[str, ...]] = {
    "holds even on a FIFO air": (AIR_OVERTAKING,),
    "holds even on FIFO wires": (WIRE_OVERTAKING,),
    "holds even on a reliable air": (AIR_LOSS, AIR_DUPLICATION),
}
"""How to say that a counterexample does without freedoms of which it might have used the first."""

_RULED_OUT: Mapping[str, tuple[str, ...]] = {
    "fifo_air": (AIR_OVERTAKING,),
    "fifo_wire": (WIRE_OVERTAKING,),
    "reliable_air": (AIR_LOSS, AIR_DUPLICATION),
    "reliable_wire": (WIRE_LOSS, WIRE_DUPLICATION),
    "no_crash": (CRASH, AMNESIA),
    "no_absence": (ABSENCE,),
}
_ON_AIR = {AIR_OVERTAKING, AIR_LOSS, AIR_DUPLICATION, ABSENCE}
_ON_WIRES = {WIRE_OVERTAKING, WIRE_LOSS, WIRE_DUPLICATION}
_IN_CELLS = {HANDOFF}


def freedoms_of(protocol: Protocol, needs: Iterable[str], topology: Topology) -> frozenset[str]:
    """Everything that may happen to the protocol on this topology."""
    free = set(WORDS)
    for need in needs:
        free.difference_update(_RULED_OUT.get(need, ()))
    if topology.model == "sites":
        free -= _ON_AIR
    if not topology.fixed:
        free -= _ON_WIRES
    if len(topology.numbers("station")) < 2:
        free -= _IN_CELLS
    if not protocol.commands:
        free.discard(COMMANDS)
    return frozenset(free)


def check_freedom(name: str, key: str) -> str:
    """The name, if a freedom has it; `key` is where it is written."""
    if name not in WORDS:
        raise ConfigurationError(key, f"there is no freedom {name!r} (there are: {', '.join(WORDS)})")
    return name


def needs_in_words(used: Iterable[str], allowed: Iterable[str]) -> list[str]:
    """What a counterexample needs, then what it does without although the model allows it or people wonder."""
    needed = set(used)
    words = [f"needs {WORDS[freedom]}" for freedom in WORDS if freedom in needed]
    spared = [said for said, free in SPARED.items() if needed.isdisjoint(free) and free[0] in set(allowed)]
    return words + spared
