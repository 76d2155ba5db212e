"""Everything that may go wrong in an experiment, as a value; hosts make it happen and count how often it did.

Probabilities are per copy on the air. A fault that was asked for and never took effect fails the run.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from castbed.units import Duration
from castbed_testbed.delays import Delay

Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class _Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all fault values."""


class Reordering(_Fault, frozen=True):
    """With this probability a copy takes `delay` longer, so that later ones overtake it."""

    probability: Probability
    delay: Delay


class Cut(_Fault, frozen=True):
    """Nothing gets from `source` to `target` for a while; the other direction works."""

    source: str
    target: str
    start: Duration
    end: Duration


class Partition(_Fault, frozen=True):
    """The sides hear nothing of each other for a while; nodes in no side hear everybody."""

    sides: list[list[str]]
    start: Duration
    end: Duration


class Crash(_Fault, frozen=True):
    """The node stops at once, with everything it had in memory."""

    node: str
    at: Duration


class Restart(_Fault, frozen=True):
    """The node starts again, with what it persisted or (storage = false) with nothing."""

    node: str
    at: Duration
    storage: bool = True


class Absence(_Fault, frozen=True):
    """The node is out of range of everybody and comes back."""

    node: str
    start: Duration
    end: Duration


class Handoff(_Fault, frozen=True):
    """The host enters the cell of a station; an empty name takes it out of coverage."""

    host: str
    at: Duration
    to: str = ""


class Membership(_Fault, frozen=True):
    """The node joins or leaves a group; the protocol (or its membership) has to offer that."""

    node: str
    at: Duration
    group: str = "1"


class RandomAbsences(_Fault, frozen=True):
    """`count` absences of random nodes at random times within the duration."""

    count: Count
    length: Delay


class RandomCrashes(_Fault, frozen=True):
    """`count` crashes of random nodes, or of those in one of the `roles`, each restarted after `down`."""

    count: Count
    down: Delay
    storage: bool = True
    roles: list[str] | None = None


class RandomPartitions(_Fault, frozen=True):
    """`count` partitions into two random sides."""

    count: Count
    length: Delay


class Faults(_Fault, frozen=True):
    """All faults of an experiment."""

    loss: Probability = 0.0
    loss_spares: list[str] = []
    """Packet types of which no copy is lost."""
    duplication: Probability = 0.0
    reordering: Reordering | None = None
    cuts: list[Cut] = []
    partitions: list[Partition] = []
    crashes: list[Crash] = []
    restarts: list[Restart] = []
    absences: list[Absence] = []
    handoffs: list[Handoff] = []
    joins: list[Membership] = []
    leaves: list[Membership] = []
    random_absences: RandomAbsences | None = None
    random_crashes: RandomCrashes | None = None
    random_partitions: RandomPartitions | None = None

    def asked_for(self) -> list[str]:
        """The names of the faults that this experiment wants to see."""
        return [name for name in self.__struct_fields__ if getattr(self, name) and name != "loss_spares"]
