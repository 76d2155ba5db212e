"""A log that a fixed set of nodes agrees on: Viewstamped Replication Revisited (Liskov and Cowling, 2012).

The leader of view v is `members[v % n]`. It numbers what is proposed; an entry that a majority has is committed, and
every member applies committed entries in the order of their numbers. Members that hear nothing from their leader move
to the next view together and carry over every entry that may be committed (section 4.2). A node that restarts knows
nothing and says nothing, until enough others, the leader among them, have told it everything (section 4.3). So nothing
is ever written to stable storage, and a majority of members must be up and recovered at any time.

Where two members are a majority, a follower that has an entry knows two that do, the leader and itself: it need not be
told that the entry is committed. With more members it is told at once, if no next entry tells it.

A member is in one of three states; only these methods leave one: `_follow` and `_lead` to NORMAL, `_leave` to CHANGING.
"""

from __future__ import annotations

from typing import Any

import msgspec

from castbed.errors import ContractError, PeerError
from castbed.machine import on
from castbed.parts.replicated_log_journal import Incoming, Log, Told, consistent
from castbed.parts.replicated_log_member import LogMember, LogOptions, Status
from castbed.parts.replicated_log_packets import (
    ENTRY_BYTES_MAX,
    Commit,
    DoViewChange,
    GetState,
    Prepare,
    PrepareOk,
    Recovery,
    RecoveryResponse,
    StartView,
    StartViewChange,
    check_order,
)
from castbed.values import NodeNumber

__all__ = ["LogOptions", "ReplicatedLog", "Status"]

UNCOMMITTED_MAX = 65_536  # entries that wait for a majority; a leader that is cut off takes no more


class ReplicatedLog(LogMember):
    """One member's part: the protocol. The owner sets `apply` and the others, and calls `started`."""

    # --- for the owner -----------------------------------------------------------------------------------------------

    def started(self) -> None:
        """Begin: in view 0, or after a restart with recovery. The owner calls this when it is started itself."""
        if self.status is Status.RECOVERING:
            self._recover()
        elif self.is_leader:
            self._begin_to_beat()
        else:
            self._wait_for_leader()

    def propose(self, entry: bytes | msgspec.Struct) -> bool:
        """Have the entry committed; False: not taken, because this is not the leader or too much waits."""
        encoded = entry if isinstance(entry, bytes) else msgspec.msgpack.encode(entry)
        if len(encoded) > ENTRY_BYTES_MAX:
            raise ContractError(f"an entry of {len(encoded)} bytes, a packet holds {ENTRY_BYTES_MAX}")
        journal = self._journal
        if not self.is_leader or journal.last - journal.committed >= UNCOMMITTED_MAX:
            return False
        op = journal.append(encoded)
        self._say(Prepare(self.view, op, journal.committed, encoded))
        if self._majority == 1:
            self._commit(op)
        return True

    # --- normal operation (section 4.1) ------------------------------------------------------------------------------

    @on(Prepare)
    def prepare(self, packet: Prepare, sender: NodeNumber) -> None:
        self._check_leads(sender, packet.view)
        check_order(packet.committed, packet.op - 1)
        if not self._is_current(packet.view):
            return
        journal = self._journal
        if packet.op > journal.last + 1:
            self._catch_up(packet.view)
            return
        if packet.op == journal.last + 1:
            journal.append(packet.payload)
        here = journal.last
        self._commit(packet.op if self._two_are_enough else packet.committed)  # first: somebody waits for the entry
        self.send(sender, PrepareOk(packet.view, here))

    @on(PrepareOk)
    def prepare_ok(self, packet: PrepareOk, sender: NodeNumber) -> None:
        self._check_mine(sender, packet.view)
        check_order(packet.op)
        if not self.is_leader or packet.view != self.view:
            return
        if packet.op > self._journal.last:
            raise PeerError(f"node {sender} has entry {packet.op}, but there are {self._journal.last}")
        if packet.op > self._acknowledged[sender]:
            self._acknowledged[sender] = packet.op
            self._commit(sorted(self._acknowledged.values(), reverse=True)[self._majority - 2])
            untold = self._told_committed < self._journal.committed  # nothing was proposed meanwhile that said so
            if untold and not self._two_are_enough:
                self._say_committed()

    @on(Commit)
    def commit(self, packet: Commit, sender: NodeNumber) -> None:
        self._check_leads(sender, packet.view)
        check_order(packet.committed, packet.last)
        if not self._is_current(packet.view):
            return
        journal = self._journal
        if packet.last > journal.last:
            self._catch_up(packet.view)
        elif journal.committed == packet.committed < packet.last:  # a beat while entries wait: say again what is here
            self.send(sender, PrepareOk(packet.view, journal.last))
        self._commit(packet.committed)

    def _is_current(self, view: int) -> bool:
        """Whether the leader speaks of the log that is here; if its log is a later one, that has to come."""
        if self.status is Status.RECOVERING:
            self._ask_again(self._recover)  # there is a leader now, who may not have been there for the first question
            return False
        if view < self.view:
            return False
        self._heard = self.now
        if view == self.view and self.status is Status.NORMAL:
            return True
        self._catch_up(view)
        return False

    def _say(self, packet: Prepare | Commit) -> None:
        """To all followers; whatever the leader says is a sign of life."""
        if self._others:
            self.multicast(self._others, packet)
        self._told_committed = packet.committed
        self._spoke = self.now

    def _say_committed(self) -> None:
        self._say(Commit(self.view, self._journal.last, self._journal.committed))

    # --- time --------------------------------------------------------------------------------------------------------

    def expired(self, timer: Any) -> None:
        if timer == "beat":
            self._beat()
        elif self.status is Status.RECOVERING:
            self._recover()
        elif self.now < self._heard + self._limit:
            self.set_timer("patience", self._heard + self._limit - self.now)
        elif self.status is Status.NORMAL or len(self._suspicious) >= self._majority:
            self._suspect(self.view + 1)
        else:  # alone with the suspicion: a later view would only disturb the others more
            self._suspect(self.view)

    def _beat(self) -> None:
        idle = self.now - self._spoke
        if idle >= self.options.beat:
            self._say_committed()
            idle = 0
        self.set_timer("beat", self.options.beat - idle)

    def _begin_to_beat(self) -> None:
        self._attempts = 0
        self._spoke = self.now
        if self._others:
            self.set_timer("beat", self.options.beat)

    def _wait_for_leader(self) -> None:
        self._attempts = 0
        self._be_patient()

    # --- view changes (section 4.2) ----------------------------------------------------------------------------------

    def _suspect(self, view: int) -> None:
        """Tell everybody that this view should begin."""
        later = view > self.view
        if later:
            self._leave(view)
        self._attempts += 1
        self._suspicious[self.me] = self._journal.committed
        self.multicast(self._others, StartViewChange(view, self._journal.committed))
        self._be_patient()
        if later:
            self.changed()

    def _leave(self, view: int) -> None:
        """Take part in no view before this one any more."""
        if self.is_leader:
            self.cancel_timer("beat")
        self.view = view
        self.status = Status.CHANGING
        self._suspicious.clear()
        self._told.clear()
        self._voted = False
        self._asked = None

    @on(StartViewChange)
    def start_view_change(self, packet: StartViewChange, sender: NodeNumber) -> None:
        self._check_member(sender)
        check_order(packet.view - 1)
        check_order(packet.committed)
        if self.status is Status.RECOVERING or packet.view < self.view:
            return
        if packet.view > self.view:
            self._suspect(packet.view)
        if self.status is Status.CHANGING:
            self._suspicious[sender] = packet.committed
            self._vote()

    def _vote(self) -> None:
        """Send the leader-to-be what it lacks, when a majority suspects and the leader-to-be does."""
        leader = self.leader
        enough = len(self._suspicious) >= self._majority and {self.me, leader} <= self._suspicious.keys()
        if enough and leader != self.me and not self._voted:
            self._voted = True
            log = self._send_log(leader, self._suspicious[leader])
            self.send(leader, DoViewChange(self.view, self._normal_view, tuple(self._lives.items()), log))

    @on(DoViewChange)
    def do_view_change(self, packet: DoViewChange, sender: NodeNumber) -> None:
        self._check_mine(sender, packet.view)
        check_order(packet.normal, packet.view - 1)
        lives = self._checked_lives(packet.lives, sender)
        log = self._received(sender, packet.log)
        if self.status is not Status.CHANGING or packet.view != self.view:
            return
        if log is not None and log.continues(self._journal):
            self._told[sender] = Told(packet.normal, log, lives[sender], lives)
            self._lead_if_enough()

    def _lead_if_enough(self) -> None:
        self._told, self._lives = consistent(self._told, self._lives)
        if len(self._told) + 1 < self._majority:
            return
        best = max(self._told.values(), key=lambda told: told.rank)
        if best.log is not None and best.rank > (self._normal_view, self._journal.last):
            self._adopt(best.log)
        self._journal.commit(max(told.log.committed for told in self._told.values() if told.log is not None))
        self._lead()

    def _lead(self) -> None:
        """The log of this view is complete: send everybody what they lack of it, then go on."""
        known = self._suspicious | {member: told.log.committed for member, told in self._told.items() if told.log}
        self.status = Status.NORMAL
        self._normal_view = self.view
        self._acknowledged = dict.fromkeys(self._others, 0)
        self._told_committed = self._journal.committed
        self.cancel_timer("patience")
        self._begin_to_beat()
        for member in self._others:
            self._start_view(member, known.get(member, self._journal.committed))
        self._suspicious.clear()
        self._told.clear()
        self._commit(self._journal.committed)
        self.changed()

    def _start_view(self, member: NodeNumber, committed: int) -> None:
        self.send(member, StartView(self.view, self._send_log(member, committed)))

    @on(StartView)
    def start_view(self, packet: StartView, sender: NodeNumber) -> None:
        self._check_leads(sender, packet.view)
        log = self._received(sender, packet.log)
        if self.status is Status.RECOVERING or packet.view < self.view:
            return
        self._asked = None
        if log is None or not log.continues(self._journal):
            self._catch_up(packet.view)
        elif packet.view > self.view or self.status is Status.CHANGING or log.last > self._journal.last:
            self._follow(packet.view, log)

    def _follow(self, view: int, log: Log) -> None:
        """The log of this view is here: take part in it from now on."""
        before = (self.view, self.status)
        if view > self.view or self.status is Status.RECOVERING:
            self._leave(view)
        self.status = Status.NORMAL
        self._normal_view = view
        self._adopt(log)
        self._suspicious.clear()
        self._told.clear()
        self._wait_for_leader()
        self.send(self.leader, PrepareOk(view, self._journal.last))
        self._commit(log.last if self._two_are_enough else log.committed)
        if before != (self.view, self.status):
            self.changed()

    # --- logs on the wire (sections 4.2, 4.3 and 5.2) ----------------------------------------------------------------

    def _catch_up(self, view: int) -> None:
        """Ask the leader for what is missing here; until it comes, the log of the last view stays as it is."""
        if view > self.view:
            self._leave(view)
            self._be_patient()
            self.changed()
        self._ask_again(self._ask_for_state)

    def _ask_for_state(self) -> None:
        self.send(self.leader, GetState(self.view, self._journal.committed))

    @on(GetState)
    def get_state(self, packet: GetState, sender: NodeNumber) -> None:
        self._check_mine(sender, packet.view)
        check_order(packet.committed)
        if self.is_leader and packet.view == self.view:
            if packet.committed > self._journal.last:
                raise PeerError(f"node {sender} committed {packet.committed} of {self._journal.last} entries")
            self._start_view(sender, packet.committed)

    # --- recovery (section 4.3) --------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Ask everybody, and again until enough have answered."""
        self._attempts += 1
        self._asked = self.now
        self.multicast(self._others, Recovery(self.context.incarnation))
        self._be_patient()

    @on(Recovery)
    def recovery(self, packet: Recovery, sender: NodeNumber) -> None:
        self._check_member(sender)
        check_order(1, packet.life)
        if packet.life < self._lives.get(sender, 0):
            return
        self._lives[sender] = packet.life
        self._incoming[sender] = Incoming()  # what its last life began to send does not go on
        if self.status is Status.NORMAL:
            log = self._send_log(sender, 0) if self.is_leader else None
            self.send(sender, RecoveryResponse(packet.life, self.view, tuple(self._lives.items()), log))

    @on(RecoveryResponse)
    def recovery_response(self, packet: RecoveryResponse, sender: NodeNumber) -> None:
        self._check_member(sender)
        check_order(packet.view)
        lives = self._checked_lives(packet.lives, sender)
        if (packet.log is not None) != (sender == self._leader_of(packet.view)):
            raise PeerError(f"node {sender} answers recovery as if it were a leader, or as if it were none")
        log = None if packet.log is None else self._received(sender, packet.log)
        if self.status is not Status.RECOVERING or packet.life != self.context.incarnation:
            return
        if packet.log is None or (log is not None and log.continues(self._journal)):
            self._told[sender] = Told(packet.view, log, lives[sender], lives)
            self._follow_if_enough()

    def _follow_if_enough(self) -> None:
        """So many have answered that every majority has one of them, and the leader of the latest view did."""
        self._told, self._lives = consistent(self._told, self._lives)
        if len(self._told) + self._majority <= len(self._members):
            return
        view = max(told.view for told in self._told.values())
        leader = self._told.get(self._leader_of(view))
        if leader is not None and leader.view == view and leader.log is not None:
            self._follow(view, leader.log)
