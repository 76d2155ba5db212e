"""FIFO broadcast among nodes that crash: a message is numbered within the life of its writer."""

from __future__ import annotations

from castbed import Context, Message, Mid, NodeNumber, Protocol, Variant, on

from castbed_mistakes.common import ORDER_OF_NOTHING, Carrier, Member

Number = tuple[int, int]
"""A life and a number in it: grows over restarts, with storage or without."""


class Data(Carrier, frozen=True, tag=1):
    """A message; life and number are in its identity."""


class Restarting(Member):
    """Delivers what is newer than all that its writer sent before; the air keeps the order."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self._sent = 0
        self._last: dict[NodeNumber, Number] = dict.fromkeys(context.peers(), (0, 0))

    def say(self, message: Message) -> None:
        self._sent += 1
        numbered = self.accept(message, self.identity(self._sent))
        self.broadcast(Data(numbered.group, numbered.mid, numbered.payload, numbered.parent))
        self.deliver(numbered)

    def identity(self, number: int) -> Mid:
        """The identity of the message of this number of this life."""
        return Mid(self.me, number, self.context.incarnation)

    @on(Data)
    def received(self, packet: Data, sender: NodeNumber) -> None:
        self.check_writer(packet, sender)
        number = (packet.mid.incarnation, packet.mid.seqno)
        if number > self._last[sender]:
            self._last[sender] = number
            self.deliver_if_ours(packet.message)


class NumberReused(Restarting):
    """The mistake: every life counts from 1, and nothing tells the lives apart."""

    def identity(self, number: int) -> Mid:
        return Mid(self.me, number)


NEEDS = frozenset({"air", "reliable_air", "fifo_air", "no_absence"})
GUARANTEES = (*ORDER_OF_NOTHING, "fifo")

PROTOCOL = Protocol(
    name="example-restart",
    summary="FIFO broadcast: numbers that grow over restarts",
    model="broadcast",
    packets=(Data,),
    variants={
        "correct": Variant({"member": Restarting}, NEEDS, GUARANTEES),
        "number-reused": Variant({"member": NumberReused}, NEEDS, GUARANTEES, "Numbers from 1 in every life"),
    },
)
