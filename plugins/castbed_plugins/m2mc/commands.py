"""What applications ask of M2MC, and what it tells them (spec 4.1).

Commands name groups as people do (`"1.C"`), so that a script can write them; machines turn the text into the number.
"""

from __future__ import annotations

from castbed import Command, Group, Message, Notice
from castbed_plugins.m2mc.packets import GroupInfo


class CreateGroup(Command, frozen=True):
    """Make a group and be its first member (*CreateGroup*)."""

    desc: str


class JoinGroup(Command, frozen=True):
    """Accept an offer (*joinThisGroup*)."""

    group: str


class RejectGroup(Command, frozen=True):
    """Decline an offer (*rejectGrp*)."""

    group: str


class LeaveGroup(Command, frozen=True):
    """Stop being a member (*leaveThisGroup*)."""

    group: str


class Advertise(Command, frozen=True):
    """Ask everybody in range which groups there are (*sendAdvMsg*)."""


class Synchronize(Command, frozen=True):
    """Ask the members of a group for the messages that this process missed."""

    group: str


class Reconnected(Command, frozen=True):
    """The process was out of range and is back."""


class GroupOffered(Notice, frozen=True):
    """There is a group that this process does not know; join or reject it (*displayNewGroupInfo*)."""

    info: GroupInfo


class GroupCreated(Notice, frozen=True):
    """The group that this process asked for exists (*createdNewGroup*)."""

    group: Group
    desc: str


class GroupResumed(Notice, frozen=True):
    """This process is a member again; `messages` were delivered to it before and will not be again.

    Not `complete`: so was more, of which only the identities are still known.
    """

    group: Group
    desc: str
    messages: tuple[Message, ...]
    complete: bool = True


GJLP_COMMANDS = (CreateGroup, JoinGroup, RejectGroup, LeaveGroup, Advertise, Reconnected)
COMMANDS = (*GJLP_COMMANDS, Synchronize)
