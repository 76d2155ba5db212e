"""Total order from Lamport's clocks, as a plugin: what it declares, and the hook that registers it."""

from __future__ import annotations

from castbed import Protocol, Variant, hookimpl
from castbed.registry import Register

from castbed_lamport.machine import Member, Options
from castbed_lamport.packets import Ack, Data

__all__ = ["PROTOCOL", "Ack", "Data", "Member", "Options", "castbed_protocols"]

PROTOCOL = Protocol(
    name="lamport",
    summary="Total order from Lamport's clocks: the earliest stamp goes first once everybody was heard later",
    model="broadcast",
    packets=(Data, Ack),
    variants={
        "published": Variant(
            roles={"member": Member},
            needs=frozenset({"air", "reliable_air", "no_crash", "no_absence"}),
            guarantees=(
                "integrity",
                "no_duplication",
                "agreement",
                "validity",
                "fifo",
                "causal",
                "total",
                "exactly_once",
                "liveness",
            ),
        )
    },
    paper="Lamport, Time, clocks, and the ordering of events in a distributed system, CACM 21(7), 1978",
    options=Options,
)


@hookimpl
def castbed_protocols(register: Register[Protocol]) -> None:
    """Add the one protocol of this distribution."""
    register.add(PROTOCOL)
