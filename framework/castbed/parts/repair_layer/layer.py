"""The repair layer: a machine below a broadcast protocol that makes a lossy air look like one that loses nothing.

What it promises, of each packet that the protocol above broadcasts or sends:

- a node hands a packet up at most once in a life, and under `fifo` in the order in which its writer sent it;
- every node that was up when the packet was sent hands it up, as long as some node that has it is heard often enough
  within `give_up_after`, and the writer still keeps it (`history_max`, `history_bytes_max`);
- what cannot be had any more is skipped with a note, so that nothing waits for ever;
- a node that started after a packet was sent (to within the time that a frame travels) does not get it.

How: the packets of each life of a writer are numbered 1, 2, 3, ...; a hole in the numbers, or a heartbeat that tells of
a higher one, makes a node ask after a random wait, unless another asks for the same first. The writer resends, or after
a longer wait anybody who has it, unless another does so first. Ages instead of times of day say what was sent before a
node started, so that clocks need not agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from castbed.actions import Action, Broadcast, Multicast, Note, Send
from castbed.context import Context
from castbed.errors import PeerError
from castbed.events import Event, Received
from castbed.machine import Machine, on
from castbed.packets import Packet
from castbed.parts.repair_layer.asking import Asking
from castbed.parts.repair_layer.beating import Beating
from castbed.parts.repair_layer.keeping import Keeping
from castbed.parts.repair_layer.options import RepairOptions
from castbed.parts.repair_layer.packets import (
    MICROSECOND,
    AnyCarried,
    Bygone,
    Carried,
    CarriedMessage,
    Heartbeat,
    Missing,
    Place,
    Source,
    carried_packet,
    carry,
    check_age,
    check_heartbeat,
    check_missing,
    check_place,
)
from castbed.parts.repair_layer.reception import Reception
from castbed.parts.repair_layer.resending import Resending
from castbed.values import Message, NodeNumber, View
from castbed.wire import Codec, FrameTooLargeError

FAMILY = "repair-layer"
LIVES_MAX = 4  # of one writer that a node keeps track of; what is missing of earlier ones stays missing
_OWN = frozenset({Carried, CarriedMessage, Missing, Heartbeat, Bygone})

Handed = tuple[Packet, NodeNumber] | None


class RepairLayer(Machine):
    """The protocol is its part `above`; what that sends goes out numbered, and what comes in goes up once."""

    PACKETS: tuple[type[Packet], ...] = (Carried, CarriedMessage, Missing, Heartbeat, Bygone)
    options: RepairOptions

    def __init__(
        self, context: Context, options: RepairOptions, above: Callable[[Context], Machine], codec: Codec
    ) -> None:
        super().__init__(context, options)
        self.source: Source = (context.me, context.incarnation)
        self.sent = 0
        self.skipped = 0
        self.receptions: dict[Source, Reception[Handed]] = {}
        self._own_copies: Reception[Handed] = Reception()
        self._codec = codec
        kept = Keeping(options, self.source)
        self.kept = kept
        self._asking = self.part("asking", lambda inner, _: Asking(inner, options, self.receptions, self._give_up))
        self._beating = self.part("beating", lambda inner, _: Beating(inner, options, self._heard))
        self._resending = self.part("resending", lambda inner, _: Resending(inner, options, kept))
        self.above = self.part("above", lambda inner, _: above(inner))

    # --- the door ----------------------------------------------------------------------------------------------------

    def step(self, event: Event, now: int) -> Sequence[Action]:
        """As of any machine; what the protocol above sends is numbered on the way out."""
        if isinstance(event, Received) and event.key not in _OWN and event.second != self.me:
            raise PeerError(f"{type(event.first).__name__} came without a number, past the repair layer")
        out: list[Action] = []
        for action in super().step(event, now):
            if isinstance(action, (Broadcast, Multicast, Send)) and action.packet.__class__ not in _OWN:
                out += self._numbered(action)
            else:
                out.append(action)
        return out

    def _numbered(self, action: Broadcast | Multicast | Send) -> list[Action]:
        """The packet with its number, for everybody to hear; a copy for the node itself needs none."""
        if isinstance(action, Broadcast):
            return self._transmitted(action.packet, ())
        addressed = (action.to,) if isinstance(action, Send) else action.to
        to = tuple(number for number in addressed if number != self.me)
        own: list[Action] = [Send(self.me, action.packet)] if self.me in addressed else []
        return own + self._transmitted(action.packet, to) if to else own

    def _transmitted(self, packet: Packet, to: tuple[NodeNumber, ...]) -> list[Action]:
        try:
            carried = carry(packet, self._codec, (*self.source, self.sent + 1), to)
        except FrameTooLargeError as error:
            return [Note(f"dropped above the repair layer: {error}")]
        self.sent += 1
        self.kept.keep(carried, self.now)
        self._beating.sent()
        timers = self._actions[:]
        self._actions.clear()
        return [Broadcast(carried), *timers]

    # --- what happens besides packets --------------------------------------------------------------------------------

    def started(self) -> None:
        self._asking.begin()
        self.above.started()

    def submitted(self, message: Message) -> None:
        self.above.submitted(message)

    def submitted_together(self, messages: Sequence[Message]) -> None:
        self.above.submitted_together(messages)

    def view_changed(self, view: View) -> None:
        self.above.view_changed(view)

    def attached(self, station: NodeNumber) -> None:
        self._asking.come_back()
        self.above.attached(station)

    def detached(self) -> None:
        self._asking.go_away()
        self.above.detached()

    # --- packets -----------------------------------------------------------------------------------------------------

    @on(Carried, CarriedMessage)
    def carried_received(self, packet: AnyCarried, sender: NodeNumber) -> None:
        place = (packet.writer, packet.life, packet.number)
        check_place(place, self.context.topology)
        check_age(packet.age_us)
        inner = carried_packet(packet, self._codec)
        self._resending.seen(place)
        if packet.writer == self.me:
            self._own_copy(packet, inner, sender)
            return
        reception = self._reception(place[:2])
        if reception is not None:
            self._take(reception, packet, inner)

    def _own_copy(self, packet: AnyCarried, inner: Packet, sender: NodeNumber) -> None:
        """What the air brings back to its sender goes up once; what others resend of it does not."""
        own = sender == self.me and packet.life == self.source[1]
        if own and packet.number <= self.sent and self._own_copies.take(packet.number) and not packet.to:
            self._hand_up(inner, self.me)

    def _take(self, reception: Reception[Handed], packet: AnyCarried, inner: Packet) -> None:
        number, age = packet.number, packet.age_us * MICROSECOND
        if self.options.fifo and len(reception.waiting) >= self.options.waiting_max and number > reception.prefix + 1:
            reception.heard_of(number)
            return
        expected = reception.highest + 1
        if not reception.take(number):
            return
        if age <= self._asking.listening:
            self.kept.keep(packet, self.now - age)
            reception.waiting[number] = (inner, packet.writer) if self._is_addressed(packet) else None
        self._release(reception, number)
        self._beating.rest()
        if number < expected:
            self._asking.progressed()
        elif number > expected:
            self._asking.hurry()

    @on(Missing)
    def missing_received(self, packet: Missing, sender: NodeNumber) -> None:
        check_missing(packet, self.context.topology)
        if sender != self.me:
            self._asking.overheard(packet)
            self._resending.asked(packet)

    @on(Heartbeat)
    def heartbeat_received(self, packet: Heartbeat, sender: NodeNumber) -> None:
        check_heartbeat(packet, self.context.topology)
        if sender == self.me:
            return
        self._beating.overheard(packet)
        for writer, life, number in packet.heard:
            if (writer, life) != self.source:
                self._hear_of((writer, life), number)
        self._beating.rest()

    def _hear_of(self, source: Source, number: int) -> None:
        reception = self._reception(source)
        if reception is None or number <= reception.highest:
            return
        if source[0] == self.me:
            reception.skip(number)  # what an earlier life of this node sent is not for this one
            return
        reception.heard_of(number)
        self._asking.hurry()

    @on(Bygone)
    def bygone_received(self, packet: Bygone, sender: NodeNumber) -> None:
        check_place((packet.writer, packet.life, max(packet.upto, packet.gone)), self.context.topology)
        check_age(packet.age_us)
        source = (packet.writer, packet.life)
        self._resending.told(source)
        reception = self.receptions.get(source)
        if reception is None:
            return
        if packet.age_us * MICROSECOND > self._asking.listening:
            reception.skip(packet.upto)
        if sender == packet.writer:
            self._skip(reception, packet.writer, packet.gone)
        self._asking.progressed()
        self._release(reception)

    # --- what is known of others -------------------------------------------------------------------------------------

    def _reception(self, source: Source) -> Reception[Handed] | None:
        """What is known of a life of a writer; None for lives that are too long ago."""
        found = self.receptions.get(source)
        if found is not None:
            return found
        lives = sorted(life for writer, life in self.receptions if writer == source[0])
        if len(lives) >= LIVES_MAX:
            if source[1] < lives[0]:
                return None
            del self.receptions[source[0], lives[0]]
        made: Reception[Handed] = Reception()
        self.receptions[source] = made
        return made

    def _heard(self) -> tuple[Place, ...]:
        own: list[Place] = [(*self.source, self.sent)] if self.sent else []
        others = [(*source, reception.highest) for source, reception in self.receptions.items() if reception.highest]
        return tuple(sorted(own + others))

    def _give_up(self, source: Source, upto: int) -> None:
        reception = self.receptions[source]
        self._skip(reception, source[0], upto)
        self._release(reception)

    def _skip(self, reception: Reception[Handed], writer: NodeNumber, upto: int) -> None:
        count = reception.skip(upto) if upto else 0
        if count:
            self.skipped += count
            self.note(f"repair skipped {count} packets of {self.context.topology.name(writer)}")

    # --- up ----------------------------------------------------------------------------------------------------------

    def _is_addressed(self, packet: AnyCarried) -> bool:
        return not packet.to or self.me in packet.to

    def _release(self, reception: Reception[Handed], number: int = 0) -> None:
        """Hand up what may go up: under `fifo` all that is in turn, otherwise the packet that just came."""
        ready = reception.ready() if self.options.fifo else [reception.waiting.pop(number, None)]
        for handed in ready:
            if handed is not None:
                self._hand_up(*handed)

    def _hand_up(self, packet: Packet, writer: NodeNumber) -> None:
        """A packet that the protocol blames on its peer counts as handed up; nobody has a better copy."""
        before = len(self._actions)
        handler = self.above._handlers.get(packet.__class__)
        try:
            if handler is None:
                raise PeerError(f"{type(self.above).__name__} has no handler for {type(packet).__name__}")
            handler(self.above, packet, writer)
        except PeerError as error:
            del self._actions[before:]
            self.note(f"refused above the repair layer: {error}")
