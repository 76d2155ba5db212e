"""What the protocols on one shared air have in common: a packet with a message, and whose messages they take."""

from __future__ import annotations

from castbed import Group, Machine, Message, Mid, NodeNumber, Packet, PeerError

ORDER_OF_NOTHING = ("integrity", "no_duplication", "agreement", "validity", "exactly_once", "liveness")
"""What every protocol here promises: each message once, at everybody, unaltered."""

WAITING_MAX = 10_000  # messages that may wait at one node: far beyond what any run here sends


class Carrier(Packet, frozen=True):
    """What all packets with a message have."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None

    @property
    def message(self) -> Message:
        return Message(self.mid, self.group, self.payload, self.parent)


class Member(Machine):
    """A node that sends to its own groups and delivers what they send."""

    def submitted(self, message: Message) -> None:
        if message.to is not None or not self.belongs_to(message.group):
            self.refuse(message, "only members send, and only to their whole group")
        else:
            self.say(message)

    def say(self, message: Message) -> None:
        """Send a message that may be sent."""
        raise NotImplementedError

    def belongs_to(self, group: Group) -> bool:
        return self.me in self.context.topology.groups.get(group, ())

    def deliver_if_ours(self, message: Message) -> None:
        if self.belongs_to(message.group):
            self.deliver(message)

    def check_writer(self, packet: Carrier, sender: NodeNumber) -> None:
        """Nobody speaks for others, and numbers begin at 1."""
        if packet.mid.sender != sender or sender not in self.context.peers() or packet.mid.seqno < 1:
            raise PeerError(f"{sender} sent a message as {packet.mid}")
