"""Protocols that break one promise each, and one that keeps them; a plugin for the conformance kit to judge."""

from __future__ import annotations

from itertools import count

from castbed import (
    Context,
    Group,
    Machine,
    Message,
    Mid,
    NodeNumber,
    Packet,
    PeerError,
    Protocol,
    Variant,
    hookimpl,
    on,
)
from castbed.registry import Register

_STEPS_OF_THE_PROCESS = count()


class Said(Packet, frozen=True, tag=1):
    """One message."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None


class Sound(Machine):
    """Delivers every message once, when it comes."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self.heard_of: set[Mid] = set()

    def submitted(self, message: Message) -> None:
        accepted = self.accept(message)
        self.broadcast(Said(accepted.group, accepted.mid, accepted.payload, accepted.parent))

    @on(Said)
    def heard(self, packet: Said, sender: NodeNumber) -> None:
        if packet.mid.sender != sender:
            raise PeerError("nobody relays")
        if packet.mid not in self.heard_of:
            self.heard_of.add(packet.mid)
            self.take(Message(packet.mid, packet.group, packet.payload, packet.parent))

    def take(self, message: Message) -> None:
        self.deliver(message)


class Twice(Sound):
    """Delivers twice."""

    def take(self, message: Message) -> None:
        self.deliver(message)
        self.deliver(message)


class Moody(Sound):
    """Depends on what else happened in the process."""

    def take(self, message: Message) -> None:
        self.note(f"step {next(_STEPS_OF_THE_PROCESS)}")
        self.deliver(message)


class Hashing(Sound):
    """Depends on the order of a set of words."""

    def take(self, message: Message) -> None:
        self.note(" ".join({f"{word} {message.mid.seqno}" for word in ("one", "two", "three", "four")}))
        self.deliver(message)


class Trusting(Sound):
    """Believes that every sender is one that it knows."""

    @on(Said)
    def heard(self, packet: Said, sender: NodeNumber) -> None:
        known = {peer: peer for peer in self.context.topology.numbers()}
        super().heard(packet, known[packet.mid.sender] and sender)


class Rash(Sound):
    """Remembers before it looks."""

    @on(Said)
    def heard(self, packet: Said, sender: NodeNumber) -> None:
        known = packet.mid in self.heard_of
        self.heard_of.add(packet.mid)
        if packet.mid.sender != sender:
            raise PeerError("nobody relays")
        if not known:
            self.take(Message(packet.mid, packet.group, packet.payload, packet.parent))


class Echoing(Sound):
    """Answers whoever a packet names, whether there is such a node or not."""

    @on(Said)
    def heard(self, packet: Said, sender: NodeNumber) -> None:
        if self.context.topology.knows(packet.mid.sender):
            super().heard(packet, sender)
        else:
            self.send(packet.mid.sender, packet)


class Counting(Sound):
    """Notes how many messages of a writer must have come before this one, which may be more than a record holds."""

    @on(Said)
    def heard(self, packet: Said, sender: NodeNumber) -> None:
        super().heard(packet, sender)
        self.gauge("earlier", packet.mid.seqno << 8)


class Greeting(Sound):
    """Answers with a number that no frame holds when somebody counts far."""

    @on(Said)
    def heard(self, packet: Said, sender: NodeNumber) -> None:
        super().heard(packet, sender)
        if packet.mid.seqno >> 32:
            self.broadcast(Said(packet.group << 32, packet.mid, b"", None))


class Fragile(Sound):
    """Breaks down at the first message."""

    def take(self, message: Message) -> None:
        raise RuntimeError(f"{len(message.payload)} bytes are too many")


class Silent(Sound):
    """Delivers nothing."""

    def take(self, message: Message) -> None:
        """Forget it."""


CALM = frozenset({"air", "reliable_air", "own_copy", "no_crash", "no_absence"})
BASIC = ("integrity", "no_duplication")


def _declared(machine: type[Machine], *more: str) -> Protocol:
    name = machine.__name__.lower()
    return Protocol(
        name, machine.__doc__ or "", "broadcast", (Said,), {"only": Variant({"member": machine}, CALM, (*BASIC, *more))}
    )


@hookimpl
def castbed_protocols(register: Register[Protocol]) -> None:
    for machine in (Twice, Moody, Hashing, Trusting, Rash, Echoing, Counting, Greeting, Fragile, Silent):
        register.add(_declared(machine))
    register.add(_declared(Sound, "agreement", "validity", "liveness"))
    register.add(_declared(type("Hasty", (Sound,), {"__doc__": "Forgets to order."}), "semantic"))
