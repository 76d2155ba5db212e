"""The mobile host of EOMP (*MH*, spec 2.1 and 4.1): it delivers numbers in order, and reports what it has.

Requests go out one at a time, marked with one bit; numbers that come early wait. `attached` and `detached` stand for
the beacons of the stations, which nobody sends here. Nothing is kept over a crash: the paper assumes that hosts have
none. As in the paper, the queue of requests and the reorder buffer have no limit.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from castbed import NOBODY, Context, Group, Machine, Message, NodeNumber, Packet, on
from castbed.commands import Join, Leave, group_number
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.packets import (
    Greet,
    GreetAck,
    JoinAck,
    JoinReq,
    LeaveAck,
    LeaveReq,
    McastAck,
    McastDel,
    McastReq,
    Nack,
    Retrans,
    content,
)
from castbed_plugins.eomp.vectors import lags, packed

T_REQ, T_GREET, T_NACK, T_JOIN, T_LEAVE = "T_REQ", "T_GREET", "T_NACK", "T_JOIN", "T_LEAVE"
RADIO_DUPLICATE = "radio_duplicate"


class Host(Machine):
    """One mobile host: `cell` is the station in whose range it is, `my_mss` the one that it is registered at."""

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        groups = context.topology.groups
        self.cell: NodeNumber = NOBODY
        self.tx_seq = 0
        self.outstanding: Message | None = None
        self.send_queue: deque[Message] = deque()
        self.last_seq_recv: dict[Group, int] = {group: 0 for group, members in groups.items() if self.me in members}
        self.reorder: dict[Group, dict[int, Message]] = {}
        self.my_mss: NodeNumber = NOBODY
        self.my_coord: NodeNumber = NOBODY
        self.greeting: NodeNumber = NOBODY
        self.joining: set[Group] = set()
        self.leaving: set[Group] = set()

    def started(self) -> None:
        """MH-9: hosts report at phases of their own."""
        self.set_timer(T_NACK, self.context.random.randint(1, self.options.nack_period))

    # --- requests ----------------------------------------------------------------------------------------------------

    def submitted(self, message: Message) -> None:
        """MH-1: queue it; who sends need not be a member (R15)."""
        if message.to is not None:
            self.refuse(message, "eomp sends to whole groups only")
            return
        self.send_queue.append(self.accept(message))
        self._start_request()

    def _start_request(self) -> None:
        """MH-1, second step: one request at a time."""
        if self.outstanding is None and self.send_queue:
            self.outstanding = self.send_queue.popleft()
            self._request(self.outstanding)

    def _request(self, message: Message) -> None:
        self._send(McastReq(*content(message), packed(self.last_seq_recv), self.tx_seq))
        self.set_timer(T_REQ, self.options.request_timeout)

    def _request_timed_out(self) -> None:
        """MH-2: the same bit, what this host has by now."""
        if self.outstanding is not None:
            self._request(self.outstanding)

    @on(McastAck)
    def request_acknowledged(self, packet: McastAck, _station: NodeNumber) -> None:
        """MH-3: only the bit tells which request is meant."""
        if self.outstanding is None or packet.tx != self.tx_seq:
            return
        self.cancel_timer(T_REQ)
        self.tx_seq = 1 - self.tx_seq
        self.outstanding = None
        self._start_request()

    # --- cells -------------------------------------------------------------------------------------------------------

    def attached(self, station: NodeNumber) -> None:
        """MH-4: greet the station; nothing else waits for its answer."""
        self.cell = self.greeting = station
        self._greet()

    def _greet(self) -> None:
        self._send(Greet(self.my_mss, self.my_coord, packed(self.last_seq_recv)))
        self.set_timer(T_GREET, self.options.greet_timeout)

    def _greet_timed_out(self) -> None:
        """MH-5: again, if this host is still there."""
        if self.greeting != NOBODY and self.greeting == self.cell:
            self._greet()

    @on(GreetAck)
    def registered(self, packet: GreetAck, station: NodeNumber) -> None:
        """MH-6: the station is the new one; if it is further than this host, ask at once (R7)."""
        if self.greeting != station:
            return
        self.cancel_timer(T_GREET)
        self.greeting = NOBODY
        self.my_mss, self.my_coord = station, packet.coord
        if lags(packed(self.last_seq_recv), dict(packet.sent)):
            self._report()

    def detached(self) -> None:
        """MH-13: nothing is sent until a cell is entered; timers go on."""
        self.cell = NOBODY

    # --- messages ----------------------------------------------------------------------------------------------------

    @on(McastDel)
    def multicast_heard(self, packet: McastDel, _station: NodeNumber) -> None:
        """MH-7: group traffic counts only where this host is registered (R9)."""
        deaf = self.greeting != NOBODY and not self.options.listen_before_greetack
        if packet.group in self.last_seq_recv and not deaf:
            self._take(packet.seq, packet.message)

    @on(Retrans)
    def retransmission_heard(self, packet: Retrans, _station: NodeNumber) -> None:
        """MH-8: a retransmission counts everywhere."""
        if packet.group in self.last_seq_recv:
            self._take(packet.seq, packet.message)

    def _take(self, seq: int, message: Message) -> None:
        """MH-7, from step 3: drop a number that is here, deliver the next and what it releases, or hold and ask."""
        group, early = message.group, self.reorder.setdefault(message.group, {})
        following = self.last_seq_recv[group] + 1
        if seq == following:
            self.last_seq_recv[group] = seq
            self.deliver(message)
            if early:
                self._deliver_in_order(group, early)
        elif seq < following or seq in early:
            self.note(RADIO_DUPLICATE, message.mid, group)
        else:
            early[seq] = message
            self.hold(message, ())
            self._report()

    def _deliver_in_order(self, group: Group, early: dict[int, Message]) -> None:
        while (message := early.pop(self.last_seq_recv[group] + 1, None)) is not None:
            self.last_seq_recv[group] += 1
            self.deliver(message)

    def _report(self) -> None:
        self._send(Nack(packed(self.last_seq_recv)))

    def _report_in_turn(self) -> None:
        """MH-9: gap or no gap, for the report is an acknowledgement too."""
        self._report()
        self.set_timer(T_NACK, self.options.nack_period)

    # --- membership --------------------------------------------------------------------------------------------------

    @on(Join)
    def ask_to_join(self, command: Join) -> None:
        """MH-10; asking for what is so, or under way, changes nothing."""
        group = group_number(command.group, self.context.topology)
        if group not in self.last_seq_recv and group not in self.joining:
            self.joining.add(group)
            self._ask(T_JOIN, group)

    @on(Leave)
    def ask_to_leave(self, command: Leave) -> None:
        """MH-10 for LEAVE."""
        group = group_number(command.group, self.context.topology)
        if group in self.last_seq_recv and group not in self.leaving:
            self.leaving.add(group)
            self._ask(T_LEAVE, group)

    def _ask(self, timer: str, group: Group) -> None:
        """MH-10: ask, and ask again when the timer runs out."""
        self._send(JoinReq(group) if timer == T_JOIN else LeaveReq(group))
        self.set_timer((timer, group), self.options.join_timeout)

    @on(JoinAck)
    def joined(self, packet: JoinAck, station: NodeNumber) -> None:
        """MH-11: begin after what the station has sent; other groups are not touched (R8)."""
        group = packet.group
        if group not in self.joining:
            return
        self.cancel_timer((T_JOIN, group))
        self.joining.remove(group)
        self.last_seq_recv[group] = dict(packet.sent).get(group, 0)
        self.my_mss = station
        self.join(group)

    @on(LeaveAck)
    def left(self, packet: LeaveAck, _station: NodeNumber) -> None:
        """MH-12: forget the group."""
        group = packet.group
        if group not in self.leaving:
            return
        self.cancel_timer((T_LEAVE, group))
        self.leaving.remove(group)
        del self.last_seq_recv[group]
        self.reorder.pop(group, None)
        self.leave(group)

    # --- inside ------------------------------------------------------------------------------------------------------

    def expired(self, timer: Any) -> None:
        if timer == T_REQ:
            self._request_timed_out()
        elif timer == T_GREET:
            self._greet_timed_out()
        elif timer == T_NACK:
            self._report_in_turn()
        else:
            self._ask(*timer)

    def _send(self, packet: Packet) -> None:
        """To the station of the cell; out of range, nothing is sent (MH-13)."""
        if self.cell != NOBODY:
            self.send(self.cell, packet)
