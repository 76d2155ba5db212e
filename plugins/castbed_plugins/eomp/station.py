"""The mobile support station of EOMP (*MSS*, spec 2.2 and 4.2): it passes packets between its cell and its coordinator.

Two flags per host say what may pass: one RETRANS (`retrans_needed`), any MCASTACK (`mcast_flag`). A new station takes
both from the old one with a CANCEL, so that a host which moves to and fro is not sent the same message twice. All state
may vanish in a crash; a replacement asks its coordinator for what it needs (MSS-11).
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from castbed import NOBODY, Context, Group, Machine, Message, NodeNumber, on
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.packets import (
    Cancel,
    Greet,
    GreetAck,
    GreetAckFor,
    GreetFrom,
    JoinAck,
    JoinAckFor,
    JoinFrom,
    JoinReq,
    LeaveAck,
    LeaveAckFor,
    LeaveFrom,
    LeaveReq,
    McastAck,
    McastAckFor,
    McastDel,
    McastReq,
    McastReqFrom,
    Nack,
    NackFrom,
    Replaced,
    Restored,
    Retrans,
    RetransFor,
    content,
)
from castbed_plugins.eomp.vectors import Vector, ahead, lagging, lags, packed


class Station(Machine):
    """One cell's station; `seq_sent` holds the highest number handed to the radio, per group (R10)."""

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        self.coord = context.topology.parent[context.me]
        self.seq_sent: dict[Group, int] = {}
        self.retrans_needed: dict[NodeNumber, bool] = {}
        self.mcast_flag: dict[NodeNumber, bool] = {}
        self.held_greets: dict[NodeNumber, Greet] = {}
        self.served_groups: set[Group] = set()
        self.cache: OrderedDict[tuple[Group, int], Message] = OrderedDict()

    def started(self) -> None:
        """MSS-11: a replacement has to learn where its coordinator stands."""
        if self.context.incarnation:
            self.send(self.coord, Replaced())

    @on(Restored)
    def restored(self, packet: Restored, _coordinator: NodeNumber) -> None:
        """MSS-11: the wire is FIFO, so this is as new as everything that came before it."""
        self.seq_sent = dict(packet.sent)
        self.served_groups.update(packet.groups)
        self._examine_held()

    # --- requests ----------------------------------------------------------------------------------------------------

    @on(McastReq)
    def requested(self, packet: McastReq, host: NodeNumber) -> None:
        """MSS-1: the acknowledgement may pass, and one retransmission if the host lags."""
        self._serve(packet.last)
        self.mcast_flag[host] = True
        self._allow_if_lagging(host, packet.last)
        upward = McastReqFrom(*content(packet.message), host, packet.last, packed(self.seq_sent), packet.tx)
        self.send(self.coord, upward)

    @on(McastAckFor)
    def request_acknowledged(self, packet: McastAckFor, _coordinator: NodeNumber) -> None:
        """MSS-2: the flag stays; only CANCEL clears it."""
        self._check_host(packet.host)
        if self.mcast_flag.get(packet.host):
            self.send(packet.host, McastAck(packet.group, packet.tx))

    @on(McastDel)
    def numbered(self, packet: McastDel, _coordinator: NodeNumber) -> None:
        """MSS-3: put it on the air where the group is served, and look again at who was ahead."""
        self.seq_sent[packet.group] = packet.seq
        self._remember(packet)
        if packet.group in self.served_groups:
            self.broadcast(packet)
        self._examine_held()

    def _remember(self, packet: McastDel) -> None:
        if self.options.cache_size:
            self.cache[packet.group, packet.seq] = packet.message
            if len(self.cache) > self.options.cache_size:
                self.cache.popitem(last=False)

    # --- repair ------------------------------------------------------------------------------------------------------

    @on(Nack)
    def reported(self, packet: Nack, host: NodeNumber) -> None:
        """MSS-4: answer from the cache, or let one retransmission pass and ask the coordinator."""
        self._serve(packet.last)
        if not self._answered_from_cache(host, packet.last):
            self._allow_if_lagging(host, packet.last)
            self.send(self.coord, NackFrom(host, packet.last))

    def _answered_from_cache(self, host: NodeNumber, last: Vector) -> bool:
        """MSS-4, first step: the lowest group in which the host lags decides (R12)."""
        for group in islice(lagging(last, self.seq_sent), 1):
            seq = dict(last)[group] + 1
            if (group, seq) in self.cache:
                self.cache.move_to_end((group, seq))
                self.send(host, Retrans(*content(self.cache[group, seq]), seq))
                return True
        return False

    @on(RetransFor)
    def retransmitted(self, packet: RetransFor, _coordinator: NodeNumber) -> None:
        """MSS-5: one may pass per permission."""
        self._check_host(packet.host)
        if self.retrans_needed.get(packet.host):
            self.send(packet.host, Retrans(*content(packet.message), packet.seq))
            self.retrans_needed[packet.host] = False

    # --- handoff -----------------------------------------------------------------------------------------------------

    @on(Greet)
    def greeted(self, packet: Greet, host: NodeNumber) -> None:
        """MSS-6, up to step 3: nothing may pass yet, here or at the old station."""
        if packet.my_mss != NOBODY:
            self.context.topology.check(packet.my_mss, "station")
        self._serve(packet.last)
        self.retrans_needed[host] = False
        if packet.my_mss not in (NOBODY, self.me):
            self.send(packet.my_mss, Cancel(host))
        self.held_greets.pop(host, None)
        self._examine(host, packet)

    def _examine(self, host: NodeNumber, greet: Greet) -> None:
        """MSS-6, from step 4: a greeting waits until this station has sent what the host has."""
        if ahead(greet.last, self.seq_sent):
            self.held_greets[host] = greet
            return
        self.held_greets.pop(host, None)
        self._allow_if_lagging(host, greet.last)
        self.send(self.coord, GreetFrom(host, greet.last, packed(self.seq_sent), greet.my_coord))

    def _examine_held(self) -> None:
        for host, greet in list(self.held_greets.items()):
            self._examine(host, greet)

    @on(GreetAckFor)
    def registered(self, packet: GreetAckFor, _coordinator: NodeNumber) -> None:
        """MSS-7."""
        self._check_host(packet.host)
        self.send(packet.host, GreetAck(packed(self.seq_sent), self.coord))

    @on(Cancel)
    def cancelled(self, packet: Cancel, _station: NodeNumber) -> None:
        """MSS-8: the host is elsewhere."""
        self._check_host(packet.host)
        self.retrans_needed[packet.host] = False
        self.mcast_flag[packet.host] = False

    # --- membership --------------------------------------------------------------------------------------------------

    @on(JoinReq)
    def join_asked(self, packet: JoinReq, host: NodeNumber) -> None:
        """MSS-9: the group is on the air here from now on."""
        self.served_groups.add(packet.group)
        self.send(self.coord, JoinFrom(packet.group, host))

    @on(LeaveReq)
    def leave_asked(self, packet: LeaveReq, host: NodeNumber) -> None:
        """MSS-9: the station knows no members, so it goes on serving the group."""
        self.send(self.coord, LeaveFrom(packet.group, host))

    @on(JoinAckFor)
    def joined(self, packet: JoinAckFor, _coordinator: NodeNumber) -> None:
        """MSS-10."""
        self._check_host(packet.host)
        self.retrans_needed.setdefault(packet.host, False)
        self.send(packet.host, JoinAck(packet.group, packed(self.seq_sent)))

    @on(LeaveAckFor)
    def left(self, packet: LeaveAckFor, _coordinator: NodeNumber) -> None:
        """MSS-10."""
        self._check_host(packet.host)
        self.send(packet.host, LeaveAck(packet.group, packed(self.seq_sent)))

    # --- inside ------------------------------------------------------------------------------------------------------

    def _check_host(self, host: NodeNumber) -> None:
        self.context.topology.check(host, "host")

    def _serve(self, last: Vector) -> None:
        """MSS-0: what hosts of the cell belong to is put on the air here (R11)."""
        self.served_groups.update(group for group, _ in last)

    def _allow_if_lagging(self, host: NodeNumber, last: Vector) -> None:
        if lags(last, self.seq_sent):
            self.retrans_needed[host] = True
