"""The mobile host of repaired EOMP: sends requests in order, delivers numbers in order, and forgets nothing.

What it delivered and what it still has to send is kept over a crash. A gap is reported once and then after waits; every
wait begins with the paper's and follows the times that answers take. Its groups are the business of `stays`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from castbed import NOBODY, Context, Message, Mid, NodeNumber, on
from castbed.actions import Accept, Deliver, Persist
from castbed_plugins.eomp.host import RADIO_DUPLICATE
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.repaired.bundles import count_of, first_of, last_of, messages_of
from castbed_plugins.eomp.repaired.kept_requests import KeptRequests
from castbed_plugins.eomp.repaired.outbox import Outbox
from castbed_plugins.eomp.repaired.packets import (
    AnyNumbered,
    AnyRepeat,
    BundleNumbered,
    BundleRepeat,
    Enter,
    Entered,
    Numbered,
    Repeat,
    Report,
    Taken,
)
from castbed_plugins.eomp.repaired.stays import Stays
from castbed_plugins.eomp.repaired.timing import Patience
from castbed_plugins.eomp.vectors import Vector

T_REQ, T_GREET, T_NACK, T_GAP = "T_REQ", "T_GREET", "T_NACK", "T_GAP"
PAYLOAD_BYTES_MAX = 190_000  # an entry of the log holds 200 000
OUT_OF_WINDOW = "out_of_window"
REPORTED_SHARE = 4  # a host that took a fourth of what the core keeps of a group says so
NOT_MINE = -2  # no number follows it


class RepairedHost(Stays):
    """One mobile host: `my_mss` is the station that it is registered at, `chasing` says that a gap was reported.

    `sent_at` and `reported_at` (-1: unknown) have the times of what was said once and is not answered.
    """

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        self.my_mss: NodeNumber = NOBODY
        self.greeting = False
        self.outbox = Outbox(options.window, options.bundle_bytes)
        self.kept = KeptRequests(context)
        self.outbox.add(self.kept.of_earlier_lives())
        self.chasing = False
        self.reported_at = -1
        self.unreported = self.unreported_bytes = 0
        self.sent_at: dict[Mid, int] = {}
        waits = (options.request_timeout, options.greet_timeout, options.request_timeout)
        patiences = (Patience(wait, options.nack_period, context) for wait in waits)
        self.requesting, self.entering, self.reporting = patiences

    def started(self) -> None:
        """MH-9: hosts report at phases of their own."""
        super().started()
        self.set_timer(T_NACK, self.context.random.randint(1, self.options.nack_period))

    # --- requests ----------------------------------------------------------------------------------------------------

    def submitted(self, message: Message) -> None:
        self.submitted_together((message,))

    def submitted_together(self, messages: Sequence[Message]) -> None:
        """MH-1: queue them, as far as there is room; who sends need not be a member (R15)."""
        fitting: list[Message] = []
        room = self.options.queue_max - self.outbox.messages
        for message in messages:
            if message.to is not None:
                self.refuse(message, "eomp sends to whole groups only")
            elif len(message.payload) > PAYLOAD_BYTES_MAX:
                self.refuse(message, f"a message holds at most {PAYLOAD_BYTES_MAX} bytes")
            elif len(fitting) == room:
                self.refuse(message, f"{self.options.queue_max} messages wait already")
            else:
                fitting.append(message)
        if fitting:
            self._queue(fitting)
            if self.outbox.is_open:
                self._start_requests()

    def _queue(self, messages: list[Message]) -> None:
        """Kept before the application is told that they are."""
        keep, accepted = self.kept.add(messages)
        self._actions.append(keep)
        self._actions += map(Accept, accepted)
        self.outbox.add(accepted)

    def _start_requests(self) -> None:
        """As many as the window allows; the timer belongs to all that are on their way."""
        idle = not self.outbox.on_the_way
        for request in self.outbox.start():
            self.sent_at[last_of(request)] = self.now
            self._send(request)
        if idle and self.outbox.on_the_way:
            self.set_timer(T_REQ, self.requesting.wait(), when_sent=True)

    def _repeat_requests(self) -> None:
        """MH-2: all that are on their way, in their order, because the core takes no other; no answer tells a time."""
        if self.outbox.on_the_way and self.cell != NOBODY:
            for request in self.outbox.on_the_way:
                self._send(request)
            self.sent_at.clear()
            self.set_timer(T_REQ, self.requesting.wait(), when_sent=True)

    @on(Taken)
    def request_taken(self, packet: Taken, _station: NodeNumber) -> None:
        """MH-3."""
        if packet.mid.sender == self.me:
            self._end_requests(packet.mid)

    def _end_requests(self, mid: Mid) -> None:
        """A request that has its number acknowledges those before it; the own message itself says so, too."""
        ended = list(self.outbox.taken(mid))
        if not ended:
            return
        self._actions += self.kept.forget(last_of(ended[-1]))
        times = [self.sent_at.pop(last_of(request), -1) for request in ended]
        if times[-1] >= 0:
            self.requesting.answered(self.now - times[-1])
        else:
            self.requesting.answered_at_last()
        self.cancel_timer(T_REQ)
        if self.outbox.on_the_way:
            self.set_timer(T_REQ, self.requesting.wait(), when_sent=True)
        self._start_requests()

    # --- cells -------------------------------------------------------------------------------------------------------

    def attached(self, station: NodeNumber) -> None:
        """MH-4: greet the station, which is a report, too; whatever was not answered elsewhere is said again here."""
        super().attached(station)
        self.greeting = True
        self.reported_at = -1
        for waits in (self.requesting, self.entering, self.reporting):
            waits.begin_anew()
        self._greet()
        if self.inbox.lacks():
            self._chase_on()
        self._repeat_requests()
        self._start_requests()

    def _greet(self) -> None:
        """MH-4, MH-5."""
        if self.greeting and self.cell != NOBODY:
            self._send(Enter(self.my_mss, self.inbox.vector(), self.inbox.ranges(), self.memory))
            self.set_timer(T_GREET, self.entering.wait())

    @on(Entered)
    def registered(self, packet: Entered, station: NodeNumber) -> None:
        """MH-6: the station is the new one; if it is further than this host, the greeting has asked for the rest."""
        if station != self.cell or not self.greeting:
            return
        self.greeting = False
        self.my_mss = station
        self.cancel_timer(T_GREET)
        self.entering.begin_anew()
        self.inbox.announce(packet.sent)
        if self.inbox.lacks() and not self.chasing:
            self._chase_on()

    # --- messages ----------------------------------------------------------------------------------------------------

    @on(Numbered)
    def numbered(self, packet: Numbered, _station: NodeNumber) -> None:
        """MH-7. Most messages are simply the next one: those take no further call here."""
        inbox, group, seq, number, mid = self.inbox, packet.group, packet.seq, packet.number, packet.mid
        if number == inbox.position + 1 and seq == inbox.last.get(group, NOT_MINE) + 1 and not inbox.waiting:
            inbox.last[group], inbox.position = seq, number
            deliver = Deliver(Message(mid, group, packet.payload, packet.parent))
            self._actions += (Persist(self.places[group], (seq, number)), deliver)
            self._count(1, packet.payload)
            if mid.sender == self.me:
                self._end_requests(mid)
        elif group in inbox.last:
            self._take(packet)

    @on(BundleNumbered)
    def bundle_numbered(self, packet: BundleNumbered, _station: NodeNumber) -> None:
        """MH-7 for several: the place is kept once."""
        inbox, group, seq, number = self.inbox, packet.group, packet.seq, packet.number
        if number == inbox.position + 1 and seq == inbox.last.get(group, NOT_MINE) + 1 and not inbox.waiting:
            behind_first = len(packet.sizes) - 1
            inbox.last[group], inbox.position = seq + behind_first, number + behind_first
            self._deliver(packet)
            if packet.first.sender == self.me:
                self._end_requests(packet.last)
        elif group in inbox.last:
            self._take(packet)

    @on(Repeat, BundleRepeat)
    def repeated(self, packet: AnyRepeat, _station: NodeNumber) -> None:
        """MH-8; while a batch comes nothing is asked for, and at its end the next one, if that was not all."""
        if packet.group not in self.inbox.last or packet.host != self.me:
            return
        if self.reported_at >= 0:
            self.reporting.answered(self.now - self.reported_at)
            self.reported_at = -1
        self._take(packet)
        if packet.more:
            self._report()
        if packet.more or self.chasing:
            self._chase_on()

    def _take(self, packet: AnyNumbered | AnyRepeat) -> None:
        """Drop what is here, deliver what is next and what it lets go, hold what is early and ask for the rest."""
        inbox = self.inbox
        first = first_of(packet)
        if first.sender == self.me:
            self._end_requests(last_of(packet))
        if inbox.has(packet):
            self.note(RADIO_DUPLICATE, first, packet.group)
            return
        kept = inbox.keep(packet)
        for ready in inbox.next_ones():
            self._deliver(ready)
        if not kept:
            self.note(OUT_OF_WINDOW, first, packet.group)
        elif packet.seq > inbox.last[packet.group] and packet.number > inbox.position:
            for message in messages_of(packet):
                self.hold(message, ())
        self._chase()

    def _deliver(self, packet: AnyNumbered | AnyRepeat) -> None:
        count = count_of(packet)
        self._keep_place(packet.group, packet.seq + count - 1, packet.number + count - 1)
        self._actions += map(Deliver, messages_of(packet))
        self._count(count, packet.payload)

    def _count(self, messages: int, payload: bytes) -> None:
        """The core keeps all of it until it hears that it is here: not so much that no room is left."""
        self.unreported += messages
        self.unreported_bytes += len(payload)
        options = self.options
        if (
            self.unreported * REPORTED_SHARE > options.buffer_max
            or self.unreported_bytes * REPORTED_SHARE > options.buffer_bytes_max
        ):
            self._send_report(self.inbox.vector())

    # --- reports -----------------------------------------------------------------------------------------------------

    def _chase(self) -> None:
        """Report a gap once, and again after a wait, until it is closed."""
        if not self.inbox.lacks():
            if self.chasing:
                self.chasing = False
                self.cancel_timer(T_GAP)
                self.reporting.begin_anew()
        elif not self.chasing:
            self._report()
            self._chase_on()

    def _chase_on(self) -> None:
        self.chasing = True
        self.set_timer(T_GAP, self.reporting.wait())

    def _gap_is_still_open(self) -> None:
        self.chasing = False
        if not self.inbox.lacks():
            self.reporting.begin_anew()
        elif self.cell != NOBODY:
            self.reporting.not_answered()
            self._report_all()
            self._chase_on()

    def _report(self) -> None:
        """Ask for what was heard of."""
        self.reported_at = self.now
        self._send_report(self.inbox.lacking())

    def _report_all(self) -> None:
        """Ask for whatever there is: the cause of a gap may be a message that was not heard of."""
        self.reported_at = -1
        self._send_report(())

    def _send_report(self, upto: Vector) -> None:
        self.unreported = self.unreported_bytes = 0
        self._send(Report(self.inbox.vector(), self.inbox.ranges(), self.memory, upto))

    def _report_in_turn(self) -> None:
        """MH-9: gap or no gap, for the report is an acknowledgement too; who waits for an answer has just reported."""
        if not self.chasing:
            self._report_all()
        self.set_timer(T_NACK, self.options.nack_period)

    def _group_entered(self) -> None:
        self._report()

    def _group_forgotten(self) -> None:
        for ready in self.inbox.next_ones():
            self._deliver(ready)
        self._chase()

    # --- time --------------------------------------------------------------------------------------------------------

    def expired(self, timer: Any) -> None:
        if timer == T_NACK:
            self._report_in_turn()
        elif timer == T_GAP:
            self._gap_is_still_open()
        elif timer == T_REQ:
            self.requesting.not_answered()
            self._repeat_requests()
        elif timer == T_GREET:
            self.entering.not_answered()
            self._greet()
        else:
            self._ask_again(timer[1])
