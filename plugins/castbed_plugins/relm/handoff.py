"""The supervisor's part in a handoff (spec, section 5): pull, forward, take over, let go.

One handoff of a host after the other: what concerns a later move waits until the host has arrived by the earlier one.
A supervisor that a host left remembers where it went, so that a pull finds it although a greeting was lost on the way.
"""

from __future__ import annotations

from castbed import NOBODY, Context, NodeNumber, on
from castbed_plugins.relm.blame import expect
from castbed_plugins.relm.options import Options
from castbed_plugins.relm.packets import Forward, Hello, HelloAck, JoinRequest, Key, LeaveRequest, Moved, Pull, Pulled
from castbed_plugins.relm.supervisor import Supervisor

Waiting = tuple[Hello | Pull, NodeNumber]


class Arrival:
    """A host on its way into this domain, or into another cell of it."""

    __slots__ = ("hello", "later", "station", "taken")

    def __init__(self, hello: Hello, station: NodeNumber) -> None:
        self.hello = hello
        self.station = station
        self.taken: list[Key] = []
        self.later: dict[int, Waiting] = {}


class Handoffs(Supervisor):
    """A supervisor whose hosts move."""

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        self.hosts = frozenset(context.topology.numbers("host"))
        self.parent = context.topology.parent
        self.newest: dict[NodeNumber, int] = dict.fromkeys(self.location, 0)
        """The latest move of each host that this supervisor acted upon."""
        self.arrived_by: dict[NodeNumber, int] = dict(self.newest)
        self.last_station: dict[NodeNumber, NodeNumber] = dict(self.location)
        self.arrivals: dict[NodeNumber, Arrival] = {}
        self.departed: dict[NodeNumber, NodeNumber] = {}
        """Which supervisor each host was handed to; moves only grow along this way, so it ends where the host is."""

    # --- towards this domain -----------------------------------------------------------------------------------------

    @on(Hello)
    def hello(self, packet: Hello, sender: NodeNumber) -> None:
        """Handoff step 1: a host has come to one of the stations."""
        expect(sender in self.stations and packet.host in self.hosts, "a greeting from another domain")
        expect(packet.old_station == NOBODY or packet.old_station in self.parent, "the old cell does not exist")
        arrival = self.arrivals.get(packet.host)
        newest = self.newest.get(packet.host, 0)
        if packet.move == newest and packet.host not in self.departed:
            self.send(sender, HelloAck(packet.host, packet.move))
        elif packet.move > newest and arrival is not None:
            arrival.later[packet.move] = packet, sender
        elif packet.move > newest:
            self.welcome(packet, sender)

    def welcome(self, packet: Hello, station: NodeNumber) -> None:
        """Handoff step 2: pull from where the host was, unless it never left."""
        host = packet.host
        self.newest[host] = packet.move
        self.send(station, HelloAck(host, packet.move))
        if host not in self.departed and self.location.get(host) == station:
            return
        arrival = self.arrivals[host] = Arrival(packet, station)
        holder = self.holder(packet)
        if holder == NOBODY:
            self.arrive(arrival)
        else:
            self.send(holder, Pull(host, packet.move, self.me, packet.last))

    def holder(self, packet: Hello) -> NodeNumber:
        """Who has the host's messages: where it went from here, the old station if that is ours, its supervisor."""
        if packet.host in self.departed:
            return self.departed[packet.host]
        if packet.host in self.location:
            return self.location[packet.host]
        supervisor = self.parent.get(packet.old_station, NOBODY)
        return NOBODY if supervisor == self.me else supervisor

    @on(Forward)
    def forwarded(self, packet: Forward, sender: NodeNumber) -> None:
        """Handoff steps 3 and 7: on to the new supervisor, or down to the new station."""
        if packet.to != self.me:
            self.relay(packet, sender)
            return
        station = self.target(packet)
        if sender not in self.stations:
            expect(sender in self.others, "a forward from somebody who is no supervisor")
            self.take_over(packet, sender)
        self.send(station, packet)

    def relay(self, packet: Forward | Pulled, sender: NodeNumber) -> None:
        expect(sender in self.stations and packet.to in self.others, "an answer that is on a wrong way")
        self.send(packet.to, packet)

    def target(self, packet: Forward) -> NodeNumber:
        """The station that the host comes to; for a late message, where it was last: that one knows how to go on."""
        arrival = self.arrivals.get(packet.host)
        if arrival is not None and arrival.hello.move == packet.move:
            return arrival.station
        expect(packet.host in self.last_station, "a forward for a host that was never here")
        return self.last_station[packet.host]

    def take_over(self, packet: Forward, old: NodeNumber) -> None:
        """Handoff step 4: responsible for this message; the old supervisor is told at the end, or at once if late."""
        self.handed_in.add((packet.host, packet.key))
        arrival = self.arrivals.get(packet.host)
        if arrival is not None and arrival.hello.move == packet.move:
            arrival.taken.append(packet.key)
        else:
            self.send(old, Moved(packet.host, packet.move, (packet.key,)))

    @on(Pulled)
    def pulled(self, packet: Pulled, sender: NodeNumber) -> None:
        """Handoff step 4: everything has come, the host lives here now."""
        if packet.to != self.me:
            self.relay(packet, sender)
            return
        arrival = self.arrivals.get(packet.host)
        if arrival is None or arrival.hello.move != packet.move:
            return
        expect(sender in self.stations or sender in self.others, "an answer from somebody who was not asked")
        if packet.stale:
            self.give_up(arrival, sender)
            return
        if sender in self.others:
            self.send(sender, Moved(packet.host, packet.move, tuple(arrival.taken)))
        self.arrive(arrival)

    def arrive(self, arrival: Arrival) -> None:
        """Handoff step 4, and then whatever had to wait."""
        self.move_in(arrival)
        self.go_on(arrival)

    def move_in(self, arrival: Arrival) -> None:
        """Handoff step 4: `location` and `members`."""
        hello = arrival.hello
        del self.arrivals[hello.host]
        self.departed.pop(hello.host, None)
        self.location[hello.host] = self.last_station[hello.host] = arrival.station
        self.arrived_by[hello.host] = hello.move
        self.forget_member(hello.host)
        for group, request in hello.groups:
            self.members.setdefault(group, set()).add(hello.host)
            newest = self.requests.get((hello.host, group), 0)
            self.requests[hello.host, group] = max(request, newest)

    def give_up(self, arrival: Arrival, later: NodeNumber) -> None:
        """The host has gone on before it was here, as `later` says, who has heard of a later move."""
        self.turn_away(arrival, later)
        self.go_on(arrival)

    def turn_away(self, arrival: Arrival, later: NodeNumber) -> None:  # noqa: ARG002 (for subclasses)
        """What the station took in for the host meanwhile is sent after it."""
        host, move = arrival.hello.host, arrival.hello.move
        del self.arrivals[host]
        if host in self.departed:
            self.send(arrival.station, Pull(host, move, self.departed[host], arrival.hello.last))

    def go_on(self, arrival: Arrival) -> None:
        """What concerns later moves, in their order."""
        for _, (packet, sender) in sorted(arrival.later.items()):
            if isinstance(packet, Hello):
                self.hello(packet, sender)
            else:
                self.pull(packet, sender)

    # --- away from this domain ---------------------------------------------------------------------------------------

    @on(Pull)
    def pull(self, packet: Pull, sender: NodeNumber) -> None:
        """Handoff step 2: to the old station, or after the host if it has gone further; a pull that is late is told."""
        host = packet.host
        expect(sender in self.others and packet.to in self.others, "a pull by somebody who is no supervisor")
        holder = self.departed.get(host) or self.location.get(host, NOBODY)
        expect(holder != NOBODY or host in self.arrivals, "a pull of a host that was never here")
        if packet.move <= self.newest[host]:
            self.send(packet.to, Pulled(host, packet.move, packet.to, stale=True))
        elif host in self.arrivals:
            self.arrivals[host].later[packet.move] = packet, sender
        else:
            self.newest[host] = packet.move
            self.send(holder, packet)
            self.departed.setdefault(host, packet.to)  # further on, whom this pull finds is not known here

    @on(Moved)
    def moved(self, packet: Moved, sender: NodeNumber) -> None:
        """Handoff step 5: the host is no longer ours, nor are these messages of it."""
        expect(sender in self.others, "a takeover by somebody who is no supervisor")
        host = packet.host
        if host in self.location and self.arrived_by[host] < packet.move:
            del self.location[host]
            self.forget_member(host)
        for key in packet.messages:
            self.settled(host, key)

    def is_current(self, packet: JoinRequest | LeaveRequest, sender: NodeNumber) -> bool:
        """Nothing changes while the host is on its way, in or out, or has come anew and HELLO is not here yet."""
        on_its_way = packet.host in self.arrivals or packet.host in self.departed
        settled = not on_its_way and self.newest.get(packet.host) == packet.move
        return super().is_current(packet, sender) and settled
