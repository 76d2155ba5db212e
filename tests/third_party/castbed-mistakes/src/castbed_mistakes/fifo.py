"""FIFO broadcast on an air that reorders: every writer numbers its messages, and gaps are waited for."""

from __future__ import annotations

from castbed import Context, Message, Mid, NodeNumber, PeerError, Protocol, Variant, on

from castbed_mistakes.common import ORDER_OF_NOTHING, WAITING_MAX, Carrier, Member


class Data(Carrier, frozen=True, tag=1):
    """A message; its number is in its identity."""


class Fifo(Member):
    """Delivers the messages of each writer by their numbers."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self._last: dict[NodeNumber, int] = dict.fromkeys(context.peers(), 0)
        self._early: dict[Mid, Message] = {}

    def say(self, message: Message) -> None:
        numbered = self.accept(message)
        self.broadcast(Data(numbered.group, numbered.mid, numbered.payload, numbered.parent))
        self.deliver(numbered)

    @on(Data)
    def received(self, packet: Data, sender: NodeNumber) -> None:
        self.check_writer(packet, sender)
        if len(self._early) >= WAITING_MAX:
            raise PeerError("too many messages wait for earlier ones")
        self.take(packet.message)

    def take(self, message: Message) -> None:
        """Deliver the message once all earlier ones of its writer are delivered, and those that waited for it."""
        writer = message.mid.sender
        if message.mid.seqno > self._last[writer]:
            self._early[message.mid] = message
        following = self._early.pop(Mid(writer, self._last[writer] + 1), None)
        while following is not None:
            self._last[writer] += 1
            self.deliver_if_ours(following)
            following = self._early.pop(Mid(writer, self._last[writer] + 1), None)


class FifoAssumed(Fifo):
    """The mistake: what arrives first was sent first."""

    def take(self, message: Message) -> None:
        self.deliver_if_ours(message)


NEEDS = frozenset({"air", "reliable_air", "no_crash", "no_absence"})
GUARANTEES = (*ORDER_OF_NOTHING, "fifo")

PROTOCOL = Protocol(
    name="example-fifo",
    summary="FIFO broadcast: the messages of each writer by their numbers",
    model="broadcast",
    packets=(Data,),
    variants={
        "correct": Variant({"member": Fifo}, NEEDS, GUARANTEES),
        "fifo-assumed": Variant({"member": FifoAssumed}, NEEDS, GUARANTEES, "Delivers in the order of arrival"),
    },
)
