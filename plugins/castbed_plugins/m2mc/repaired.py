"""The GroupManager, repaired: the same interface over rosters that converge and a log that repairs itself.

What differs from the published one, and why, is told in docs/protocols/m2mc.md. In short: a message is known by its
identity whatever way it comes, what a process knows of a group outlives leaving and restarting, and differences between
members are found by comparing digests for as long as there are any.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from castbed import Context, Group, Machine, Message, NodeNumber, PeerError, on
from castbed.parts import Digest, Repair, check_message
from castbed_plugins.m2mc.commands import CreateGroup, GroupResumed, JoinGroup, LeaveGroup, Reconnected, Synchronize
from castbed_plugins.m2mc.log import GroupLog
from castbed_plugins.m2mc.mop import Mop
from castbed_plugins.m2mc.options import M2mcOptions
from castbed_plugins.m2mc.packets import Data
from castbed_plugins.m2mc.roster import RosterGjlp
from castbed_plugins.sb.ordering import Ordering

PAYLOAD_BYTES_MAX = 65_536  # what one UDP datagram may hold; a repair of it fits a frame with room to spare


class Instance(NamedTuple):
    """The protocols of one group that this process belongs or belonged to."""

    mop: Mop
    log: GroupLog

    def shown(self) -> tuple[Message, ...]:
        """What was delivered and is still in the log, in an order in which it could have been."""
        ordering = Ordering()
        _assume_evicted(ordering, self.log)
        return tuple(ready for message in self.log.log for ready in ordering.receive(message))


class RepairedGroupManager(Machine):
    """One process of M2MC."""

    def __init__(self, context: Context, options: M2mcOptions) -> None:
        super().__init__(context, options)
        self.gjlp = self.part("gjlp", RosterGjlp, options.roster)
        self.instances: dict[Group, Instance] = {}

    def started(self) -> None:
        self.gjlp.started()
        for group in self.gjlp.rolls:
            self._open(group)
        for group in self.gjlp.joined():
            self._resume(group)

    # --- the application's side (4.1) --------------------------------------------------------------------------------

    @on(CreateGroup)
    def create_group(self, command: CreateGroup) -> None:
        self._resume(self.gjlp.create(command.desc))

    @on(JoinGroup)
    def join_group(self, command: JoinGroup) -> None:
        group = self.gjlp.number(command.group)
        if self.gjlp.enter(group):
            self._resume(group)

    @on(LeaveGroup)
    def leave_group(self, command: LeaveGroup) -> None:
        group = self.gjlp.number(command.group)
        if self.gjlp.depart(group):
            self.instances[group].log.stop()

    def submitted(self, message: Message) -> None:
        instance = self._joined(message.group)
        if instance is None:
            self.refuse(message, "not a member of the group")
        elif not instance.mop.can_answer(message.parent):
            self.refuse(message, "the message that it answers was not delivered here")
        elif len(message.payload) > PAYLOAD_BYTES_MAX:
            self.refuse(message, f"a payload may have {PAYLOAD_BYTES_MAX} bytes")
        else:
            sent = self.accept(message, instance.mop.next_mid(self.context.incarnation))
            instance.log.store(sent)
            self.broadcast(Data(sent.group, sent.mid, sent.payload, sent.parent))
            self._take(sent)

    @on(Synchronize)
    def synchronize(self, command: Synchronize) -> None:
        instance = self._joined(self.gjlp.number(command.group))
        if instance is not None:
            instance.log.announce()

    @on(Reconnected)
    def reconnected(self, _: Reconnected | None = None) -> None:
        self.gjlp.reconnected()
        for group in self.gjlp.joined():
            self.instances[group].log.announce()

    def attached(self, _station: NodeNumber) -> None:
        self.reconnected()

    # --- the network's side; Adv and Roster go straight to GJLP ------------------------------------------------------

    @on(Data)
    def data(self, packet: Data, _sender: NodeNumber) -> None:
        message = Message(packet.mid, packet.group, packet.payload, packet.parent)
        self._check(message, packet.group)
        instance = self._joined(packet.group)
        if instance is not None and instance.log.store(message):
            self._take(message)

    @on(Digest)
    def digest(self, packet: Digest, sender: NodeNumber) -> None:
        instance = self.instances.get(packet.group)
        if instance is not None:
            instance.log.digest_received(packet, sender)

    @on(Repair)
    def repaired(self, packet: Repair, sender: NodeNumber) -> None:
        instance = self.instances.get(packet.group)
        if instance is not None:
            for message in packet.messages:
                self._check(message, packet.group)
            instance.log.repair_received(packet, sender)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _check(self, message: Message, group: Group) -> None:
        """PeerError for what no member can have sent (M2-R24)."""
        check_message(message, group)
        mid = message.mid
        if len(message.payload) > PAYLOAD_BYTES_MAX:
            raise PeerError(f"message {mid.text()} has a payload of {len(message.payload)} bytes")
        in_my_name = mid.sender == self.me and mid.incarnation == self.context.incarnation
        if in_my_name and (group not in self.instances or mid.seqno > self.instances[group].mop.seqno):
            raise PeerError(f"message {mid.text()} is said to be mine, and I never wrote it")

    def _take(self, message: Message) -> None:
        """Order and deliver a message that is new, unless it has to wait and there is no room."""
        mop, log = self.instances[message.group]
        if mop.ordering.held_count >= self.options.held_max and not mop.can_answer(message.parent):
            self.note("no-room", message.mid, message.group)
            log.forget(message.mid)
        else:
            mop.receive(message)

    def _joined(self, group: Group) -> Instance | None:
        return self.instances.get(group) if self.gjlp.is_member(group) else None

    def _resume(self, group: Group) -> None:
        """Take part in the group, with what is known of it from before."""
        instance = self.instances.get(group) or self._open(group)
        instance.log.start()
        if instance.log.known:
            roll = self.gjlp.rolls[group]
            self.tell(GroupResumed(group, roll.desc, instance.shown(), complete=not instance.log.evicted))

    def _open(self, group: Group) -> Instance:
        """Called once per group and life; the instance stays when the group is left, because joining again needs it."""
        mop = self.part(f"mop {group}", Mop.for_group(group), routed=False)
        make_log = GroupLog.for_group(group, self._take, mop.ordering.is_delivered)
        log = self.part(f"log {group}", make_log, msgspec.structs.replace(self.options.repair, persist=True), False)
        assert isinstance(log, GroupLog)
        _assume_evicted(mop.ordering, log)
        mop.replay(log.reloaded)
        self.instances[group] = Instance(mop, log)
        return self.instances[group]


def _assume_evicted(ordering: Ordering, log: GroupLog) -> None:
    """What is no longer in the log was delivered."""
    for writer, numbers in log.evicted.items():
        ordering.assume_delivered(writer, numbers)
