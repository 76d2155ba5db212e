"""The core of repaired EOMP: the sequencer and the coordinators, which keep one ledger by a replicated log.

Without failures the sequencer leads the log and numbers, as in the paper; when it is silent, a coordinator does. What
the leader proposes counts when most of the core has it: a number is never given twice, and nothing that was
acknowledged is lost with a node. Requests on their way to a node that crashes are lost; hosts repeat them.
"""

from __future__ import annotations

from typing import Any

from castbed import Context, Group, Machine, NodeNumber, PeerError, on
from castbed.parts import LogOptions, ReplicatedLog
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.packets import SyncAck
from castbed_plugins.eomp.repaired.bundles import Bundle, check_bundle, contents, first_of, last_of
from castbed_plugins.eomp.repaired.entries import (
    Entries,
    Expelled,
    Requested,
    RequestedBundle,
    decoded,
    encoded,
    membership_change,
)
from castbed_plugins.eomp.repaired.ledger import NEVER, Ledger
from castbed_plugins.eomp.repaired.packets import AnyNumbered, AnyRequest, Ask, BundleRequest, Request, Stint
from castbed_plugins.eomp.repaired.shelf import Shelf
from castbed_plugins.eomp.vectors import Vector

T_SYNC = "T_SYNC"


class CoreNode(Machine):
    """One node of the core: proposes while it leads, passes on to the leader while it does not."""

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        topology = context.topology
        core = (*topology.numbers("sequencer"), *topology.numbers("coordinator"))
        self.others = tuple(node for node in core if node != self.me)
        self.hosts = frozenset(topology.numbers("host"))
        self.ledger = Ledger(topology.groups)
        self.proposed: dict[NodeNumber, Stint] = {}
        self.early: dict[NodeNumber, dict[int, AnyRequest]] = {}
        self.heard_at: dict[NodeNumber, int] = {}
        self.log = self.part("log", ReplicatedLog, LogOptions(core, options.beat, options.patience, options.retained))
        self.log.apply = self._apply
        self.log.snapshot = self.ledger.snapshot
        self.log.restore = self.ledger.restore
        self.log.changed = self._log_changed

    def started(self) -> None:
        self.log.started()
        self.set_timer(T_SYNC, self.options.sync_period)

    # --- proposing ---------------------------------------------------------------------------------------------------

    @on(Request, BundleRequest)
    def requested(self, packet: AnyRequest, sender: NodeNumber) -> None:
        """From another node of the core, which takes this one for the leader."""
        self._check_core(sender)
        self._propose_request(packet)

    @on(Ask)
    def asked(self, packet: Ask, sender: NodeNumber) -> None:
        """From another node of the core, which takes this one for the leader."""
        self._check_core(sender)
        self._check_host(packet.host)
        self._propose(membership_change(packet.group, packet.host, packet.stint, packet.joins))

    def _propose_request(self, packet: AnyRequest) -> None:
        """Each host's requests in their order, each once; one that comes early waits for those before it."""
        first, end = first_of(packet), last_of(packet).seqno
        host = first.sender
        self._check_host(host)
        if isinstance(packet, Bundle):
            check_bundle(packet)
        if not self.log.is_leader:
            return
        early = self.early.setdefault(host, {})
        life, last = max(self.proposed.get(host, NEVER), self.ledger.taken.get(host, NEVER))
        if first.incarnation > life:
            life, last = first.incarnation, 0
            early.clear()
        if first.incarnation != life or end <= last:
            return
        if first.seqno == last + 1 and not early:
            self._is_proposed(packet)
        elif first.seqno <= last + 1 or len(early) < self.options.window:
            early[first.seqno] = packet
            while (following := _next_of(early, last)) is not None and self._is_proposed(following):
                last = last_of(following).seqno

    def _is_proposed(self, packet: AnyRequest) -> bool:
        """None for a group whose buffers are full: its senders have to repeat it until they are not."""
        shelf = self.ledger.shelves.get(packet.group)
        if shelf is not None and self._is_full(shelf):
            shelf.release()
            if self._is_full(shelf):
                return False
        if not self._propose(_entry(packet)):
            return False
        last = last_of(packet)
        self.proposed[last.sender] = last.incarnation, last.seqno
        return True

    def _propose(self, entry: Entries) -> bool:
        return self.log.propose(encoded(entry))

    def _log_changed(self) -> None:
        """What this node proposed before may be lost, and it knows nothing of how long hosts were silent."""
        self.proposed.clear()
        self.early.clear()
        self.heard_at.clear()

    # --- applying ----------------------------------------------------------------------------------------------------

    def _apply(self, _op: int, data: bytes) -> None:
        entry = decoded(data)
        if entry is not None:
            self._applied(entry, self.ledger.apply(entry))

    def _applied(self, entry: Entries, messages: AnyNumbered | None) -> None:
        """The entry counts; `messages` is set if it gave messages their numbers."""

    # --- what hosts have ---------------------------------------------------------------------------------------------

    @on(SyncAck)
    def synchronised(self, packet: SyncAck, sender: NodeNumber) -> None:
        """C-10: what a peer tells is not told on."""
        self._check_core(sender)
        for host, last in packet.reports:
            if host in self.hosts:
                self._heard(host, last)

    def _heard(self, host: NodeNumber, last: Vector) -> None:
        self.heard_at[host] = self.now
        for group, number in last:
            shelf = self.ledger.shelves.get(group)
            if shelf is not None:
                shelf.acknowledge(host, number)

    def expired(self, timer: Any) -> None:  # noqa: ARG002 (the only one; those of the log are its own)
        """C-11, in turns instead of after every report: see what can be dropped, and who keeps too much from it."""
        for group, shelf in self.ledger.shelves.items():
            shelf.release()
            if self.log.is_leader and self._is_full(shelf):
                self._expel(group, shelf)
        self.set_timer(T_SYNC, self.options.sync_period)

    def _is_full(self, shelf: Shelf) -> bool:
        return len(shelf) >= self.options.buffer_max or shelf.bytes >= self.options.buffer_bytes_max

    def _expel(self, group: Group, shelf: Shelf) -> None:
        """Whoever keeps a full buffer full, and has been silent for long."""
        for host in shelf.slowest():
            silent = self.now - self.heard_at.setdefault(host, self.now)
            if silent >= self.options.silence:
                self._propose(Expelled(group, host, self.ledger.stint(group, host)))

    # --- who may say what --------------------------------------------------------------------------------------------

    def _check_core(self, sender: NodeNumber) -> None:
        if sender not in self.others:
            raise PeerError(f"node {sender} is no other node of the core")

    def _check_host(self, host: NodeNumber) -> None:
        if host not in self.hosts:
            raise PeerError(f"node {host} is no host")


def _entry(packet: AnyRequest) -> Requested | RequestedBundle:
    if isinstance(packet, BundleRequest):
        return RequestedBundle(*contents(packet))
    return Requested(packet.group, packet.mid, packet.payload, packet.parent)


def _next_of(early: dict[int, AnyRequest], last: int) -> AnyRequest | None:
    """The request with the message after `last`; of a host that made its bundles anew it may begin before that."""
    for seqno in sorted(early) if early else ():
        if seqno > last + 1:
            return None
        packet = early.pop(seqno)
        if last_of(packet).seqno > last:
            return packet
    return None
