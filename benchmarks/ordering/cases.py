"""What is measured: cases, and what each member of a group saw in one; a case in which members disagree is an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

MEMBERS = 4
RATE = 200  # messages per second where latency is measured
SIZE_MIN = 16  # sender, number, and when it was sent, which are at the head of every payload


class Case(msgspec.Struct, frozen=True):
    """So many of the last members send messages of one size for some time, at a rate or (0) as quickly as they can."""

    senders: int
    size: int
    seconds: float
    rate: int = 0

    @property
    def name(self) -> str:
        if self.rate:
            return f"latency, {self.size} B at {self.rate}/s"
        return f"throughput, {self.size} B from {self.senders}"


class Seen(msgspec.Struct):
    """What one member saw of a run; times are those of CLOCK_MONOTONIC, which all members of a machine share."""

    sent: int
    delivered: int
    order: str
    first_sent_ns: int
    last_delivered_ns: int
    p50_us: float
    p90_us: float
    p99_us: float
    cpu_us: float = 0.0


class Outcome(msgspec.Struct):
    """What a run comes to: rates count what every member delivered, until the slowest had; latencies are medians."""

    messages_per_s: float
    p50_us: float
    p90_us: float
    p99_us: float
    cpu_us_per_message: float
    messages: int


class System(Protocol):
    """A system that is compared; a context in which its members are up, as far as they outlive a run."""

    @property
    def name(self) -> str: ...

    def __enter__(self) -> System: ...

    def __exit__(self, *error: object) -> None: ...

    def run(self, case: Case) -> Outcome: ...


class BrokenRunError(RuntimeError):
    """A run that tells nothing: something was lost, or members saw different orders."""


def outcome(system: str, case: Case, seen: Sequence[Seen], cpu_us: float) -> Outcome:
    """Add up what the members saw, once it is certain that all saw the same."""
    sent = sum(member.sent for member in seen)
    _check(f"{system}, {case.name}", seen, sent)
    wall_ns = max(member.last_delivered_ns for member in seen) - min(member.first_sent_ns for member in seen)
    return Outcome(
        sent / (wall_ns / 1e9),
        _middle([member.p50_us for member in seen]),
        _middle([member.p90_us for member in seen]),
        _middle([member.p99_us for member in seen]),
        cpu_us / sent,
        sent,
    )


def _check(run: str, seen: Sequence[Seen], sent: int) -> None:
    if len(seen) != MEMBERS:
        raise BrokenRunError(f"{run}: {len(seen)} of {MEMBERS} members say what they saw")
    if not sent:
        raise BrokenRunError(f"{run}: nothing was sent")
    for number, member in enumerate(seen, start=1):
        if member.delivered != sent:
            raise BrokenRunError(f"{run}: member {number} delivered {member.delivered} of {sent} messages")
    if len({member.order for member in seen}) != 1:
        raise BrokenRunError(f"{run}: the members delivered in different orders")


def _middle(values: Sequence[float]) -> float:
    """The lower median: a value that some member saw."""
    return sorted(values)[(len(values) - 1) // 2]


def share(values: Sequence[float], of: float) -> float:
    """The value below which this share of the sorted values lies."""
    return values[min(int(len(values) * of), len(values) - 1)]
