"""One member: it stamps what it sends, queues what it hears by stamp, and delivers from the front of the queue.

The air carries every packet to every node, so one queue serves all groups: each node stamps for all, waits for all, and
delivers the messages of its own groups. Groups that overlap therefore agree on one order.
"""

from __future__ import annotations

from bisect import bisect
from operator import itemgetter

import msgspec
from castbed import Context, Duration, Group, Machine, Message, NodeNumber, PeerError, on

from castbed_lamport.line import Line
from castbed_lamport.packets import Ack, Data

CLOCK_MAX = 1 << 62  # a stamp that a peer cannot have reached honestly, and that still leaves room to count on

Stamp = tuple[int, NodeNumber]
NEVER: Stamp = (0, 0)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ack_delay`: how long a member gathers messages before it acknowledges them all with one packet."""

    ack_delay: Duration = Duration(0)


class Member(Machine):
    """A member of the one total order."""

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        self._clock = 0
        self._number = 0
        self._said = NEVER
        self._owed = NEVER
        self._gathering = False
        self._heard: dict[NodeNumber, Stamp] = dict.fromkeys(context.peers(), NEVER)
        self._lines = {peer: Line() for peer in context.peers()}
        self._queue: list[tuple[Stamp, Message]] = []

    def submitted(self, message: Message) -> None:
        if message.to is not None:
            self.refuse(message, "the order is that of whole groups, a message cannot address some members")
        elif not self._belongs_to(message.group):
            self.refuse(message, f"not a member of group {message.group}")
        else:
            self._send(self.accept(message))

    @on(Data, Ack)
    def heard(self, packet: Data | Ack, sender: NodeNumber) -> None:
        """Any packet: its stamp counts once all earlier packets of its sender are here."""
        self._reject_nonsense(packet, sender)
        for ordered in self._lines[sender].take(packet):
            self._take_in(ordered, sender)
        self._deliver_what_is_ready()
        self._acknowledge_in_time()

    def expired(self, timer: str) -> None:
        """The time to gather messages is over."""
        self._gathering = False
        self._acknowledge()

    # --- sending -------------------------------------------------------------------------------------------------------

    def _send(self, message: Message) -> None:
        number, clock = self._stamp()
        self.broadcast(Data(message.group, message.mid, message.payload, message.parent, number, clock))
        self._enqueue(message, (clock, self.me))
        self._deliver_what_is_ready()

    def _acknowledge_in_time(self) -> None:
        if not self.options.ack_delay:
            self._acknowledge()
        elif self._said < self._owed and not self._gathering:
            self._gathering = True
            self.set_timer("acknowledge", self.options.ack_delay)

    def _acknowledge(self) -> None:
        """Say something later than everything heard, unless a message of ours said it meanwhile."""
        if self._said < self._owed:
            self.broadcast(Ack(*self._stamp()))

    def _stamp(self) -> tuple[int, int]:
        """The number and the clock of the next packet."""
        self._number += 1
        self._clock += 1
        self._said = (self._clock, self.me)
        return self._number, self._clock

    # --- receiving -----------------------------------------------------------------------------------------------------

    def _reject_nonsense(self, packet: Data | Ack, sender: NodeNumber) -> None:
        if sender not in self._lines:
            raise PeerError(f"{sender} is no member")
        if not 0 < packet.clock <= CLOCK_MAX:
            raise PeerError(f"no clock shows {packet.clock}")
        if isinstance(packet, Data) and packet.mid.sender != sender:
            raise PeerError(f"{sender} sent a message of {packet.mid.sender}")

    def _take_in(self, packet: Data | Ack, sender: NodeNumber) -> None:
        stamp = (packet.clock, sender)
        self._clock = max(self._clock, packet.clock)
        self._heard[sender] = stamp
        if isinstance(packet, Data):
            self._owed = max(self._owed, stamp)
            if self._belongs_to(packet.group):
                self._enqueue(Message(packet.mid, packet.group, packet.payload, packet.parent), stamp)

    def _enqueue(self, message: Message, stamp: Stamp) -> None:
        at = bisect(self._queue, stamp, key=itemgetter(0))
        self._queue.insert(at, (stamp, message))
        if stamp > self._heard_from_all():
            self.hold(message, [earlier.mid for _, earlier in self._queue[max(0, at - 1) : at]])

    def _deliver_what_is_ready(self) -> None:
        """A member's own packets arrive in the order of their stamps, so a stamp heard rules out all earlier ones."""
        ready = bisect(self._queue, self._heard_from_all(), key=itemgetter(0))
        for _, message in self._queue[:ready]:
            self.deliver(message)
        del self._queue[:ready]

    def _heard_from_all(self) -> Stamp:
        """Nobody will send anything with this stamp or an earlier one any more."""
        return min(self._heard.values(), default=(self._clock, self.me))

    def _belongs_to(self, group: Group) -> bool:
        return self.me in self.context.topology.groups.get(group, ())
