"""A small cellular protocol for tests: stations relay what hosts send, and a host that moves gets what it missed.

A host sends up to its station, the stations tell each other over the wire, and each broadcasts down into its cell. A
host keeps what it sent until it hears it come down, and greets every station it comes to with what it has; both
together make up for every copy that a move cost. The messages of a writer are delivered in the order of their numbers.
"""

from __future__ import annotations

from castbed import (
    NOBODY,
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

LOG_MAX = 100_000  # messages a station remembers for hosts that missed them; no test sends as many
Writer = tuple[Group, NodeNumber]


class _Carrier(Packet, frozen=True):
    """What all packets with a message have."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None


class Up(_Carrier, frozen=True, tag=1):
    """From a host to its station."""


class Across(_Carrier, frozen=True, tag=2):
    """From a station to the other stations."""


class Down(_Carrier, frozen=True, tag=3):
    """From a station into its cell, or to the one host that missed it."""


class Greet(Packet, frozen=True, tag=4):
    """A host is new in the cell; of these writers it has every message up to the number."""

    have: tuple[tuple[Group, NodeNumber, int], ...]


class Host(Machine):
    """A mobile host: a member of its groups wherever it is."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self._station = NOBODY
        self._sent: dict[Group, int] = {}
        self._unheard: dict[tuple[Group, Mid], Message] = {}
        self._have: dict[Writer, int] = {}
        self._early: dict[Writer, dict[int, Message]] = {}

    def submitted(self, message: Message) -> None:
        if message.to is not None or not self._belongs_to(message.group):
            self.refuse(message, "only members send, and only to their whole group")
            return
        self._sent[message.group] = self._sent.get(message.group, 0) + 1
        numbered = self.accept(message, Mid(self.me, self._sent[message.group]))
        self._unheard[numbered.group, numbered.mid] = numbered
        if self._station != NOBODY:
            self._send_up(numbered)

    def attached(self, station: NodeNumber) -> None:
        self._station = station
        self.send(station, Greet(tuple((*writer, number) for writer, number in self._have.items())))
        for message in self._unheard.values():
            self._send_up(message)

    def detached(self) -> None:
        self._station = NOBODY

    @on(Down)
    def heard(self, packet: Down, sender: NodeNumber) -> None:  # noqa: ARG002 (any station will do)
        self._unheard.pop((packet.group, packet.mid), None)
        writer = (packet.group, packet.mid.sender)
        if self._belongs_to(packet.group) and packet.mid.seqno > self._have.get(writer, 0):
            message = Message(packet.mid, packet.group, packet.payload, packet.parent)
            self._take(writer, message)

    def _take(self, writer: Writer, message: Message) -> None:
        early = self._early.setdefault(writer, {})
        if message.mid.seqno in early:
            return
        early[message.mid.seqno] = message
        following = self._have.get(writer, 0) + 1
        if following not in early:
            self.hold(message, [Mid(message.mid.sender, following)])
        while following in early:
            self.deliver(early.pop(following))
            self._have[writer] = following
            following += 1

    def _send_up(self, message: Message) -> None:
        self.send(self._station, Up(message.group, message.mid, message.payload, message.parent))

    def _belongs_to(self, group: Group) -> bool:
        return self.me in self.context.topology.groups.get(group, ())


class Station(Machine):
    """A fixed station: it relays once what it hears, and remembers it for hosts that come later."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self._log: dict[tuple[Group, Mid], Down] = {}

    @on(Up)
    def heard_from_host(self, packet: Up, sender: NodeNumber) -> None:
        if packet.mid.sender != sender:
            raise PeerError(f"{sender} sent a message of {packet.mid.sender}")
        if self._is_new(packet):
            others = self.context.peers("station")
            self.multicast(others, Across(packet.group, packet.mid, packet.payload, packet.parent))
            self._send_down(packet)

    @on(Across)
    def heard_from_station(self, packet: Across, sender: NodeNumber) -> None:  # noqa: ARG002 (any of them will do)
        if self._is_new(packet):
            self._send_down(packet)

    @on(Greet)
    def greeted(self, packet: Greet, sender: NodeNumber) -> None:
        have = {(group, writer): number for group, writer, number in packet.have}
        for (group, mid), missed in self._log.items():
            if sender in self.context.topology.groups[group] and mid.seqno > have.get((group, mid.sender), 0):
                self.send(sender, missed)

    def _is_new(self, packet: _Carrier) -> bool:
        if packet.group not in self.context.topology.groups:
            raise PeerError(f"there is no group {packet.group}")
        if len(self._log) >= LOG_MAX:
            raise PeerError(f"more than {LOG_MAX} messages")
        return (packet.group, packet.mid) not in self._log

    def _send_down(self, packet: _Carrier) -> None:
        down = Down(packet.group, packet.mid, packet.payload, packet.parent)
        self._log[packet.group, packet.mid] = down
        self.broadcast(down)


PROTOCOL = Protocol(
    name="relay",
    summary="Stations relay to the hosts of their cells; hosts that move get what they missed",
    model="cellular",
    packets=(Up, Across, Down, Greet),
    variants={
        "published": Variant(
            roles={"host": Host, "station": Station},
            needs=frozenset({"air", "wire", "reliable_air", "reliable_wire", "no_crash"}),
            guarantees=("integrity", "no_duplication", "agreement", "validity", "fifo", "exactly_once", "liveness"),
        )
    },
)


@hookimpl
def castbed_protocols(register: Register[Protocol]) -> None:
    """Makes this module a plugin: `load_registry(extra={"relay": cellular_relay})`."""
    register.add(PROTOCOL)
