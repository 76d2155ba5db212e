"""The coordinator of the three-tier model: a supervisor host with a source on it."""

from __future__ import annotations

from castbed import Context, Group, Message, Mid, NodeNumber, on
from castbed_plugins.relm.blame import expect
from castbed_plugins.relm.handoff import Handoffs
from castbed_plugins.relm.options import Options
from castbed_plugins.relm.packets import Data, Delivered, Discard, Key


class Coordinator(Handoffs):
    """Numbers its messages per group, and waits for all domains before it lets go of one."""

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        self.next_seq: dict[Group, int] = {}
        self.awaiting: dict[Key, set[NodeNumber]] = {}

    def submitted(self, message: Message) -> None:
        """Source-1: number it, wait for all domains, DATA to the other supervisors, SH-1 here."""
        problem = self.why_refused(message)
        if problem:
            self.refuse(message, problem)
            return
        number = self.next_seq.get(message.group, 1)
        self.next_seq[message.group] = number + 1
        accepted = self.accept(message, Mid(self.me, number))
        packet = Data(accepted.group, accepted.mid, accepted.payload, accepted.parent)
        self.awaiting[packet.key] = {self.me, *self.others}
        self.multicast(self.others, packet)
        self.spread(packet)

    def why_refused(self, message: Message) -> str:
        """What is wrong with a submitted message; empty: nothing."""
        if message.to is not None:
            return "RelM sends to whole groups only"
        if len(self.awaiting) >= self.options.awaiting_max:
            return "too many messages that not all domains have delivered"
        return ""

    @on(Delivered)
    def delivered(self, packet: Delivered, sender: NodeNumber) -> None:
        """Source-2, of another domain."""
        expect(sender in self.others and packet.mid.sender == self.me, "a report to the wrong source")
        key = packet.group, packet.mid
        expect(sender in self.awaiting.get(key, ()), "a report about a message that waits for none")
        self.domain_delivered(key, sender)

    def domain_delivered(self, key: Key, supervisor: NodeNumber) -> None:
        """Source-2: one domain less; after the last one DISCARD, and forget the message."""
        self.awaiting[key].discard(supervisor)
        if not self.awaiting[key]:
            del self.awaiting[key]
            self.multicast(self.others, Discard(*key))
            self.drop(key)
