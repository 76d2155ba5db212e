"""The coordinator of EOMP (spec 2.3 and 4.3): it accepts requests, keeps messages until all have them, retransmits.

Coordinators tell each other the expected request bit of each host (SYNCSEQ), what hosts have (SYNCACK) and who is a
member (INSERT, DELETE). The paper assumes that they do not fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from castbed import Context, Group, Machine, Message, NodeNumber, on
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.packets import (
    Delete,
    GreetAckFor,
    GreetFrom,
    Insert,
    JoinAckFor,
    JoinFrom,
    LeaveAckFor,
    LeaveFrom,
    McastAckFor,
    McastDel,
    McastReqFrom,
    McastSeq,
    NackFrom,
    Replaced,
    Restored,
    RetransFor,
    SyncAck,
    SyncSeq,
    content,
)
from castbed_plugins.eomp.vectors import Vector, lagging, packed

T_SYNC = "T_SYNC"
BUFFER = "buffer"  # what is gauged: messages that some member has not acknowledged


class Coordinator(Machine):
    """One region's coordinator; `released` is the highest number of each group that it dropped."""

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        topology = context.topology
        self.my_msss = topology.children(context.me)
        self.toc = topology.numbers("sequencer")[0]
        self.rx_seq: dict[NodeNumber, int] = {}
        self.host_ack: dict[NodeNumber, dict[Group, int]] = {}
        self.buffer_list: dict[Group, dict[int, Message]] = {}
        self.released: dict[Group, int] = {}
        self.seq_sent: dict[Group, int] = {}
        self.member_set: dict[Group, set[NodeNumber]] = {group: set(them) for group, them in topology.groups.items()}
        self.dirty_hosts: set[NodeNumber] = set()
        self._cached_slowest: dict[Group, NodeNumber | None] = {}

    def started(self) -> None:
        self.set_timer(T_SYNC, self.options.sync_period)

    # --- requests ----------------------------------------------------------------------------------------------------

    @on(McastReqFrom)
    def requested(self, packet: McastReqFrom, station: NodeNumber) -> None:
        """C-1: acknowledge always (R2), number only what has the expected bit (R1)."""
        host, tx = packet.host, packet.tx
        self._check_host(host)
        self.send(station, McastAckFor(packet.group, host, tx))
        new = self.rx_seq.get(host, 0) == tx
        if new:
            self.rx_seq[host] = 1 - tx
            self._tell_peers(SyncSeq(host, 1 - tx))
        self._heard(host, packet.last)
        self._retransmit(station, host, packet.last, lagging(packet.last, dict(packet.sent)))
        if new:
            self.send(self.toc, McastSeq(*content(packet.message)))

    @on(SyncSeq)
    def bit_changed(self, packet: SyncSeq, _peer: NodeNumber) -> None:
        """C-2."""
        self._check_host(packet.host)
        self.rx_seq[packet.host] = packet.rx

    @on(McastDel)
    def numbered(self, packet: McastDel, _sequencer: NodeNumber) -> None:
        """C-3: keep it, and pass it on to all stations."""
        self.seq_sent[packet.group] = packet.seq
        self.buffer_list.setdefault(packet.group, {})[packet.seq] = packet.message
        self.multicast(self.my_msss, packet)
        self._release(packet.group)
        self._gauge_buffer()

    # --- repair ------------------------------------------------------------------------------------------------------

    @on(NackFrom)
    def reported(self, packet: NackFrom, station: NodeNumber) -> None:
        """C-4: compared with what this coordinator has sent, for a NACK brings no SeqSent (R23)."""
        self._check_host(packet.host)
        self._heard(packet.host, packet.last)
        self._retransmit(station, packet.host, packet.last, lagging(packet.last, self.seq_sent))

    @on(GreetFrom)
    def greeted(self, packet: GreetFrom, station: NodeNumber) -> None:
        """C-5."""
        self._check_host(packet.host)
        self._heard(packet.host, packet.last)
        self._retransmit(station, packet.host, packet.last, lagging(packet.last, dict(packet.sent)))
        self.send(station, GreetAckFor(packet.host))

    def _retransmit(self, station: NodeNumber, host: NodeNumber, last: Vector, groups: Iterable[Group]) -> None:
        """C-R: the next message of the lowest of the groups that has one here; exactly one (R6)."""
        numbers = dict(last)
        for group in groups:
            seq = numbers[group] + 1
            message = self.buffer_list.get(group, {}).get(seq)
            if message is not None:
                self.send(station, RetransFor(*content(message), seq, host))
                return

    @on(Replaced)
    def replaced(self, _packet: Replaced, station: NodeNumber) -> None:
        """MSS-11, the coordinator's side."""
        served = tuple(sorted(group for group, members in self.member_set.items() if members))
        self.send(station, Restored(packed(self.seq_sent), served))

    # --- membership --------------------------------------------------------------------------------------------------

    @on(JoinFrom)
    def joined(self, packet: JoinFrom, station: NodeNumber) -> None:
        """C-6: tell the peers once, acknowledge always."""
        self._check_host(packet.host)
        members = self.member_set.setdefault(packet.group, set())
        if packet.host not in members:
            members.add(packet.host)
            self._tell_peers(Insert(packet.group, packet.host))
        self.send(station, JoinAckFor(packet.group, packet.host))

    @on(LeaveFrom)
    def left(self, packet: LeaveFrom, station: NodeNumber) -> None:
        """C-7: tell the peers once, acknowledge always."""
        self._check_host(packet.host)
        if packet.host in self.member_set.get(packet.group, ()):
            self._remove(packet.host, packet.group)
            self._tell_peers(Delete(packet.group, packet.host))
        self.send(station, LeaveAckFor(packet.group, packet.host))

    @on(Insert)
    def inserted(self, packet: Insert, _peer: NodeNumber) -> None:
        """C-8."""
        self._check_host(packet.host)
        self.member_set.setdefault(packet.group, set()).add(packet.host)

    @on(Delete)
    def deleted(self, packet: Delete, _peer: NodeNumber) -> None:
        """C-8."""
        self._check_host(packet.host)
        self._remove(packet.host, packet.group)

    def _remove(self, host: NodeNumber, group: Group) -> None:
        self.member_set.setdefault(group, set()).discard(host)
        self.host_ack.get(host, {}).pop(group, None)
        self._release(group)

    # --- release -----------------------------------------------------------------------------------------------------

    def expired(self, timer: Any) -> None:  # noqa: ARG002 (there is only one)
        """C-9: tell the peers what hosts reported here; nothing, if none did."""
        if self.dirty_hosts:
            reports = tuple((host, packed(self.host_ack[host])) for host in sorted(self.dirty_hosts))
            self._tell_peers(SyncAck(reports))
            self.dirty_hosts.clear()
        self.set_timer(T_SYNC, self.options.sync_period)

    @on(SyncAck)
    def synchronised(self, packet: SyncAck, _peer: NodeNumber) -> None:
        """C-10: what a peer tells is not told on."""
        for host, _ in packet.reports:
            self._check_host(host)
        for host, last in packet.reports:
            self._merge(host, last)

    def _heard(self, host: NodeNumber, last: Vector) -> None:
        """What C-1, C-4 and C-5 have in common: a direct report."""
        self._merge(host, last)
        self.dirty_hosts.add(host)

    def _merge(self, host: NodeNumber, last: Vector) -> None:
        """Keep the higher numbers (R16); only who held a release up can bring one about."""
        known = self.host_ack.setdefault(host, {})
        for group, number in last:
            before = known.get(group, 0)
            known[group] = max(before, number)
            if before <= self.released.get(group, 0):
                self._release(group)

    def _release(self, group: Group) -> None:
        """C-11: drop what every member has; nobody is a member: all that was sent (R17)."""
        sent, released = self.seq_sent.get(group, 0), self.released.get(group, 0)
        if self._is_held_up(group, released):
            return
        members = self.member_set.get(group, ())
        slowest = min(members, key=lambda host: self._acked(host, group), default=None)
        reached = sent if slowest is None else min(self._acked(slowest, group), sent)
        self._cached_slowest[group] = slowest
        if reached > released:
            kept = self.buffer_list.get(group, {})
            self.buffer_list[group] = {seq: message for seq, message in kept.items() if seq > reached}
            self.released[group] = reached
            self._gauge_buffer()

    def _is_held_up(self, group: Group, released: int) -> bool:
        """Whether the member that was slowest last time has reported nothing new: then nobody else need be asked."""
        slowest = self._cached_slowest.get(group)
        return slowest in self.member_set.get(group, ()) and self._acked(slowest, group) <= released

    def _acked(self, host: NodeNumber | None, group: Group) -> int:
        return self.host_ack.get(host, {}).get(group, 0) if host is not None else 0

    def _gauge_buffer(self) -> None:
        self.gauge(BUFFER, sum(map(len, self.buffer_list.values())))

    def _check_host(self, host: NodeNumber) -> None:
        self.context.topology.check(host, "host")

    def _tell_peers(self, packet: SyncSeq | SyncAck | Insert | Delete) -> None:
        self.multicast(self.context.peers("coordinator"), packet)
