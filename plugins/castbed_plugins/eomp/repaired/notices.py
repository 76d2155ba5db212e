"""What a host tells its application when it cannot keep the promise."""

from __future__ import annotations

from castbed import Group, Notice


class Missed(Notice, frozen=True):
    """The node lost its storage: messages of the group up to number `start` will not come (again)."""

    group: Group
    start: int


class Expelled(Notice, frozen=True):
    """The node was silent for too long and is no member of the group any more; it may join again."""

    group: Group
