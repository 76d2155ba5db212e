"""Causal broadcast with vector clocks (Birman, Schiper, Stephenson, 1991)."""

from __future__ import annotations

from castbed import Context, Message, Mid, NodeNumber, PeerError, Protocol, Variant, on

from castbed_mistakes.common import ORDER_OF_NOTHING, WAITING_MAX, Carrier, Member

Clock = tuple[int, ...]


class Data(Carrier, frozen=True, tag=1):
    """A message with its writer's clock: of each node, how many messages come before it, and itself."""

    clock: Clock


class Causal(Member):
    """Delivers a message once everything that its clock counts is delivered."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self._clock = [0] * len(context.topology.numbers())
        self._delivered = list(self._clock)
        self._waiting: dict[Mid, Data] = {}

    def say(self, message: Message) -> None:
        numbered = self.accept(message)
        self._clock[self.me - 1] += 1
        self._delivered[self.me - 1] += 1
        clock = tuple(self._clock)
        self.broadcast(Data(numbered.group, numbered.mid, numbered.payload, numbered.parent, clock))
        self.deliver(numbered)

    @on(Data)
    def received(self, packet: Data, sender: NodeNumber) -> None:
        self.check_writer(packet, sender)
        if len(packet.clock) != len(self._clock) or len(self._waiting) >= WAITING_MAX:
            raise PeerError("a clock that is not ours, or too many messages that wait")
        if packet.clock[sender - 1] > self._delivered[sender - 1]:
            self._waiting[packet.mid] = packet
        self._deliver_ready()

    def _deliver_ready(self) -> None:
        ready = self._next_ready()
        while ready is not None:
            del self._waiting[ready.mid]
            self._delivered[ready.mid.sender - 1] += 1
            self.merge(ready.clock)
            self.deliver_if_ours(ready.message)
            ready = self._next_ready()

    def _next_ready(self) -> Data | None:
        return next((packet for packet in self._waiting.values() if self._is_ready(packet)), None)

    def _is_ready(self, packet: Data) -> bool:
        writer = packet.mid.sender - 1
        before = [count - (place == writer) for place, count in enumerate(packet.clock)]
        return before[writer] == self._delivered[writer] and all(map(int.__le__, before, self._delivered))

    def merge(self, clock: Clock) -> None:
        """What is delivered comes before everything that is sent from now on."""
        self._clock = list(map(max, self._clock, clock))


class NotMerged(Causal):
    """The mistake: what was delivered is not in the clocks of later messages."""

    def merge(self, clock: Clock) -> None:
        pass


NEEDS = frozenset({"air", "reliable_air", "no_crash", "no_absence"})
GUARANTEES = (*ORDER_OF_NOTHING, "fifo", "causal")

PROTOCOL = Protocol(
    name="example-causal",
    summary="Causal broadcast: a message waits for all that its vector clock counts",
    model="broadcast",
    packets=(Data,),
    variants={
        "correct": Variant({"member": Causal}, NEEDS, GUARANTEES),
        "clock-not-merged": Variant({"member": NotMerged}, NEEDS, GUARANTEES, "Deliveries do not reach the clock"),
    },
)
