"""The coordinator of repaired EOMP: a core node that serves stations, its own and those of coordinators that are down.

It hands each message to its stations when the core agreed on it, and acknowledges a request only then. A report is
answered by a batch of what the host lacks; a host that lacks more reports again when it has the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from castbed import Context, Group, Mid, NodeNumber, on
from castbed.parts.replicated_log import Status
from castbed_plugins.eomp.coordinator import BUFFER
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.packets import SyncAck
from castbed_plugins.eomp.repaired.bundles import last_of
from castbed_plugins.eomp.repaired.core import CoreNode
from castbed_plugins.eomp.repaired.entries import REQUESTS, Entries, membership_change
from castbed_plugins.eomp.repaired.ledger import NEVER, chosen
from castbed_plugins.eomp.repaired.packets import (
    Admitted,
    Adopt,
    Adopted,
    AnyNumbered,
    AnyRequest,
    Ask,
    Beat,
    BundleRequest,
    Dismissed,
    Release,
    ReportFrom,
    Request,
    Stint,
    Taken,
    repeated,
)
from castbed_plugins.eomp.vectors import Vector, packed

T_BEAT = "T_BEAT"
TOLD_SHARE = 8  # a report of an eighth of what is kept of a group is told at once
REPORTS_MAX = 1000  # in one SYNCACK, so that it fits a frame with dozens of groups


class RepairedCoordinator(CoreNode):
    """One region's coordinator; `routes` has the station from which each host was heard here last."""

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        self.own = context.topology.children(self.me)
        self.stations: tuple[NodeNumber, ...] = self.own
        self.routes: dict[NodeNumber, NodeNumber] = {}
        self.waiting: dict[NodeNumber, Mid] = {}
        self.dirty: dict[NodeNumber, Vector] = {}
        self.told: dict[NodeNumber, int] = {}

    def started(self) -> None:
        super().started()
        self.set_timer(T_BEAT, self.options.beat)

    # --- requests ----------------------------------------------------------------------------------------------------

    @on(Request, BundleRequest)
    def requested(self, packet: AnyRequest, sender: NodeNumber) -> None:
        """C-1: a repeated request is acknowledged at once, a new one when it has its number."""
        if sender in self.others:
            self._propose_request(packet)
            return
        mid = last_of(packet)
        self._check_host(mid.sender)
        self.routes[mid.sender] = sender
        if self.ledger.is_old(mid):
            self.send(sender, Taken(mid))
            return
        asked = self.waiting.get(mid.sender)
        if asked is None or (asked.incarnation, asked.seqno) < (mid.incarnation, mid.seqno):
            self.waiting[mid.sender] = mid
        self._to_leader(packet)

    def _to_leader(self, packet: AnyRequest | Ask) -> None:
        if self.log.leader != self.me:
            self.send(self.log.leader, packet)
        elif isinstance(packet, Ask):
            self._propose(membership_change(packet.group, packet.host, packet.stint, packet.joins))
        else:
            self._propose_request(packet)

    def _applied(self, entry: Entries, messages: AnyNumbered | None) -> None:
        """C-3: pass it on to the stations, and answer the host if it asked here."""
        if messages is not None:
            self.multicast(self.stations, messages)
            self._gauge_buffer()
        if isinstance(entry, REQUESTS):
            self._acknowledge(entry.last, messages)
        else:
            self._answer(entry.group, entry.host, entry.stint)

    def _acknowledge(self, mid: Mid, messages: AnyNumbered | None) -> None:
        """Whoever waits here for this request or a later one is told, unless it hears the messages themselves."""
        asked = self.waiting.get(mid.sender)
        if asked is None or not self.ledger.is_old(mid):
            return
        if messages is None or self.ledger.member(messages.group, mid.sender) is None:
            self.send(self.routes[mid.sender], Taken(mid))
        if self.ledger.is_old(asked):
            del self.waiting[mid.sender]

    # --- membership --------------------------------------------------------------------------------------------------

    @on(Ask)
    def asked(self, packet: Ask, sender: NodeNumber) -> None:
        """C-6, C-7: what was decided is said again at once."""
        self._check_host(packet.host)
        if sender in self.others:
            self._propose(membership_change(packet.group, packet.host, packet.stint, packet.joins))
            return
        self.routes[packet.host] = sender
        if packet.stint <= self.ledger.stint(packet.group, packet.host):
            self._answer(packet.group, packet.host, packet.stint)
        else:
            self._to_leader(packet)

    def _answer(self, group: Group, host: NodeNumber, stint: Stint) -> None:
        """How the host stands in the group, if it was heard here and this is its last word on it."""
        station = self.routes.get(host)
        if station is None or stint == NEVER or stint != self.ledger.stint(group, host):
            return
        member = self.ledger.member(group, host)
        if member is not None:
            self.send(station, Admitted(group, host, stint, member.start))
        else:
            self.send(station, Dismissed(group, host, stint))

    # --- repair ------------------------------------------------------------------------------------------------------

    @on(ReportFrom)
    def reported(self, packet: ReportFrom, station: NodeNumber) -> None:
        """C-4, C-5: note what the host has, repeat what it lacks, and tell it where it is no member any more."""
        host = packet.host
        self._check_host(host)
        self.routes[host] = station
        self.dirty[host] = packet.last
        self._heard(host, packet.last)
        if (_total(packet.last) - self.told.get(host, 0)) * TOLD_SHARE > self.options.buffer_max:
            self._tell_reports()
        self._forget_earlier_stays(host, packet.memory)
        for group, _ in packet.last:
            if self.ledger.member(group, host) is None:
                self._answer(group, host, self.ledger.stint(group, host))
        batch, more = chosen(self._lacked(packet), self.options.batch, self.options.batch_bytes)
        for message in batch:
            last_of_batch = more and message is batch[-1]
            self.send(station, repeated(message, host, last_of_batch))

    def _lacked(self, packet: ReportFrom) -> Iterator[AnyNumbered]:
        sent = dict(packet.upto)
        for group, last in packet.last:
            if last < sent.get(group, 0) and self.ledger.member(group, packet.host) is not None:
                early = [(first, end) for other, first, end in packet.early if other == group]
                yield from self.ledger.shelf(group).lacked(last, sent[group], early)

    def _forget_earlier_stays(self, host: NodeNumber, memory: int) -> None:
        """A host that lost its storage knows nothing of what it had joined before."""
        for group in self.ledger.members if memory else ():
            member = self.ledger.member(group, host)
            if member is not None and member.stint < (memory, 0):
                self._to_leader(Ask(group, host, (memory, 0), joins=False))

    def expired(self, timer: Any) -> None:
        if timer == T_BEAT:
            self._beat()
        else:
            self._tell_reports()
            super().expired(timer)
            self._gauge_buffer()

    def _gauge_buffer(self) -> None:
        self.gauge(BUFFER, sum([shelf.sent - shelf.released for shelf in self.ledger.shelves.values()]))

    def _tell_reports(self) -> None:
        """C-9: what hosts reported here since the last time; in turns, or when it makes much room."""
        reports = sorted(self.dirty.items())
        self.told.update((host, _total(last)) for host, last in reports)
        for at in range(0, len(reports), REPORTS_MAX):
            self.multicast(self.others, SyncAck(tuple(reports[at : at + REPORTS_MAX])))
        self.dirty.clear()

    # --- stations ----------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """A coordinator that knows nothing yet is as good as none."""
        if self.log.status is not Status.RECOVERING:
            self.multicast(self.stations, Beat(packed(self.ledger.sent())))
        self.set_timer(T_BEAT, self.options.beat)

    @on(Adopt)
    def adopt(self, packet: Adopt, station: NodeNumber) -> None:
        """Send the station what its cell lacks; if it knows nothing, or lacks too much, its hosts ask themselves."""
        if self.log.status is Status.RECOVERING:
            return
        if station not in self.stations:
            self.stations = (*self.stations, station)
        for group, sent in packet.sent:
            lacked, more = chosen(self._after(group, sent), self.options.batch, self.options.batch_bytes)
            for message in () if more else lacked:
                self.send(station, message)
        self.send(station, Adopted(packed(self.ledger.sent()), self.ledger.served()))

    def _after(self, group: Group, sent: int) -> Iterator[AnyNumbered]:
        shelf = self.ledger.shelves.get(group)
        return iter(()) if shelf is None else shelf.lacked(sent, shelf.sent, ())

    @on(Release)
    def release(self, _packet: Release, station: NodeNumber) -> None:
        if station not in self.own:
            self.stations = tuple(served for served in self.stations if served != station)


def _total(last: Vector) -> int:
    return sum(number for _, number in last)
