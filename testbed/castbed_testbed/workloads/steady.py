"""`steady`: senders submit messages of one size at a rate, as new threads or as replies to what they have seen."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any, Literal

import msgspec

from castbed.application import Application, Setting
from castbed.declarations import Workload
from castbed.errors import ConfigurationError
from castbed.units import ByteSize, Duration
from castbed.values import Group, Message, Mid

SECOND = 1_000_000_000
RATE_MAX = 1_000_000
REPLY_MEMORY = 64  # how many of the last deliveries a sender may answer


class SteadyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`rate` is in messages per second and per sender; `senders` a number of nodes, names, or left out for all.

    With `byte_rate`, in bytes per second and per sender, it follows from the size: larger messages are fewer.
    A message answers a random one of those last delivered at its sender with probability `replies`. `start` keeps the
    senders quiet at first; `count` is the most that each of them sends.
    """

    rate: Annotated[float, msgspec.Meta(gt=0, le=RATE_MAX)] = 1.0
    byte_rate: ByteSize | None = None
    size: ByteSize = ByteSize(64)
    senders: Annotated[int, msgspec.Meta(ge=1)] | list[str] | None = None
    arrivals: Literal["regular", "poisson"] = "poisson"
    replies: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    start: Duration = Duration(0)
    count: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Steady(Application):
    """The sender on one node."""

    def __init__(self, setting: Setting, options: SteadyOptions) -> None:
        super().__init__(setting, options)
        self.name = setting.topology.name(self.me)
        self.sends = _is_sender(setting, options)
        self.groups: list[Group] = _open_groups(setting, options)
        self.seen: dict[Group, deque[Mid]] = {}
        self.sent = 0
        self._interval = SECOND / _rate(options)

    def listens(self) -> bool:
        return self.sends and self.options.replies > 0

    def started(self) -> None:
        if self.sends:
            self.wake("send", max(self.options.start - self.now, 0) + self._first_gap())

    def joined(self, group: Group) -> None:
        if group not in self.groups:
            self.groups.append(group)

    def left(self, group: Group) -> None:
        if group in self.groups:
            self.groups.remove(group)
        self.seen.pop(group, None)

    def delivered(self, message: Message) -> None:
        self.seen.setdefault(message.group, deque(maxlen=REPLY_MEMORY)).append(message.mid)

    def woken(self, name: Any) -> None:  # noqa: ARG002 (there is only one wake)
        if self.now >= self.setting.duration or self.sent == self.options.count:
            return
        if self.groups:
            self._send(self.setting.random.choice(self.groups))
        self.wake("send", self._gap())

    def _send(self, group: Group) -> None:
        self.sent += 1
        random = self.setting.random
        seen = self.seen.get(group)
        answers = bool(seen) and random.random() < self.options.replies
        label = f"{self.name}:{self.now}:{self.sent}".encode()
        payload = label.ljust(self.options.size, b".")[: max(self.options.size, len(label))]
        self.submit(payload, group, random.choice(seen) if answers and seen else None)

    def _gap(self) -> int:
        if self.options.arrivals == "regular":
            return max(1, int(self._interval))
        return max(1, int(self.setting.random.expovariate(1) * self._interval))

    def _first_gap(self) -> int:
        """Regular senders start at different phases, so that they do not all send at once."""
        if self.options.arrivals == "regular":
            return int(self.setting.random.random() * self._interval)
        return self._gap()


def _rate(options: SteadyOptions) -> float:
    """Messages per second."""
    if options.byte_rate is None:
        return options.rate
    if options.rate != SteadyOptions().rate:
        raise ConfigurationError("workload.rate", "follows from the byte rate")
    rate = options.byte_rate / max(options.size, 1)
    if not 0 < rate <= RATE_MAX:
        raise ConfigurationError("workload.byte_rate", f"makes {rate:g} messages of this size a second")
    return rate


def _open_groups(setting: Setting, options: SteadyOptions) -> list[Group]:
    """A sender that is named and in no group sends to the groups of the topology from outside."""
    groups = setting.topology.groups
    named = isinstance(options.senders, list) and setting.topology.name(setting.me) in options.senders
    outside = not any(setting.me in members for members in groups.values())
    return list(groups) if named and outside else []


def _is_sender(setting: Setting, options: SteadyOptions) -> bool:
    topology, senders = setting.topology, options.senders
    if isinstance(senders, list):
        for name in senders:
            if not topology.has(name):
                raise ConfigurationError("workload.senders", f"there is no node {name!r}")
        return topology.name(setting.me) in senders
    members = {member for members in topology.groups.values() for member in members}
    able = members or set(topology.numbers())
    return setting.me in able and (senders is None or setting.me in sorted(able)[:senders])


STEADY = Workload("steady", "Senders submit messages of one size at a rate", Steady, SteadyOptions)
