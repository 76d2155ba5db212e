"""A recorder that keeps figures instead of events: what the evaluation of a protocol reports, and nothing per event.

Everything counts from the end of the warm-up to the end of the experiment's duration: messages submitted then (their
deliveries may come later, while the run drains), transmissions handed over then, levels gauged then. A message that
nobody counts costs a look at one dictionary.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from castbed.actions import Deliver
from castbed.history import Kind, LocalEvent
from castbed.values import Group, Mid, NodeNumber
from castbed_testbed.evaluation.queues import Queues
from castbed_testbed.plan import Plan
from castbed_testbed.recorder import Measure
from castbed_testbed.sim.media import WIRED, Flight
from castbed_testbed.sim.node import SimNode

MILLISECOND = 1_000_000

Key = tuple[Group, Mid]


class Meter:
    """Collects the figures of one run; `figures` says them when it is over."""

    keeps_events = True
    measure: Measure | None = None

    def __init__(self, plan: Plan, warm_up: int, answers: Mapping[str, Mapping[str, str]]) -> None:
        self.start, self.end = warm_up, int(plan.experiment.duration)
        self.queues = Queues(self.start, self.end)
        self.tags: Counter[str] = Counter()
        self._members = {group: frozenset(members) for group, members in plan.topology.groups.items()}
        self._hosts = plan.topology.numbers("host") or plan.topology.numbers()
        self._submitted: dict[Key, int] = {}
        self._delays = array("q")
        self._levels: dict[tuple[str, NodeNumber], Level] = {}
        self._copies: dict[Key, bytearray] = {}
        self._first = min(self._hosts)
        self._count = max(self._hosts) - self._first + 1
        self._answers = {name: Answers() for name in answers}
        self._requests = {request: self._answers[name] for name, pairs in answers.items() for request in pairs}
        self._replies = {answer: self._answers[name] for name, pairs in answers.items() for answer in pairs.values()}

    # --- what the simulator tells ------------------------------------------------------------------------------------

    def event(self, event: LocalEvent) -> None:
        """A submission, a level or a move; everything else is of no interest here."""
        if event.kind == Kind.SUBMIT and self.start <= event.at < self.end:
            self._submitted[event.message] = event.at
        elif event.kind == Kind.GAUGE:
            level = self._levels.setdefault((event.text, event.node), Level(self.start, self.end))
            level.changed(event.at, event.number)
        elif event.kind == Kind.ATTACH:
            for answers in self._answers.values():
                answers.waiting.pop(event.node, None)

    def deliver(self, node: NodeNumber, at: int, action: Deliver) -> None:  # noqa: ARG002 (the protocol's signature)
        message = action.message
        submitted = self._submitted.get((message.group, message.mid))
        if submitted is not None:
            self._delays.append(at - submitted)

    def queued(self, flight: Flight, queue: object, entered: int, start: int, sent: int) -> None:
        """A transmission was handed over to its transmitter."""
        if self.start <= entered < self.end:
            name = flight.event.first.__class__.__name__
            self.tags[name] += 1
            medium = "wire" if flight.cell is WIRED else "air"
            self.queues.add(f"{flight.sender.role}_{medium}", queue, entered, start, sent)
            if name in self._requests:
                self._requests[name].asked(flight.sender.number, entered)

    def heard(self, flight: Flight, receivers: tuple[SimNode, ...], now: int) -> None:
        """A transmission arrives; copies of messages on their way down to hosts are counted for each of them."""
        packet = flight.event.first
        answers = self._replies.get(packet.__class__.__name__)
        if answers is not None:
            for node in receivers:
                if node.cell is flight.cell:
                    answers.answered(node.number, now)
        if flight.cell is WIRED or flight.sender.role == "host":
            return
        key = getattr(packet, "group", 0), getattr(packet, "mid", None)
        if key in self._submitted:
            self._count_copies(key, flight, receivers)

    def _count_copies(self, key: Key, flight: Flight, receivers: tuple[SimNode, ...]) -> None:
        copies = self._copies.get(key)
        if copies is None:
            copies = self._copies[key] = bytearray(self._count)
        members = self._members.get(key[0], frozenset())
        for node in receivers:
            at = node.number - self._first
            if node.cell is flight.cell and node.number in members and copies[at] < COPIES_MAX:
                copies[at] += 1

    def appender(self, node: NodeNumber) -> Callable[[bytes], None] | None:  # noqa: ARG002 (the protocol's signature)
        return None

    def appended(self, count: int) -> None:
        """Nothing is appended here."""

    def breathe(self) -> None:
        """Nothing waits to be written."""

    def close(self) -> None:
        """Nothing to close."""

    # --- what it comes to --------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """Everything that was measured, as plain data; tables name figures by their path (`delay_ms.mean`)."""
        owed = sum(len(self._members.get(group, ())) for group, _ in self._submitted)
        return {
            "messages": len(self._submitted),
            "pairs": owed,
            "undelivered": owed - len(self._delays),
            "delay_ms": spread(self._delays),
            **self.queues.figures(),
            "level": self._mean_levels(),
            "copies": self._copy_figures(),
            "sent": dict(sorted(self.tags.items())),
            "answer_ms": {name: spread(answers.took) for name, answers in self._answers.items()},
        }

    def _mean_levels(self) -> dict[str, float]:
        """The average over time of each gauge, and over the nodes that have it."""
        by_name: dict[str, list[float]] = defaultdict(list)
        for (name, _), level in sorted(self._levels.items()):
            by_name[name].append(level.mean())
        return {name: round(sum(means) / len(means), 3) for name, means in by_name.items()}

    def _copy_figures(self) -> dict[str, float]:
        """Copies on the air that reached one member, per message that reached it at all."""
        counts: Counter[int] = Counter()
        for copies in self._copies.values():
            counts.update(copies)
        pairs = sum(number for count, number in counts.items() if count)
        total = sum(count * number for count, number in counts.items())
        repeated = sum(number for count, number in counts.items() if count > 1)
        return {"mean": round(total / pairs, 6) if pairs else 0, "max": max(counts, default=0), "repeated": repeated}


COPIES_MAX = 255  # of one message at one host; what comes after is not counted


class Level:
    """The average over time of a value that is told whenever it changes."""

    __slots__ = ("_at", "_end", "_start", "_sum", "_value")

    def __init__(self, start: int, end: int) -> None:
        self._start, self._end = start, end
        self._at, self._value, self._sum = start, 0, 0

    def changed(self, at: int, value: int) -> None:
        """It is `value` from now on."""
        until = min(max(at, self._start), self._end)
        self._sum += self._value * (until - self._at)
        self._at, self._value = until, value

    def mean(self) -> float:
        self.changed(self._end, self._value)
        return self._sum / (self._end - self._start)


class Answers:
    """How long nodes wait for an answer, from the first request on; a move ends the waiting."""

    def __init__(self) -> None:
        self.waiting: dict[NodeNumber, int] = {}
        self.took = array("q")

    def asked(self, node: NodeNumber, at: int) -> None:
        self.waiting.setdefault(node, at)

    def answered(self, node: NodeNumber, at: int) -> None:
        asked = self.waiting.pop(node, None)
        if asked is not None:
            self.took.append(at - asked)


def spread(samples: array[int]) -> dict[str, float | None]:
    """Mean and quantiles in milliseconds; None where nothing was measured."""
    ordered = sorted(samples)
    if not ordered:
        return dict.fromkeys(("mean", "p50", "p95", "p99", "max"))
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    chosen = {name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] for name, share in at.items()}
    named = {"mean": sum(ordered) / len(ordered), **chosen}
    return {name: round(value / MILLISECOND, 6) for name, value in named.items()}
