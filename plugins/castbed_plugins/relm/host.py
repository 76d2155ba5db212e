"""The mobile host (MH): delivers in the order of each source, acknowledges, and says hello wherever it comes to."""

from __future__ import annotations

from castbed import NOBODY, Context, Group, Message, Mid, NodeNumber, on
from castbed.commands import Join, Leave, group_number
from castbed_plugins.relm.blame import expect
from castbed_plugins.relm.bystander import Bystander
from castbed_plugins.relm.options import Options
from castbed_plugins.relm.packets import (
    Ack,
    Data,
    Hello,
    HelloAck,
    JoinAck,
    JoinRequest,
    LeaveAck,
    LeaveRequest,
)

Stream = tuple[Group, NodeNumber]
HELLO = "hello"


class Host(Bystander):
    """A member of its groups, in one cell after the other. Sends no messages of its own (M4)."""

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        declared = context.topology.groups
        self.groups: dict[Group, int] = {group: 0 for group, members in declared.items() if self.me in members}
        self.last: dict[Stream, int] = {}
        self.early: dict[Stream, dict[int, Message]] = {}
        self.station = NOBODY
        self.registered = context.topology.attached.get(self.me, NOBODY)
        self.moves = 0
        self.requested = 0
        self.outstanding: dict[Group, JoinRequest | LeaveRequest] = {}

    # --- messages ----------------------------------------------------------------------------------------------------

    @on(Data)
    def data(self, packet: Data, sender: NodeNumber) -> None:
        """MH-1: deliver what is next, buffer what is early; acknowledge what is delivered, again if it comes again."""
        expect(sender == self.station, "a message from another cell")
        stream = packet.group, packet.mid.sender
        if packet.group not in self.groups:
            self.strange(packet)
        elif packet.mid.seqno <= self.last.get(stream, 0):
            self.acknowledge(packet.group, packet.mid)
        else:
            self.take(stream, packet.message)

    def strange(self, packet: Data) -> None:
        """Of a group that I left: acknowledge, so that it stops. Of one that I am joining: it comes again."""
        if not isinstance(self.outstanding.get(packet.group), JoinRequest):
            self.acknowledge(packet.group, packet.mid)

    def take(self, stream: Stream, message: Message) -> None:
        early = self.early.setdefault(stream, {})
        following = self.last.get(stream, 0) + 1
        known = message.mid.seqno in early
        if known or (len(early) >= self.options.early_max and message.mid.seqno != following):
            return
        early[message.mid.seqno] = message
        if following not in early:
            self.hold(message, [Mid(stream[1], following)])
        while following in early:
            self.last[stream] = following
            self.deliver(early[following])
            self.acknowledge(stream[0], early.pop(following).mid)
            following += 1

    def acknowledge(self, group: Group, mid: Mid) -> None:
        self.send(self.station, Ack(group, mid, self.me))

    # --- moving ------------------------------------------------------------------------------------------------------

    def attached(self, station: NodeNumber) -> None:
        """Handoff step 1: HELLO, repeated until answered. Where the run begins, the supervisor knows its hosts."""
        self.station = station
        if self.moves == 0 and station == self.registered:
            return
        self.moves += 1
        self.hello()
        for group, request in list(self.outstanding.items()):
            self.ask(group, type(request))

    def detached(self) -> None:
        self.station = NOBODY
        self.cancel_timer(HELLO)

    def hello(self) -> None:
        last = tuple((*stream, number) for stream, number in self.last.items())
        self.send(self.station, Hello(self.me, self.moves, self.registered, tuple(self.groups.items()), last))
        self.set_timer(HELLO, self.options.request_retry)

    @on(HelloAck)
    def greeted(self, packet: HelloAck, sender: NodeNumber) -> None:
        """The supervisor knows where I am; the next cell is told to pull from here."""
        if packet.move == self.moves and sender == self.station:
            self.registered = sender
            self.cancel_timer(HELLO)

    # --- groups ------------------------------------------------------------------------------------------------------

    @on(Join)
    def wants_in(self, command: Join) -> None:
        """JOIN: ask the supervisor, and count as a member from its answer on."""
        group = group_number(command.group, self.context.topology)
        if group not in self.groups:
            self.ask(group, JoinRequest)

    @on(Leave)
    def wants_out(self, command: Leave) -> None:
        """LEAVE: no member any more, whenever the supervisor hears of it."""
        group = group_number(command.group, self.context.topology)
        if group in self.groups:
            del self.groups[group]
            self.early = {stream: held for stream, held in self.early.items() if stream[0] != group}
            self.leave(group)
        elif group not in self.outstanding:
            return
        self.ask(group, LeaveRequest)

    def ask(self, group: Group, kind: type[JoinRequest] | type[LeaveRequest]) -> None:
        """A new number each time, so that an answer to an earlier request means nothing."""
        self.requested += 1
        self.outstanding[group] = kind(group, self.me, self.requested, self.moves)
        self.repeat(group)

    def repeat(self, group: Group) -> None:
        if self.station != NOBODY:
            self.send(self.station, self.outstanding[group])
        self.set_timer(group, self.options.request_retry)

    def expired(self, timer: Group | str) -> None:
        """A request was not answered: HELLO with what is true by now, JOIN and LEAVE as they were."""
        if isinstance(timer, int):
            self.repeat(timer)
        else:
            self.hello()

    @on(JoinAck)
    def joined(self, packet: JoinAck, _sender: NodeNumber) -> None:
        """JOIN: a member from the next message on that the supervisor receives."""
        for _, source, _ in packet.last:
            self.context.topology.check(source, "coordinator")
        if self.answered(packet, JoinRequest):
            self.groups[packet.group] = packet.request
            for group, source, number in packet.last:
                self.last[group, source] = max(number, self.last.get((group, source), 0))
            self.join(packet.group)

    @on(LeaveAck)
    def left(self, packet: LeaveAck, _sender: NodeNumber) -> None:
        """LEAVE: the supervisor has noted it."""
        self.answered(packet, LeaveRequest)

    def answered(self, answer: JoinAck | LeaveAck, kind: type[JoinRequest] | type[LeaveRequest]) -> bool:
        """Whether this answers what is outstanding; if so, nothing is any more."""
        request = self.outstanding.get(answer.group)
        if not isinstance(request, kind) or request.request != answer.request:
            return False
        del self.outstanding[answer.group]
        self.cancel_timer(answer.group)
        return True
