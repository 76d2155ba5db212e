"""GJLP, the group join and leave protocol, as published (spec 4.4): what this process knows about groups.

A machine of its own: inside M2MC a part of the GroupManager, elsewhere the membership plugin `gjlp-published`. Its
views are local: each shows the member list of this process and nobody agreed on it.
"""

from __future__ import annotations

from typing import Any

from castbed import Context, Group, Machine, NodeNumber, View, on
from castbed.commands import group_number
from castbed.values import created_group
from castbed_plugins.m2mc.commands import (
    Advertise,
    CreateGroup,
    GroupCreated,
    GroupOffered,
    JoinGroup,
    LeaveGroup,
    Reconnected,
    RejectGroup,
)
from castbed_plugins.m2mc.packets import Adv, GroupInfo, GroupList, Join, Leave

NA = None  # the value of a group that is known and that this process does not belong to


class Row:
    """One group this process belongs to; `current` and `departed` are sets that keep their order (M2-Q16)."""

    def __init__(self, info: GroupInfo) -> None:
        self.group = info.group
        self.desc = info.desc
        self.current = dict.fromkeys(info.current)
        self.departed = dict.fromkeys(info.departed)

    def info(self) -> GroupInfo:
        return GroupInfo(self.group, self.desc, tuple(self.current), tuple(self.departed))

    def merge(self, heard: GroupInfo) -> None:
        """4.4.3 step 3: all departures first, then the members that are new here."""
        for pid in heard.departed:
            self.depart(pid)
        for pid in heard.current:
            if pid not in self.departed:
                self.current.setdefault(pid)

    def depart(self, pid: NodeNumber) -> None:
        self.departed.setdefault(pid)
        self.current.pop(pid, None)


class Gjlp(Machine):
    """One process's table of groups (*GIIT*): no key is an unknown group, NA one that it does not belong to."""

    def __init__(self, context: Context, options: Any = None) -> None:
        super().__init__(context, options)
        self.groups: dict[Group, Row | None] = {}
        self.offers: dict[Group, GroupInfo] = {}
        self.group_counter = 0
        self._shown: dict[Group, tuple[NodeNumber, ...]] = {}
        self._views: dict[Group, int] = {}

    # --- what the application asks -----------------------------------------------------------------------------------

    @on(CreateGroup)
    def create_group(self, command: CreateGroup) -> None:
        group = self.create(command.desc)
        self.announce()
        self.tell(GroupCreated(group, command.desc))

    @on(JoinGroup)
    def join_group(self, command: JoinGroup) -> None:
        self.enter(self.number(command.group))

    @on(RejectGroup)
    def reject_group(self, command: RejectGroup) -> None:
        self.groups[self.number(command.group)] = NA

    @on(LeaveGroup)
    def leave_group(self, command: LeaveGroup) -> None:
        self.depart(self.number(command.group))

    @on(Advertise, Reconnected)
    def advertise(self, _: Advertise | Reconnected | None = None) -> None:
        """SendAdv (4.4.1)."""
        self.groups = {group: row for group, row in self.groups.items() if row is not NA}
        self.broadcast(Adv(self.me))

    def attached(self, _station: NodeNumber) -> None:
        self.advertise()

    # --- steps that an owner composes --------------------------------------------------------------------------------

    def create(self, desc: str) -> Group:
        """CreateNewGrp (4.4.6); the broadcast is the caller's."""
        self.group_counter += 1
        group = created_group(self.group_counter, self.me)
        self._become_member(GroupInfo(group, desc, (self.me,), ()))
        return group

    def enter(self, group: Group) -> None:
        """SendJoinMsg (4.4.4): the row is the one that was offered."""
        self._become_member(self.offers.get(group, GroupInfo(group, "", (), ())))
        self.broadcast(Join(group, self.me))

    def depart(self, group: Group) -> None:
        """SendLeaveMsg (4.4.5), without the instances, which are the owner's."""
        if self.is_member(group):
            self.leave(group)
        self.groups[group] = NA
        self._shown.pop(group, None)
        self.broadcast(Leave(group, self.me))

    def announce(self) -> None:
        """Broadcast all groups that this process belongs to (4.4.2); also when there are none."""
        self.broadcast(GroupList(tuple(row.info() for row in self.groups.values() if row is not NA)))

    def is_member(self, group: Group) -> bool:
        return self.groups.get(group) is not NA

    def number(self, text: str) -> Group:
        return group_number(text, self.context.topology)

    # --- what others say ---------------------------------------------------------------------------------------------

    @on(Adv)
    def advertised(self, _packet: Adv, _sender: NodeNumber) -> None:
        """SendGrpInfoList (4.4.2)."""
        self.announce()

    @on(GroupList)
    def group_list(self, packet: GroupList, _sender: NodeNumber) -> None:
        """RecvGrpsInfoList (4.4.3)."""
        for heard in packet.groups:
            self._check(heard.group, *heard.current, *heard.departed)
        for heard in packet.groups:
            if heard.group not in self.groups:
                self.offers[heard.group] = heard
                self.tell(GroupOffered(heard))
            elif (row := self.groups[heard.group]) is not NA:
                row.merge(heard)
                self._show(row)

    @on(Join)
    def joined(self, packet: Join, _sender: NodeNumber) -> None:
        """UpdateGrpInfo (4.4.7)."""
        self._check(packet.group, packet.pid)
        if (row := self.groups.get(packet.group)) is not NA:
            row.current.setdefault(packet.pid)
            self._show(row)

    @on(Leave)
    def left(self, packet: Leave, _sender: NodeNumber) -> None:
        """UpdateGrpInfo (4.4.7)."""
        self._check(packet.group, packet.pid)
        if (row := self.groups.get(packet.group)) is not NA:
            row.depart(packet.pid)
            self._show(row)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _check(self, group: Group, *processes: NodeNumber) -> None:
        """PeerError for a group that nobody can have created, or processes that do not exist."""
        self.context.topology.check_group(group)
        for pid in processes:
            self.context.topology.check(pid)

    def _become_member(self, info: GroupInfo) -> None:
        if not self.is_member(info.group):
            self.join(info.group)
        row = self.groups[info.group] = Row(info)
        self._show(row)

    def _show(self, row: Row) -> None:
        members = tuple(sorted(row.current))
        if self._shown.get(row.group) != members:
            self._shown[row.group] = members
            self._views[row.group] = self._views.get(row.group, 0) + 1
            self.install(View(row.group, self._views[row.group], members, local=True))
