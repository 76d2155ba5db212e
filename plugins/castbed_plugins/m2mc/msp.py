"""MSP, the member synchronisation protocol, as published (spec 4.5): recovery of missed messages within one group.

A requester broadcasts all it has; every member waits a random time, then broadcasts what the requester lacks, less what
others were heard to send for the same request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from castbed import Context, Group, Machine, Message, Mid, NodeNumber
from castbed_plugins.m2mc.packets import Logged, SyncId, SyncReq, SyncResp, logged, message_of

MissingSet = dict[Mid, None]


class Msp(Machine):
    """One process's log of one group, and the requests that it has yet to answer."""

    def __init__(self, context: Context, options: Any, group: Group = 0) -> None:
        super().__init__(context, options)
        self.group = group
        self.log: dict[Mid, Message] = {}
        self.sync_seqno = 0
        self.latest_sync: dict[NodeNumber, int] = {}
        self.pending: dict[SyncId, MissingSet] = {}
        self._counting: set[SyncId] = set()

    @classmethod
    def for_group(cls, group: Group) -> Callable[[Context, Any], Msp]:
        """What `Machine.part` needs to make the part of one group."""
        return lambda context, options: cls(context, options, group)

    def stop(self) -> None:
        """The group is being left: no counter of it may run out any more."""
        for sync_id in sorted(self._counting, key=lambda s: (s.pid, s.number)):
            self.cancel_timer(("sync", sync_id))

    def store(self, message: Message) -> None:
        self.log.setdefault(message.mid, message)

    def request(self) -> None:
        """SendSyncReq (4.5.1): the request carries the whole log."""
        self.sync_seqno += 1
        everything = tuple(logged(message) for message in self.log.values())
        self.broadcast(SyncReq(self.group, SyncId(self.me, self.sync_seqno), everything))

    def requested(self, request: SyncReq) -> list[Message]:
        """SyncReqRecv (4.5.2); returns the messages that were new here."""
        new = self._absorb(request.messages)
        sync_id, last = request.sync_id, self.latest_sync.get(request.sync_id.pid, 0)
        if last < sync_id.number:
            self._open(sync_id, request.messages)
            self._count(sync_id)
        elif last == sync_id.number and sync_id in self.pending:
            self._suppress(sync_id, request.messages)
            self._count(sync_id)
        return new

    def responded(self, response: SyncResp) -> list[Message]:
        """Deliver (4.5.6) at the requester, SyncRespRecv (4.5.7) elsewhere; returns what was new here."""
        sync_id = response.sync_id
        if sync_id.pid == self.me:
            return self._absorb(response.messages)
        last = self.latest_sync.get(sync_id.pid, 0)
        if last < sync_id.number:
            self._open(sync_id, response.messages)
        elif last == sync_id.number and sync_id in self.pending:
            self._suppress(sync_id, response.messages)
        return []

    def expired(self, timer: tuple[str, SyncId]) -> None:
        """SendSyncResp (4.5.5), also when there is nothing left to send (M2-Q29)."""
        _, sync_id = timer
        self._counting.discard(sync_id)
        wanted = self.pending.pop(sync_id)
        messages = tuple(logged(message) for mid, message in self.log.items() if mid in wanted)
        self.broadcast(SyncResp(self.group, self.me, sync_id, messages))

    def _absorb(self, messages: Iterable[Logged]) -> list[Message]:
        new = []
        for entry in messages:
            if entry.mid not in self.log:
                self.log[entry.mid] = message_of(self.group, entry)
                new.append(self.log[entry.mid])
        return new

    def _open(self, sync_id: SyncId, known: Iterable[Logged]) -> None:
        have = {entry.mid for entry in known}
        self.pending[sync_id] = {mid: None for mid in self.log if mid not in have}
        self.latest_sync[sync_id.pid] = sync_id.number

    def _suppress(self, sync_id: SyncId, known: Iterable[Logged]) -> None:
        """UpdateMIR (4.5.4)."""
        for entry in known:
            self.pending[sync_id].pop(entry.mid, None)

    def _count(self, sync_id: SyncId) -> None:
        """Counting (4.5.3)."""
        if sync_id not in self._counting:
            self._counting.add(sync_id)
            self.set_timer(("sync", sync_id), self.context.random.randint(0, self.options.sync_backoff_max))
