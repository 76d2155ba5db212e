"""Messages of hosts that move, each taken by one station, once.

A host sends one message at a time to its station until the station has taken it. In a new cell it does not know what
the last station took; so it greets the new one and waits to be welcome. The new station asks all others meanwhile, and
each of them takes nothing more of the host's earlier stays. Stations trust hosts not to send before that.

Stations number what they take and tell each other; a host asks its station now and then for what it has not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from castbed import (
    NOBODY,
    Context,
    Duration,
    Machine,
    Message,
    NodeNumber,
    Packet,
    PeerError,
    Protocol,
    Variant,
    on,
)

from castbed_mistakes.common import ORDER_OF_NOTHING, Carrier, Member

TICK, RETRY = "tick", "retry"
TICK_EVERY = Duration.parse("200ms")
RETRY_EVERY = Duration.parse("50ms")
NEWS_MAX = 16  # messages of one station in one answer; what is left is asked for with the next tick


class Greet(Packet, frozen=True, tag=1):
    """A host is new in the cell; `stay` counts the cells that it came to."""

    stay: int


class Fetch(Packet, frozen=True, tag=2):
    """Take nothing more of the host's stays before this one, and tell me what you took."""

    host: NodeNumber
    stay: int


class Taken(Packet, frozen=True, tag=3):
    """The host's messages up to this one are taken, as far as the sender knows."""

    host: NodeNumber
    stay: int
    count: int


class Welcome(Packet, frozen=True, tag=4):
    """The host may send, beginning behind this message."""

    stay: int
    count: int


class Request(Carrier, frozen=True, tag=5):
    """A host's next message."""

    stay: int


class Accepted(Packet, frozen=True, tag=6):
    """The host's messages up to this one are taken."""

    count: int


class Post(Carrier, frozen=True, tag=7):
    """What a station took, for the other stations."""


class Ask(Packet, frozen=True, tag=8):
    """How many messages of each station a host has."""

    have: tuple[tuple[NodeNumber, int], ...]


class News(Carrier, frozen=True, tag=9):
    """The message of this number that `station` took."""

    station: NodeNumber
    number: int


class Host(Member):
    """Has one request on its way at most, and none before it is welcome."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self.station = NOBODY
        self._stay = 0
        self._welcome = False
        self._unsent: list[Message] = []
        self._have: dict[NodeNumber, int] = dict.fromkeys(context.peers("station"), 0)

    def attached(self, station: NodeNumber) -> None:
        self.station = station
        self._stay += 1
        self._welcome = False
        self._tick()

    def detached(self) -> None:
        self.station = NOBODY
        self.cancel_timer(TICK)
        self.cancel_timer(RETRY)

    def expired(self, timer: str) -> None:
        self._tick() if timer == TICK else self._request()

    def _tick(self) -> None:
        """Say again what the station may not have heard."""
        self.send(self.station, Ask(tuple(self._have.items())) if self._welcome else Greet(self._stay))
        self.set_timer(TICK, TICK_EVERY)

    # --- sending -----------------------------------------------------------------------------------------------------

    def say(self, message: Message) -> None:
        self._unsent.append(self.accept(message))
        if self._welcome and len(self._unsent) == 1:
            self._request()

    def _request(self) -> None:
        if self._unsent and self.station != NOBODY:
            first = self._unsent[0]
            self.send(self.station, Request(first.group, first.mid, first.payload, first.parent, self._stay))
            self.set_timer(RETRY, RETRY_EVERY)

    @on(Welcome)
    def welcomed(self, packet: Welcome, sender: NodeNumber) -> None:
        if sender == self.station and packet.stay == self._stay and not self._welcome:
            self._welcome = True
            self._forget(packet.count)
            self._request()
            self.send(self.station, Ask(tuple(self._have.items())))

    @on(Accepted)
    def accepted(self, packet: Accepted, sender: NodeNumber) -> None:
        if sender == self.station and self._unsent and packet.count >= self._unsent[0].mid.seqno:
            self._forget(packet.count)
            self._request()

    def _forget(self, count: int) -> None:
        self._unsent = [message for message in self._unsent if message.mid.seqno > count]

    # --- receiving ---------------------------------------------------------------------------------------------------

    @on(News)
    def heard(self, packet: News, sender: NodeNumber) -> None:
        if packet.station not in self._have:
            raise PeerError(f"{sender} has news of {packet.station}, which is no station")
        if packet.number == self._have[packet.station] + 1:
            self._have[packet.station] += 1
            self.deliver_if_ours(packet.message)


class TimerLeftRunning(Host):
    """The mistake: the timer of a request goes on after the handoff, and sends before the host is welcome."""

    def detached(self) -> None:
        self.station = NOBODY
        self.cancel_timer(TICK)


@dataclass
class Guest:
    """What a station knows of a host: the latest stay, what was taken, and who has yet to say what they took."""

    stay: int = 0
    taken: int = 0
    awaited: set[NodeNumber] = field(default_factory=set)


class Station(Machine):
    """Takes the messages of the hosts in its cell and tells everybody."""

    def __init__(self, context: Context, options: object = None) -> None:
        super().__init__(context, options)
        self._others = context.peers("station")
        self._guests = {host: Guest() for host in context.peers("host")}
        self._logs: dict[NodeNumber, list[Message]] = {station: [] for station in (self.me, *self._others)}

    def _guest(self, host: NodeNumber) -> Guest:
        if host not in self._guests:
            raise PeerError(f"{host} is no host")
        return self._guests[host]

    # --- arrivals ----------------------------------------------------------------------------------------------------

    @on(Greet)
    def greeted(self, packet: Greet, sender: NodeNumber) -> None:
        guest = self._guest(sender)
        if packet.stay > guest.stay:
            guest.stay = packet.stay
            guest.awaited = set(self._others)
            self.multicast(self._others, Fetch(sender, packet.stay))
        if packet.stay == guest.stay:
            self._welcome_if_known(sender, guest)

    @on(Fetch)
    def asked(self, packet: Fetch, sender: NodeNumber) -> None:
        guest = self._guest(packet.host)
        if packet.stay > guest.stay:
            guest.stay = packet.stay
            guest.awaited.clear()
        self.send(sender, Taken(packet.host, packet.stay, guest.taken))

    @on(Taken)
    def told(self, packet: Taken, sender: NodeNumber) -> None:
        guest = self._guest(packet.host)
        if packet.stay == guest.stay and sender in guest.awaited:
            guest.awaited.remove(sender)
            guest.taken = max(guest.taken, packet.count)
            self._welcome_if_known(packet.host, guest)

    def _welcome_if_known(self, host: NodeNumber, guest: Guest) -> None:
        if not guest.awaited:
            self.send(host, Welcome(guest.stay, guest.taken))

    # --- messages ----------------------------------------------------------------------------------------------------

    @on(Request)
    def requested(self, packet: Request, sender: NodeNumber) -> None:
        guest = self._guest(sender)
        if packet.mid.sender != sender:
            raise PeerError(f"{sender} sent a message of {packet.mid.sender}")
        if packet.stay != guest.stay:
            return
        if packet.mid.seqno == guest.taken + 1:
            guest.taken += 1
            self.multicast(self._others, Post(packet.group, packet.mid, packet.payload, packet.parent))
            self._log(self.me, packet.message)
        self.send(sender, Accepted(guest.taken))

    @on(Post)
    def posted(self, packet: Post, sender: NodeNumber) -> None:
        if sender not in self._others:
            raise PeerError(f"{sender} is no station")
        self._log(sender, packet.message)

    def _log(self, station: NodeNumber, message: Message) -> None:
        self._logs[station].append(message)
        self.broadcast(_news(station, len(self._logs[station]), message))

    @on(Ask)
    def answer(self, packet: Ask, sender: NodeNumber) -> None:
        self._guest(sender)
        for station, count in packet.have:
            if station not in self._logs or count < 0:
                raise PeerError(f"{sender} has {count} messages of {station}")
        for station, count in packet.have:
            for number, message in enumerate(self._logs[station][count : count + NEWS_MAX], start=count + 1):
                self.send(sender, _news(station, number, message))


def _news(station: NodeNumber, number: int, message: Message) -> News:
    return News(message.group, message.mid, message.payload, message.parent, station, number)


NEEDS = frozenset({"air", "wire", "reliable_wire", "fifo_wire", "no_crash"})

PROTOCOL = Protocol(
    name="example-handoff",
    summary="Messages of moving hosts, taken once: a new station asks the others before it takes anything",
    model="cellular",
    packets=(Greet, Fetch, Taken, Welcome, Request, Accepted, Post, Ask, News),
    variants={
        "correct": Variant({"host": Host, "station": Station}, NEEDS, ORDER_OF_NOTHING),
        "timer-left-running": Variant(
            {"host": TimerLeftRunning, "station": Station}, NEEDS, ORDER_OF_NOTHING, "Asks before it is welcome"
        ),
    },
)
