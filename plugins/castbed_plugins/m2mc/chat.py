"""The Threaded Chat of the paper, without its windows (spec 4.7): a tree of messages per group, and text made of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from castbed import Application, ContractError, Group, Message, Mid, Notice, Setting
from castbed.values import group_text
from castbed_plugins.m2mc.commands import GroupCreated, GroupOffered, GroupResumed, JoinGroup, RejectGroup
from castbed_plugins.m2mc.packets import GroupInfo

ROOT = None
INDENT = "  "


class ChatOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which offered groups the user joins: all, none, or those of these descriptions."""

    accept: Literal["all", "none"] | tuple[str, ...] = "all"

    def accepts(self, desc: str) -> bool:
        return self.accept == "all" or (isinstance(self.accept, tuple) and desc in self.accept)


class Conversation:
    """The messages of one group: replies under what they answer, in the order of delivery."""

    def __init__(self) -> None:
        self.tree: dict[Mid | None, list[Mid]] = {ROOT: []}
        self.text: dict[Mid, str] = {}
        self.complete = True

    def add(self, message: Message) -> None:
        """Show a message; one whose parent was never shown breaks the contract of M2MC (M2-S8)."""
        parent = message.parent
        if parent not in self.tree:
            if self.complete:
                raise ContractError(f"{message.mid.text()} answers a message that is not in the conversation")
            parent = ROOT
        self.tree[parent].append(message.mid)
        self.tree.setdefault(message.mid, [])
        self.text[message.mid] = message.payload.decode(errors="replace")


class Chat(Application):
    """One user's chat: answers offers, keeps the conversations."""

    options: ChatOptions

    def __init__(self, setting: Setting, options: ChatOptions | None = None) -> None:
        super().__init__(setting, options or ChatOptions())
        self.offers: dict[Group, GroupInfo] = {}
        self.conversations: dict[Group, Conversation] = {}

    def told(self, notice: Notice) -> None:
        if isinstance(notice, GroupOffered):
            self._decide(notice.info)
        elif isinstance(notice, GroupCreated):
            self.conversations[notice.group] = Conversation()
        elif isinstance(notice, GroupResumed):
            self._rebuild(notice)

    def delivered(self, message: Message) -> None:
        self.conversations.setdefault(message.group, Conversation()).add(message)

    def say(self, group: Group, text: str, reply_to: Mid | None = ROOT) -> None:
        """What the user types: a new thread, or a reply to a message that is shown."""
        self.submit(text.encode(), group, reply_to)

    def render(self, group: Group) -> str:
        """The conversation as text, depth first: one line per message, two spaces of indent per level."""
        conversation = self.conversations.get(group, Conversation())
        lines = []
        stack = [(mid, 0) for mid in reversed(conversation.tree[ROOT])]
        while stack:
            mid, level = stack.pop()
            name = self.setting.topology.name(mid.sender)
            lines.append(f"{INDENT * level}{name}: {conversation.text[mid]}")
            stack.extend((reply, level + 1) for reply in reversed(conversation.tree[mid]))
        return "\n".join(lines)

    def _decide(self, info: GroupInfo) -> None:
        self.offers[info.group] = info
        name = group_text(info.group, self.setting.topology.name)
        if self.options.accepts(info.desc):
            self.conversations[info.group] = Conversation()
            self.call(JoinGroup(name))
        else:
            self.call(RejectGroup(name))

    def _rebuild(self, notice: GroupResumed) -> None:
        conversation = self.conversations[notice.group] = Conversation()
        conversation.complete = notice.complete
        for message in notice.messages:
            conversation.add(message)
