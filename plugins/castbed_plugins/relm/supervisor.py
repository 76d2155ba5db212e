"""The supervisor host (SH) of a domain: passes messages down, collects acknowledgements, keeps track of members.

`handoff.py` adds what happens when hosts move, `coordinator.py` what a source does.
"""

from __future__ import annotations

from collections.abc import Iterable

from castbed import Context, Group, NodeNumber, on
from castbed_plugins.relm.blame import expect
from castbed_plugins.relm.bystander import Bystander
from castbed_plugins.relm.options import Options
from castbed_plugins.relm.packets import (
    Ack,
    Data,
    Delivered,
    Discard,
    Downward,
    JoinAck,
    JoinRequest,
    Key,
    LeaveAck,
    LeaveRequest,
)

BUFFER = "buffer"  # what is gauged: messages between their arrival and DISCARD


class Supervisor(Bystander):
    """What a supervisor does for the hosts that stay in its domain."""

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        topology = context.topology
        self.others = context.peers("coordinator")
        self.stations = frozenset(topology.children(self.me))
        self.location = {host: station for host, station in topology.attached.items() if station in self.stations}
        self.members: dict[Group, set[NodeNumber]] = {
            group: {host for host in members if host in self.location} for group, members in topology.groups.items()
        }
        self.requests: dict[tuple[NodeNumber, Group], int] = {}
        self.received: dict[Group, dict[NodeNumber, int]] = {}
        self.buffer: dict[Key, Data] = {}
        self.pending: dict[Key, set[NodeNumber]] = {}
        self.handed_in: set[tuple[NodeNumber, Key]] = set()

    # --- messages ----------------------------------------------------------------------------------------------------

    @on(Data)
    def data(self, packet: Data, sender: NodeNumber) -> None:
        """SH-1, of a message of another supervisor."""
        expect(sender in self.others and sender == packet.mid.sender, "a message that is not from its source")
        number = self.received.get(packet.group, {}).get(sender, 0) + 1
        expect(packet.mid.seqno == number, f"number {packet.mid.seqno} of a source that is at {number}")
        self.spread(packet)

    def spread(self, packet: Data) -> None:
        """SH-1: store; all members in the domain have to acknowledge; down to their stations; there may be none."""
        self.buffer[packet.key] = packet
        self.gauge(BUFFER, len(self.buffer))
        self.received.setdefault(packet.group, {})[packet.mid.sender] = packet.mid.seqno
        here = sorted(host for host in self.members.get(packet.group, ()) if host in self.location)
        self.pending[packet.key] = set(here)
        self.send_down(packet, here)
        self.report_if_done(packet.key)

    def send_down(self, packet: Data, hosts: Iterable[NodeNumber]) -> None:
        """One wired copy for each station, or for each host (open point 3)."""
        by_station: dict[NodeNumber, list[NodeNumber]] = {}
        for host in hosts:
            by_station.setdefault(self.location[host], []).append(host)
        for station, together in by_station.items():
            alone = self.options.wired_copies == "per_mh"
            for copy in [[host] for host in together] if alone else [together]:
                self.send(station, Downward(packet.group, packet.mid, packet.payload, packet.parent, tuple(copy)))

    @on(Ack)
    def acknowledged(self, packet: Ack, sender: NodeNumber) -> None:
        """SH-2: the host has it."""
        expect(sender in self.stations, "an acknowledgement from another domain")
        self.settled(packet.host, (packet.group, packet.mid))

    def settled(self, host: NodeNumber, key: Key) -> None:
        """Nothing more is to be done here for the host about the message."""
        self.handed_in.discard((host, key))
        if key in self.pending:
            self.pending[key].discard(host)
            self.report_if_done(key)

    def report_if_done(self, key: Key) -> None:
        """SH-1 step 4, SH-2: nobody in the domain is missing, so DELIVERED to the source."""
        if self.pending[key]:
            return
        del self.pending[key]
        source = key[1].sender
        if source == self.me:
            self.domain_delivered(key, self.me)
        else:
            self.send(source, Delivered(*key))

    def domain_delivered(self, key: Key, supervisor: NodeNumber) -> None:
        """For the source on this node: one domain less to wait for."""
        raise NotImplementedError

    @on(Discard)
    def discarded(self, packet: Discard, sender: NodeNumber) -> None:
        """SH-3: drop it; what was handed in by other domains stays until its hosts acknowledge."""
        expect(sender == packet.mid.sender, "only its source discards a message")
        self.drop((packet.group, packet.mid))

    def drop(self, key: Key) -> None:
        self.buffer.pop(key, None)
        self.gauge(BUFFER, len(self.buffer))

    # --- groups ------------------------------------------------------------------------------------------------------

    @on(JoinRequest)
    def joins(self, packet: JoinRequest, sender: NodeNumber) -> None:
        """JOIN: a member from the next message on that arrives here."""
        if self.is_current(packet, sender):
            self.requests[packet.host, packet.group] = packet.request
            self.members.setdefault(packet.group, set()).add(packet.host)
            numbers = self.received.get(packet.group, {})
            last = tuple((packet.group, source, number) for source, number in numbers.items())
            self.send(sender, JoinAck(packet.group, packet.host, packet.request, last))

    @on(LeaveRequest)
    def leaves(self, packet: LeaveRequest, sender: NodeNumber) -> None:
        """LEAVE: out of the members and out of all that is pending."""
        if self.is_current(packet, sender):
            self.requests[packet.host, packet.group] = packet.request
            self.members.get(packet.group, set()).discard(packet.host)
            for key in [key for key in self.pending if key[0] == packet.group]:
                self.settled(packet.host, key)
            self.send(sender, LeaveAck(packet.group, packet.host, packet.request))

    def is_current(self, packet: JoinRequest | LeaveRequest, sender: NodeNumber) -> bool:
        """Of a host that lives here, and not overtaken; any other comes again, from wherever the host is."""
        expect(sender in self.stations, "a request from another domain")
        newest = self.requests.get((packet.host, packet.group), 0)
        return self.location.get(packet.host) == sender and packet.request >= newest

    def forget_member(self, host: NodeNumber) -> None:
        for members in self.members.values():
            members.discard(host)
