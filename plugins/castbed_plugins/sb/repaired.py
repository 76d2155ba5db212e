"""S_B ordering for networks and nodes as they are: the published ordering over repair by digests.

The order is that of `published`. What is added: each message counts once, whatever number of copies arrives (SB-R3);
the sender takes its own copy at once (SB-R4); identities hold the life of the writer, and all messages outlive a
restart (SB-R5, R6, R16); waiting messages are bounded (SB-R7); what cannot be is refused before anything changes
(SB-R13); and what was lost is repaired between equals (SB-R1, R2).
"""

from __future__ import annotations

from typing import Any

from castbed import Context, Group, Message, Mid, NodeNumber, PeerError, on
from castbed.parts import AntiEntropy, Digest, Repair, check_message
from castbed_plugins.sb.options import Options
from castbed_plugins.sb.packets import Data
from castbed_plugins.sb.published import Published

PAYLOAD_BYTES_MAX = 65_536  # what one UDP datagram may hold; a repair of it fits a frame with room to spare


class Repaired(Published):
    """One member of all its groups, with an ordering and a repair part for each."""

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        self.repairs: dict[Group, AntiEntropy] = {group: self._repair_of(group) for group in self.orderings}
        self._waiting_is_timed = False

    def _repair_of(self, group: Group) -> AntiEntropy:
        """The repair part of a group; what earlier lives received is ordered again, in silence (SB-R16)."""
        ordering = self.orderings[group]
        make = AntiEntropy.for_group(group, self.learned, settled=ordering.is_delivered)
        repair = self.part(f"group-{group}", make, self.options.repair, routed=False)
        for writer, numbers in repair.evicted.items():
            ordering.assume_delivered(writer, numbers)
        for message in repair.reloaded:
            ordering.receive(message)
        return repair

    def started(self) -> None:
        for repair in self.repairs.values():
            repair.start(soon=self.context.incarnation > 0)

    def attached(self, _station: NodeNumber) -> None:
        """Back in range: say what we have, because others may have more."""
        for repair in self.repairs.values():
            repair.announce()

    def submitted(self, message: Message) -> None:
        """Number it for this life, keep it, send it, and take the own copy."""
        problem = self.why_refused(message)
        if problem:
            self.refuse(message, problem)
            return
        group = message.group
        self.numbers[group] += 1
        numbered = self.accept(message, self._next_mid(group, 0))
        self.repairs[group].store(numbered)
        self.broadcast(Data.of(numbered))
        self._take(numbered)

    def why_refused(self, message: Message) -> str:
        problem = super().why_refused(message)
        if problem:
            return problem
        if len(message.payload) > PAYLOAD_BYTES_MAX:
            return f"a payload may have {PAYLOAD_BYTES_MAX} bytes"
        if message.parent == self._next_mid(message.group, 1):
            return "it answers itself"
        return "too many messages wait already" if self._overflows(message) else ""

    def _next_mid(self, group: Group, ahead: int) -> Mid:
        return Mid(self.me, self.numbers[group] + ahead, self.context.incarnation)

    # --- what arrives ------------------------------------------------------------------------------------------------

    @on(Data)
    def data_received(self, packet: Data, _sender: NodeNumber) -> None:
        """A live copy: drop it if the message is known."""
        repair = self.repairs.get(packet.group)
        if repair is None:
            return
        message = packet.message
        self._check(message, packet.group)
        if repair.store(message):
            self._take(message)
        elif packet.mid.sender != self.me:
            self.note("duplicate", packet.mid, packet.group)

    @on(Digest)
    def digest_received(self, packet: Digest, sender: NodeNumber) -> None:
        repair = self.repairs.get(packet.group)
        if repair is not None:
            repair.digest_received(packet, sender)

    @on(Repair)
    def repair_received(self, packet: Repair, sender: NodeNumber) -> None:
        repair = self.repairs.get(packet.group)
        if repair is not None:
            for message in packet.messages:
                self._check(message, packet.group)
            repair.repair_received(packet, sender)

    def learned(self, message: Message) -> None:
        """A message that a peer repaired."""
        self.note("repaired", message.mid, message.group)
        self._take(message)

    def _check(self, message: Message, group: Group) -> None:
        """Refuse what no member of the group can have sent (SB-R13)."""
        check_message(message, group)
        if len(message.payload) > PAYLOAD_BYTES_MAX:
            raise PeerError(f"message {message.mid.text()} has a payload of {len(message.payload)} bytes")
        if message.to is not None:
            raise PeerError(f"message {message.mid.text()} is addressed, which sb knows nothing of")
        mid = message.mid
        in_my_name = mid.sender == self.me and mid.incarnation == self.context.incarnation
        if in_my_name and mid.seqno > self.numbers[group]:
            raise PeerError(f"message {mid.text()} is said to be mine, and I never wrote it")

    # --- what waits --------------------------------------------------------------------------------------------------

    def _take(self, message: Message) -> None:
        """Order a new message, unless it has to wait and there is no room (SB-R7)."""
        if self._overflows(message):
            self.note("no-room", message.mid, message.group)
            self.repairs[message.group].forget(message.mid)
            return
        ordering = self.orderings[message.group]
        self.order(ordering, message)
        if ordering.held_count and not self._waiting_is_timed:
            self._waiting_is_timed = True
            self.set_timer("waiting", self.options.parent_wait)

    def _overflows(self, message: Message) -> bool:
        ordering = self.orderings[message.group]
        return ordering.held_count >= self.options.held_max and not ordering.is_delivered(message.parent)

    def expired(self, timer: Any) -> None:
        """Something has waited for long: its parent may be lost, so say what we lack (SB-R2)."""
        if timer == "waiting":
            self._waiting_is_timed = False
            for group, ordering in self.orderings.items():
                if ordering.held_count:
                    self.repairs[group].announce()
