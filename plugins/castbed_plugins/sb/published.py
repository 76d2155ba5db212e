"""S_B ordering as published (spec, section 4): one packet per message, every copy taken as it comes.

The medium is trusted to lose and duplicate nothing and to bring the sender its own copy; numbers begin at 1 in each
life, because the paper knows no crash.
"""

from __future__ import annotations

from castbed import Context, Group, Machine, Message, Mid, NodeNumber, on
from castbed_plugins.sb.options import STORES, Options
from castbed_plugins.sb.ordering import OrderingSteps
from castbed_plugins.sb.packets import Data


class Published(Machine):
    """One member of all its groups, with an ordering and a count of own messages for each."""

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        mine = [group for group, members in context.topology.groups.items() if context.me in members]
        self.orderings: dict[Group, OrderingSteps] = {group: STORES[options.store]() for group in mine}
        self.numbers: dict[Group, int] = dict.fromkeys(mine, 0)

    def submitted(self, message: Message) -> None:
        """RESPOND: number, stamp, broadcast. It is delivered when the own copy comes back (SB-S10)."""
        problem = self.why_refused(message)
        if problem:
            self.refuse(message, problem)
            return
        self.numbers[message.group] += 1
        self.broadcast(Data.of(self.accept(message, Mid(self.me, self.numbers[message.group]))))

    def why_refused(self, message: Message) -> str:
        """What is wrong with a submitted message; empty: nothing."""
        ordering = self.orderings.get(message.group)
        if ordering is None:
            return "not a member of the group"
        if message.to is not None:
            return "sb sends to whole groups only"
        if not self.options.answer_undelivered and not ordering.is_delivered(message.parent):
            return "it answers a message that was not delivered here"
        return ""

    @on(Data)
    def data_received(self, packet: Data, _sender: NodeNumber) -> None:
        """RECEIVE: deliver it and all that waited for it, or let it wait."""
        ordering = self.orderings.get(packet.group)
        if ordering is not None:
            self.order(ordering, packet.message)

    def order(self, ordering: OrderingSteps, message: Message) -> None:
        released = ordering.receive(message)
        for deliverable in released:
            self.deliver(deliverable)
        if not released:
            assert message.parent is not None
            self.hold(message, (message.parent,))
