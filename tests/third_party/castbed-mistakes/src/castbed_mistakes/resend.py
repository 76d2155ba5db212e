"""Reliable broadcast on an air that loses and duplicates: a writer repeats a message until all have acknowledged it."""

from __future__ import annotations

from castbed import Context, Duration, Message, Mid, NodeNumber, Packet, Protocol, Variant, on

from castbed_mistakes.common import ORDER_OF_NOTHING, Carrier, Member

AGAIN = "again"
REPEATED_EVERY = Duration.parse("50ms")


class Data(Carrier, frozen=True, tag=1):
    """A message."""


class Ack(Packet, frozen=True, tag=2):
    """Its sender has the message."""

    mid: Mid


class Resend(Member):
    """Repeats its own messages while somebody may lack them; acknowledges every copy of those of others."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self.seen: set[Mid] = set()
        self.acknowledged: dict[Mid, list[NodeNumber]] = {}
        self._unacknowledged: dict[Mid, Data] = {}

    def say(self, message: Message) -> None:
        numbered = self.accept(message)
        packet = Data(numbered.group, numbered.mid, numbered.payload, numbered.parent)
        self.broadcast(packet)
        self.deliver(numbered)
        if self.context.peers():
            self.acknowledged[numbered.mid] = []
            self._unacknowledged[numbered.mid] = packet
            self.set_timer(AGAIN, REPEATED_EVERY)

    @on(Data)
    def received(self, packet: Data, sender: NodeNumber) -> None:
        self.check_writer(packet, sender)
        self.take(packet.message)
        self.send(sender, Ack(packet.mid))

    def take(self, message: Message) -> None:
        """Deliver a message when it comes for the first time."""
        if message.mid not in self.seen:
            self.seen.add(message.mid)
            self.deliver_if_ours(message)

    @on(Ack)
    def heard(self, packet: Ack, sender: NodeNumber) -> None:
        if packet.mid not in self._unacknowledged or sender not in self.context.peers():
            return
        self.count(packet.mid, sender)
        if len(self.acknowledged[packet.mid]) == len(self.context.peers()):
            del self.acknowledged[packet.mid]
            del self._unacknowledged[packet.mid]

    def count(self, mid: Mid, sender: NodeNumber) -> None:
        """Note that the sender has the message."""
        if sender not in self.acknowledged[mid]:
            self.acknowledged[mid].append(sender)

    def expired(self, timer: str) -> None:
        for packet in self._unacknowledged.values():
            self.broadcast(packet)
        if self._unacknowledged:
            self.set_timer(AGAIN, REPEATED_EVERY)


class DeliversFirst(Resend):
    """The mistake: a message is delivered before one looks whether it is new."""

    def take(self, message: Message) -> None:
        self.deliver_if_ours(message)
        self.seen.add(message.mid)


class CountsTwice(Resend):
    """The mistake: two acknowledgements of one node count as those of two."""

    def count(self, mid: Mid, sender: NodeNumber) -> None:
        self.acknowledged[mid].append(sender)


NEEDS = frozenset({"air", "no_crash", "no_absence"})

PROTOCOL = Protocol(
    name="example-resend",
    summary="Reliable broadcast: repeated until everybody has acknowledged",
    model="broadcast",
    packets=(Data, Ack),
    variants={
        "correct": Variant({"member": Resend}, NEEDS, ORDER_OF_NOTHING),
        "delivered-before-dedup": Variant({"member": DeliversFirst}, NEEDS, ORDER_OF_NOTHING, "Looks too late"),
        "ack-counted-twice": Variant({"member": CountsTwice}, NEEDS, ORDER_OF_NOTHING, "Counts, but not whom"),
    },
)
