"""The GroupManager as published: ties GJLP, and per joined group MOP and MSP, together (spec 4.1 and 4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from castbed import Context, Group, Machine, Message, NodeNumber, on
from castbed_plugins.m2mc.commands import CreateGroup, GroupCreated, JoinGroup, LeaveGroup, Reconnected, Synchronize
from castbed_plugins.m2mc.gjlp import Gjlp
from castbed_plugins.m2mc.mop import Mop
from castbed_plugins.m2mc.msp import Msp
from castbed_plugins.m2mc.options import M2mcOptions
from castbed_plugins.m2mc.packets import Data, SyncReq, SyncResp


class Instance(NamedTuple):
    """The protocols of one joined group."""

    mop: Mop
    msp: Msp

    def take(self, messages: Iterable[Message]) -> None:
        """Order and deliver messages that are in the log already."""
        for message in messages:
            self.mop.receive(message)


class GroupManager(Machine):
    """One process of M2MC."""

    def __init__(self, context: Context, options: M2mcOptions) -> None:
        super().__init__(context, options)
        self.gjlp = self.part("gjlp", Gjlp)
        self.instances: dict[Group, Instance] = {}

    # --- the application's side (4.1) --------------------------------------------------------------------------------

    @on(CreateGroup)
    def create_group(self, command: CreateGroup) -> None:
        group = self.gjlp.create(command.desc)
        self.open(group)
        self.gjlp.announce()
        self.tell(GroupCreated(group, command.desc))

    @on(JoinGroup)
    def join_group(self, command: JoinGroup) -> None:
        group = self.gjlp.number(command.group)
        self.open(group)
        self.gjlp.enter(group)
        self.instances[group].msp.request()

    @on(LeaveGroup)
    def leave_group(self, command: LeaveGroup) -> None:
        group = self.gjlp.number(command.group)
        self.close(group)
        self.gjlp.depart(group)

    def submitted(self, message: Message) -> None:
        instance = self.instances.get(message.group)
        if instance is None:
            self.refuse(message, "not a member of the group")
        elif not instance.mop.can_answer(message.parent):
            self.refuse(message, "the message that it answers was not delivered here")
        else:
            sent = self.accept(message, instance.mop.next_mid())
            self.broadcast(Data(sent.group, sent.mid, sent.payload, sent.parent))

    @on(Synchronize)
    def synchronize(self, command: Synchronize) -> None:
        instance = self.instances.get(self.gjlp.number(command.group))
        if instance is not None:
            instance.msp.request()

    @on(Reconnected)
    def reconnected(self, _: Reconnected | None = None) -> None:
        self.gjlp.advertise()
        for instance in self.instances.values():
            instance.msp.request()

    def attached(self, _station: NodeNumber) -> None:
        self.reconnected()

    # --- the network's side (4.2); Adv, GroupList, Join and Leave go straight to GJLP --------------------------------

    @on(Data)
    def data(self, packet: Data, _sender: NodeNumber) -> None:
        instance = self.instances.get(packet.group)
        if instance is not None:
            message = Message(packet.mid, packet.group, packet.payload, packet.parent)
            instance.msp.store(message)
            instance.mop.receive(message)

    @on(SyncReq)
    def sync_requested(self, packet: SyncReq, _sender: NodeNumber) -> None:
        self.context.topology.check(packet.sync_id.pid)
        instance = self.instances.get(packet.group)
        if instance is not None and packet.sync_id.pid != self.me:
            instance.take(instance.msp.requested(packet))

    @on(SyncResp)
    def sync_responded(self, packet: SyncResp, _sender: NodeNumber) -> None:
        self.context.topology.check(packet.sync_id.pid)
        instance = self.instances.get(packet.group)
        if instance is not None:
            instance.take(instance.msp.responded(packet))

    # --- instances ---------------------------------------------------------------------------------------------------

    def open(self, group: Group) -> None:
        """New protocols for the group; those it had, if any, are forgotten."""
        self.close(group)
        mop = self.part(f"mop {group}", Mop.for_group(group), routed=False)
        self.instances[group] = Instance(mop, self.part(f"msp {group}", Msp.for_group(group), self.options, False))

    def close(self, group: Group) -> None:
        gone = self.instances.pop(group, None)
        if gone is not None:
            gone.msp.stop()
            self.drop_part(f"mop {group}")
            self.drop_part(f"msp {group}")
