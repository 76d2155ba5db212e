"""The station of repaired EOMP: passes packets between its cell and a coordinator, its own or one that stands in.

It knows who is in its cell, passes on to them only, and holds nothing whose loss matters. While its coordinator is
silent it turns to the next one; when its own is heard again it goes back.
"""

from __future__ import annotations

from typing import Any

from castbed import NOBODY, Context, Group, Machine, NodeNumber, Packet, PeerError, on
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.packets import Cancel
from castbed_plugins.eomp.repaired.bundles import count_of, first_of
from castbed_plugins.eomp.repaired.packets import (
    Admitted,
    Adopt,
    Adopted,
    AnyNumbered,
    AnyRepeat,
    AnyRequest,
    Ask,
    Beat,
    BundleNumbered,
    BundleRepeat,
    BundleRequest,
    Dismissed,
    Enter,
    Entered,
    Numbered,
    Release,
    Repeat,
    Report,
    ReportFrom,
    Request,
    Taken,
)
from castbed_plugins.eomp.vectors import Vector, ahead, packed

T_SILENCE = "T_SILENCE"


class RepairedStation(Machine):
    """One cell's station; `sent` holds the highest number handed to the radio, per group."""

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        coordinators = context.topology.numbers("coordinator")
        own = coordinators.index(context.topology.parent[context.me])
        self.rotation = coordinators[own:] + coordinators[:own]
        self.coordinator = self.rotation[0]
        self.heard = True
        self.sent: dict[Group, int] = {}
        self.served: set[Group] = set()
        self.here: set[NodeNumber] = set()

    def started(self) -> None:
        """A replacement has to learn which groups there are (MSS-11)."""
        if self.context.incarnation:
            self._turn_to(self.coordinator)
        self.set_timer(T_SILENCE, self.options.patience)

    # --- coordinators ------------------------------------------------------------------------------------------------

    def expired(self, timer: Any) -> None:  # noqa: ARG002 (there is only one)
        """Nothing was heard for a whole round: the next coordinator."""
        if not self.heard:
            at = self.rotation.index(self.coordinator)
            self._turn_to(self.rotation[(at + 1) % len(self.rotation)])
        self.heard = False
        self.set_timer(T_SILENCE, self.options.patience)

    def _turn_to(self, coordinator: NodeNumber) -> None:
        if self.coordinator not in (coordinator, self.rotation[0]):
            self.send(self.coordinator, Release())
        self.coordinator = coordinator
        self.send(coordinator, Adopt(packed(self.sent)))

    @on(Beat)
    def coordinator_beat(self, packet: Beat, coordinator: NodeNumber) -> None:
        """The own coordinator is back, or the present one has sent more than came here while somebody was down."""
        self._check_coordinator(coordinator)
        returned = coordinator == self.rotation[0] != self.coordinator
        if returned or (coordinator == self.coordinator and ahead(packet.sent, self.sent)):
            self._turn_to(coordinator)
        self.heard = self.heard or coordinator == self.coordinator

    @on(Adopted)
    def adopted(self, packet: Adopted, coordinator: NodeNumber) -> None:
        """What was sent before and did not come will not come; who lacks it reports."""
        self._check_coordinator(coordinator)
        self.heard = self.heard or coordinator == self.coordinator
        self.served.update(packet.groups)
        for group, number in packet.sent:
            self.sent[group] = max(number, self.sent.get(group, 0))

    # --- down --------------------------------------------------------------------------------------------------------

    @on(Numbered, BundleNumbered)
    def numbered(self, packet: AnyNumbered, coordinator: NodeNumber) -> None:
        """MSS-3: each number once, whoever sends it."""
        self._check_coordinator(coordinator)
        if packet.seq > self.sent.get(packet.group, 0):
            self.sent[packet.group] = packet.seq + count_of(packet) - 1
            if packet.group in self.served:
                self.broadcast(packet)

    @on(Repeat, BundleRepeat, Admitted, Dismissed)
    def pass_down(self, packet: AnyRepeat | Admitted | Dismissed, coordinator: NodeNumber) -> None:
        """MSS-5, MSS-10: to a host of this cell."""
        self._check_coordinator(coordinator)
        if packet.host in self.here:
            self.send(packet.host, packet)

    @on(Taken)
    def request_taken(self, packet: Taken, coordinator: NodeNumber) -> None:
        """MSS-2."""
        self._check_coordinator(coordinator)
        if packet.mid.sender in self.here:
            self.send(packet.mid.sender, packet)

    # --- up ----------------------------------------------------------------------------------------------------------

    @on(Request, BundleRequest)
    def requested(self, packet: AnyRequest, host: NodeNumber) -> None:
        """MSS-1."""
        self._pass_up(packet, first_of(packet).sender, host)

    @on(Ask)
    def asked(self, packet: Ask, host: NodeNumber) -> None:
        """MSS-9: a group that somebody joins is on the air here from now on."""
        self._pass_up(packet, packet.host, host)
        if packet.joins:
            self.served.add(packet.group)

    def _pass_up(self, packet: Packet, named: NodeNumber, host: NodeNumber) -> None:
        if named != host:
            raise PeerError(f"host {host} speaks for host {named}")
        self._note_presence(host)
        self.send(self.coordinator, packet)

    @on(Report)
    def reported(self, packet: Report, host: NodeNumber) -> None:
        """MSS-4."""
        self._note_presence(host)
        self._report(host, packet, packet.upto or packed(self.sent))

    @on(Enter)
    def entered(self, packet: Enter, host: NodeNumber) -> None:
        """MSS-6, MSS-7: the station that the host left is told; nothing has to be waited for."""
        if packet.my_mss not in (NOBODY, self.me):
            self._check_station(packet.my_mss)
            self.send(packet.my_mss, Cancel(host))
        self._note_presence(host)
        sent = packed(self.sent)
        self._report(host, packet, sent)
        self.send(host, Entered(sent))

    def _report(self, host: NodeNumber, packet: Report | Enter, upto: Vector) -> None:
        self.served.update(group for group, _ in packet.last)
        self.send(self.coordinator, ReportFrom(host, packet.last, packet.early, packet.memory, upto))

    @on(Cancel)
    def cancelled(self, packet: Cancel, station: NodeNumber) -> None:
        """MSS-8: the host is elsewhere."""
        self._check_station(station)
        self.here.discard(packet.host)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _note_presence(self, host: NodeNumber) -> None:
        if host not in self.here:
            if self._role(host) != "host":
                raise PeerError(f"node {host} is no host")
            self.here.add(host)

    def _check_coordinator(self, node: NodeNumber) -> None:
        if node not in self.rotation:
            raise PeerError(f"node {node} is no coordinator")

    def _check_station(self, node: NodeNumber) -> None:
        if self._role(node) != "station":
            raise PeerError(f"node {node} is no station")

    def _role(self, node: NodeNumber) -> str:
        nodes = self.context.topology.nodes
        return nodes[node - 1].role if 0 < node <= len(nodes) else ""
