"""M2MC: groups that are discovered, joined and left, S_B order within each, and recovery of missed messages."""

from castbed_plugins.m2mc.chat import Chat, ChatOptions
from castbed_plugins.m2mc.churn import CHURN
from castbed_plugins.m2mc.commands import (
    Advertise,
    CreateGroup,
    GroupCreated,
    GroupOffered,
    GroupResumed,
    JoinGroup,
    LeaveGroup,
    Reconnected,
    RejectGroup,
    Synchronize,
)
from castbed_plugins.m2mc.declarations import CHAT, MEMBERSHIPS, PROTOCOL
from castbed_plugins.m2mc.options import M2mcOptions, RosterOptions
from castbed_plugins.m2mc.packets import GroupInfo

__all__ = [
    "CHAT",
    "CHURN",
    "MEMBERSHIPS",
    "PROTOCOL",
    "Advertise",
    "Chat",
    "ChatOptions",
    "CreateGroup",
    "GroupCreated",
    "GroupInfo",
    "GroupOffered",
    "GroupResumed",
    "JoinGroup",
    "LeaveGroup",
    "M2mcOptions",
    "Reconnected",
    "RejectGroup",
    "RosterOptions",
    "Synchronize",
]
