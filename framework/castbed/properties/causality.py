"""Happened-before, through what each node submitted and delivered, in that order.

A *thread* is one memory of one node: it goes on through a restart unless the storage was lost. Messages of a thread
are counted 1, 2, 3, ... as they were submitted, so the past of a message is a vector: how far into each thread
it reaches. Only the *news* of each message is kept, the entries that grew since the previous one of its thread. They
are all that is needed (M. Singhal, A. Kshemkalyani, Information Processing Letters 43, 1992).

Lanes are read as far as they go, and wait at a delivery until its submission was read: no clock is looked at.
"""

from __future__ import annotations

from collections import deque

from castbed.history import LocalEvent
from castbed.properties.facts import Delivery, Facts, Submission
from castbed.values import NodeNumber

Thread = int
News = list[tuple[Thread, int]]


class Causality:
    """The pasts of all messages of a history.

    `place` gives each message its thread and its count there; `threads` lists the messages of each thread;
    `news[thread][count]` is what message `count` of the thread knows beyond the one before it.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.place: dict[int, tuple[Thread, int]] = {}
        self.threads: list[list[int]] = []
        self.news: list[list[News]] = []
        self._thread_of: dict[tuple[NodeNumber, int], Thread] = {}
        for submission in facts.submissions.values():
            self._count(submission)
        _Reading(self).run()

    def _count(self, submission: Submission) -> None:
        owner = submission.event.node, submission.memory
        thread = self._thread_of.setdefault(owner, len(self.threads))
        if thread == len(self.threads):
            self.threads.append([])
            self.news.append([[]])
        self.threads[thread].append(submission.number)
        self.news[thread].append([])
        self.place[submission.number] = thread, len(self.threads[thread])

    def thread(self, node: NodeNumber, memory: int) -> Thread | None:
        return self._thread_of.get((node, memory))

    def path(self, before: int, after: int) -> list[LocalEvent]:
        """How `before` came to be before `after`: submissions and deliveries of a shortest chain; [] if it is not."""
        reached: dict[int, tuple[int, LocalEvent | None]] = {}
        explored: dict[Thread, int] = {}
        queue = deque([after])
        while queue and before not in reached:
            message = queue.popleft()
            for earlier, delivery in self._directly_before(message, explored):
                if earlier != after and earlier not in reached and earlier in self.place:
                    reached[earlier] = message, delivery
                    queue.append(earlier)
        return self._chain(before, reached)

    def _directly_before(self, message: int, explored: dict[Thread, int]) -> list[tuple[int, LocalEvent | None]]:
        """What the submitter did before it submitted the message, as far as not explored yet."""
        submission = self.facts.submissions[message]
        lane = self.facts.steps[submission.event.node]
        found: list[tuple[int, LocalEvent | None]] = []
        thread = self.place[message][0]
        for at in range(explored.get(thread, 0), len(lane)):
            step = lane[at]
            if step is submission:
                explored[thread] = at
                return found
            if step.memory == submission.memory:
                found.append((step.number, step.event if isinstance(step, Delivery) else None))
        return []  # a later message of the thread was here before

    def _chain(self, before: int, reached: dict[int, tuple[int, LocalEvent | None]]) -> list[LocalEvent]:
        events: list[LocalEvent] = []
        message = before
        while message in reached:
            following, delivery = reached[message]
            events += [self.facts.submissions[message].event] + ([delivery] if delivery is not None else [])
            message = following
        return [*events, self.facts.submissions[message].event] if events else []


class _Reading:
    """Works out the news of every message."""

    def __init__(self, causality: Causality) -> None:
        self.causality = causality
        self.lanes = {node: _up_to_last_submission(lane) for node, lane in causality.facts.steps.items()}
        self.at = dict.fromkeys(self.lanes, 0)
        self.known: dict[Thread, list[int]] = {}
        self.grown: dict[Thread, set[Thread]] = {}
        self.read: set[int] = set()
        self.waiting: dict[int, list[NodeNumber]] = {}

    def run(self) -> None:
        """Reads all lanes; where they wait for each other in a circle, the delivery of the first one is passed over."""
        ready = deque(sorted(self.lanes))
        while ready or self.waiting:
            if not ready:
                ready.extend(self._break_circle())
            self._advance(ready.popleft(), ready)

    def _break_circle(self) -> list[NodeNumber]:
        message, nodes = min(self.waiting.items(), key=lambda item: min(item[1]))
        first = min(nodes)
        nodes.remove(first)
        if not nodes:
            del self.waiting[message]
        self.at[first] += 1
        return [first]

    def _advance(self, node: NodeNumber, ready: deque[NodeNumber]) -> None:
        lane = self.lanes[node]
        while self.at[node] < len(lane):
            step = lane[self.at[node]]
            if isinstance(step, Submission):
                self._submit(step)
                ready.extend(self.waiting.pop(step.number, ()))
            elif step.number in self.read:
                self._learn(step)
            elif step.number in self.causality.place:
                self.waiting.setdefault(step.number, []).append(node)
                return
            self.at[node] += 1

    def _submit(self, submission: Submission) -> None:
        thread, count = self.causality.place[submission.number]
        known, grown = self._knowledge(thread)
        self.causality.news[thread][count] = [(other, known[other]) for other in grown]
        grown.clear()
        known[thread] = count
        self.read.add(submission.number)

    def _learn(self, delivery: Delivery) -> None:
        """Everything in the past of a delivered message is in the past of what the node submits next."""
        mine = self.causality.thread(delivery.event.node, delivery.memory)
        if mine is None:
            return
        thread, count = self.causality.place[delivery.number]
        known, grown = self._knowledge(mine)
        if known[thread] >= count:
            return
        for news in self.causality.news[thread][known[thread] + 1 : count + 1]:
            for other, reach in news:
                if known[other] < reach:
                    known[other] = reach
                    grown.add(other)
        known[thread] = count
        grown.add(thread)

    def _knowledge(self, thread: Thread) -> tuple[list[int], set[Thread]]:
        if thread not in self.known:
            self.known[thread] = [0] * len(self.causality.threads)
            self.grown[thread] = set()
        return self.known[thread], self.grown[thread]


def _up_to_last_submission(lane: list[Submission | Delivery]) -> list[Submission | Delivery]:
    """What comes after the last submission of a node is in the past of nothing."""
    last = max((at for at, step in enumerate(lane) if isinstance(step, Submission)), default=-1)
    return lane[: last + 1]
