"""The other side of a machine: what uses a protocol on one node, written sans-IO like the protocol itself.

Workloads and applications are both of this kind. A node may host several; all of them see every delivery and notice.
"""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Any

import msgspec

from castbed.packets import Command, Notice
from castbed.topology import Topology
from castbed.values import DEFAULT_GROUP, Group, Message, Mid, NodeNumber


class Setting(msgspec.Struct, frozen=True):
    """Where an application runs; `duration` is the time in which it may submit, `commands` what the protocol takes."""

    me: NodeNumber
    topology: Topology
    random: Random
    duration: int
    commands: tuple[type[Command], ...] = ()


class Wish(msgspec.Struct, frozen=True, gc=False):
    """Base of what an application asks of its node."""


class Submit(Wish, frozen=True):
    """Send this message."""

    message: Message


class Call(Wish, frozen=True):
    """Ask the protocol for something else."""

    command: Command


class Wake(Wish, frozen=True):
    """Call `woken` with this name after `delay` nanoseconds."""

    name: Hashable
    delay: int


class Application:
    """Base of workloads and applications: handlers that the node calls, wishes that they make."""

    def __init__(self, setting: Setting, options: Any = None) -> None:
        self.setting = setting
        self.options = options
        self.me = setting.me
        self.now = 0
        self._wishes: list[Wish] = []

    def listens(self) -> bool:
        """Whether this program wants to see deliveries; asked once, when the node starts."""
        return type(self).delivered is not Application.delivered

    # --- handlers ----------------------------------------------------------------------------------------------------

    def started(self) -> None:
        """The node is up (also after a restart)."""

    def accepted(self, message: Message) -> None:
        """A message of ours has its identity."""

    def refused(self, message: Message, reason: str) -> None:
        """A message of ours was not taken."""

    def joined(self, group: Group) -> None:
        """This node is a member of the group from now on."""

    def left(self, group: Group) -> None:
        """This node is no longer a member of the group."""

    def delivered(self, message: Message) -> None:
        """The protocol delivered a message."""

    def told(self, notice: Notice) -> None:
        """The protocol says something that is not a delivery."""

    def woken(self, name: Any) -> None:
        """A `wake` ran out."""

    # --- wishes ------------------------------------------------------------------------------------------------------

    def submit(
        self,
        payload: bytes,
        group: Group = DEFAULT_GROUP,
        parent: Mid | None = None,
        to: tuple[NodeNumber, ...] | None = None,
    ) -> None:
        self._wishes.append(Submit(Message(group=group, payload=payload, parent=parent, to=to)))

    def call(self, command: Command) -> None:
        self._wishes.append(Call(command))

    def wake(self, name: Hashable, delay: int) -> None:
        self._wishes.append(Wake(name, delay))

    def take_wishes(self) -> list[Wish]:
        """For hosts: what was wished since the last call."""
        wishes, self._wishes = self._wishes, []
        return wishes
