"""The workload of our side: members that send for some time, in a closed loop or at a rate, and note what they deliver.

A delivery costs two appends to flat arrays, which take no memory that is not needed (the peers' members, in C and Java,
keep a number per delivery). Everything else is reckoned when nothing comes any more. Each member then leaves a file.
"""

from __future__ import annotations

import resource
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from time import monotonic_ns
from typing import Annotated, Any

import msgspec

from castbed import Message, Workload, hookimpl
from castbed.application import Application, Setting
from castbed.registry import Register
from castbed.units import Duration
from ordering.cases import SIZE_MIN, Seen, share

HEAD = Struct("<IIQ")  # sender, number, and when it was sent
BEGIN, SEND, REPORT = "begin", "send", "report"
SECOND = 1_000_000_000
assert HEAD.size == SIZE_MIN


class LoadOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`senders` begin at `start` and send until the duration is over; `report_after` that, all write to `folder`.

    Without a `rate` each has `outstanding` messages on their way, and sends one whenever it delivers one of its own.
    """

    senders: list[str]
    size: Annotated[int, msgspec.Meta(ge=SIZE_MIN)]
    start: Duration
    report_after: Duration
    folder: str
    rate: Annotated[int, msgspec.Meta(ge=0)] = 0
    outstanding: Annotated[int, msgspec.Meta(ge=1)] = 1


class Load(Application):
    """One member; nodes that are in no group neither send nor report."""

    def __init__(self, setting: Setting, options: LoadOptions) -> None:
        super().__init__(setting, options)
        topology = setting.topology
        self._is_member = any(self.me in members for members in topology.groups.values())
        self._sends = topology.name(self.me) in options.senders
        self._again = self._sends and not options.rate
        self._rest = bytes(options.size - HEAD.size)
        self._sent = 0
        self._cpu_us = 0.0
        self._heads = bytearray()
        self._times = array("Q")

    def listens(self) -> bool:
        return self._is_member

    def started(self) -> None:
        if self._is_member:
            self.wake(BEGIN, self.options.start)
            self.wake(REPORT, self.setting.duration + self.options.report_after)

    def delivered(self, message: Message) -> None:
        self._heads += message.payload[:SIZE_MIN]
        self._times.append(monotonic_ns())
        if self._again and message.mid.sender == self.me and self.now < self.setting.duration:
            self._send()

    def refused(self, message: Message, reason: str) -> None:
        raise RuntimeError(f"{message.mid} was refused: {reason}")

    def woken(self, name: Any) -> None:
        if name == REPORT:
            self._report()
        elif name == BEGIN:
            self._cpu_us = _cpu_us()
            for _ in range(self.options.outstanding if self._again else 0):
                self._send()
        if name != REPORT and self._sends and self.options.rate and self.now < self.setting.duration:
            self._send()
            self.wake(SEND, SECOND // self.options.rate)

    def _send(self) -> None:
        self._sent += 1
        self.submit(HEAD.pack(self.me, self._sent, monotonic_ns()) + self._rest)

    def _report(self) -> None:
        name = self.setting.topology.name(self.me)
        seen = summed_up(self._sent, self._heads, self._times)
        seen.cpu_us = _cpu_us() - self._cpu_us
        Path(self.options.folder, name).write_bytes(msgspec.json.encode(seen))


def summed_up(sent: int, heads: bytes | bytearray, times: Sequence[int]) -> Seen:
    """What a member saw that sent so many messages and delivered these, one head behind the other, at these times."""
    sending = [since for _, _, since in HEAD.iter_unpack(heads)]
    late = sorted((there - since) / 1000 for there, since in zip(times, sending, strict=True)) or [0.0]
    order = blake2b(heads, digest_size=16).hexdigest()
    first, last = min(sending, default=0), max(times, default=0)
    return Seen(sent, len(times), order, first, last, share(late, 0.5), share(late, 0.9), share(late, 0.99))


def _cpu_us() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e6


@hookimpl
def castbed_workloads(register: Register[Workload]) -> None:
    register.add(Workload("group-load", "Sends in a closed loop or at a rate", Load, LoadOptions))
