"""`m2mc-churn`: people who come late, talk, answer, leave and come back, so that groups change all the time.

The first nodes create the groups; everybody else discovers them by advertising. The application `chat` on the same node
accepts what is offered.
"""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any

import msgspec

from castbed import Application, Duration, Group, Message, Mid, Setting, Workload
from castbed.values import group_text
from castbed_plugins.m2mc.commands import Advertise, CreateGroup, LeaveGroup

SECOND = 1_000_000_000
SEEN_MAX = 32  # of the last deliveries in a group, which a reply may answer
CREATE, DISCOVER, TALK, LEAVE = "create", "discover", "talk", "leave"


class ChurnOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`rate` is in messages per second and node; `stay` and `away` are mean times in a group and out of it.

    Everybody discovers the groups within `arrive`. Nobody leaves in the last quarter, so that the run can settle.
    """

    groups: Annotated[int, msgspec.Meta(ge=1, le=16)] = 1
    rate: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 2.0
    replies: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.6
    arrive: Duration = Duration(SECOND)
    stay: Duration = Duration(3 * SECOND)
    away: Duration = Duration(SECOND)


class Churn(Application):
    """One person."""

    options: ChurnOptions

    def __init__(self, setting: Setting, options: ChurnOptions) -> None:
        super().__init__(setting, options)
        self.groups: list[Group] = []
        self.seen: dict[Group, deque[Mid]] = {}
        self.said = 0

    def started(self) -> None:
        random = self.setting.random
        founder = self.setting.topology.numbers().index(self.me) < self.options.groups
        if founder and self.now == 0:
            self.wake(CREATE, 0)
        self.wake(DISCOVER, 1 + int(random.random() * self.options.arrive))
        self.wake(TALK, self._about(SECOND / self.options.rate))

    def joined(self, group: Group) -> None:
        self.groups.append(group)
        self.seen[group] = deque(maxlen=SEEN_MAX)
        self.wake((LEAVE, group), self._about(self.options.stay))

    def left(self, group: Group) -> None:
        self.groups.remove(group)
        self.seen.pop(group)
        self.wake(DISCOVER, self._about(self.options.away))

    def delivered(self, message: Message) -> None:
        if message.group in self.seen:
            self.seen[message.group].append(message.mid)

    def woken(self, name: Any) -> None:
        if name == CREATE:
            self.call(CreateGroup(f"talk {self.me}"))
        elif name == DISCOVER:
            self.call(Advertise())
        elif name == TALK:
            self._talk()
        else:
            self._leave(name[1])

    def _talk(self) -> None:
        if self.now >= self.setting.duration:
            return
        if self.groups:
            self._say(self.setting.random.choice(self.groups))
        self.wake(TALK, self._about(SECOND / self.options.rate))

    def _say(self, group: Group) -> None:
        random, seen = self.setting.random, self.seen[group]
        self.said += 1
        parent = random.choice(seen) if seen and random.random() < self.options.replies else None
        self.submit(f"{self.me}:{self.now}:{self.said}".encode(), group, parent)

    def _leave(self, group: Group) -> None:
        if group in self.groups and self.now < self.setting.duration * 3 // 4:
            self.call(LeaveGroup(group_text(group, self.setting.topology.name)))

    def _about(self, mean: float) -> int:
        return 1 + int(self.setting.random.expovariate(1) * mean)


CHURN = Workload("m2mc-churn", "People who join late, talk, leave and come back", Churn, ChurnOptions)
