"""The groups of a repaired host: which it is in, since which question, and what it still asks.

All of it is kept over a crash. A host that lost its storage asks to join its configured groups again, and tells its
application what it will not get; what it had joined besides, the core forgets when the host reports.
"""

from __future__ import annotations

import msgspec

from castbed import NOBODY, Context, Group, Machine, NodeNumber, Packet, View, on
from castbed.actions import Persist
from castbed.commands import Join, Leave, group_number
from castbed_plugins.eomp.options import Options
from castbed_plugins.eomp.repaired.inbox import Inbox
from castbed_plugins.eomp.repaired.notices import Expelled, Missed
from castbed_plugins.eomp.repaired.packets import Admitted, Ask, Dismissed, Stint
from castbed_plugins.eomp.repaired.timing import Patience

T_ASK = "T_ASK"


class Asked(msgspec.Struct, frozen=True, array_like=True):
    """What this host wants of a group; `again`: it was a member, as far as its configuration says, and forgot."""

    stint: Stint
    joins: bool
    again: bool = False


class Stays(Machine):
    """The part of a host that is about groups; `memory` is the life in which it last began without storage.

    `cell` is the station in whose range the host is, `places` the key under which its place in each group is kept.
    """

    options: Options

    def __init__(self, context: Context, options: Options) -> None:
        super().__init__(context, options)
        self.cell: NodeNumber = NOBODY
        self.memory: int = context.kept("memory", context.incarnation)
        self.inbox = Inbox(options.reorder_max)
        self.stints: dict[Group, Stint] = {}
        self.places: dict[Group, str] = {}
        self.asking: dict[Group, Asked] = {}
        self.questions = 0
        self.joining = Patience(options.join_timeout, options.nack_period, context)
        self._recall()

    def _recall(self) -> None:
        """The groups of this host: what it kept, or at its first start those of the topology."""
        groups = self.context.topology.groups
        configured = sorted(group for group, members in groups.items() if self.me in members)
        if self.context.kept("memory") is None:
            self._begin(configured)
            return
        self.inbox.position = self.context.kept("position", 0)
        for key in self.context.kept_keys("group/"):
            group = int(key.removeprefix("group/"))
            life, question = self.context.kept(key)
            seq, number = self.context.kept(f"place/{group}", (0, 0))
            self._enter(group, (life, question), seq)
            self.inbox.position = max(self.inbox.position, number)
        for key in self.context.kept_keys("asking/"):
            self.asking[int(key.removeprefix("asking/"))] = msgspec.convert(self.context.kept(key), Asked)

    def _begin(self, configured: list[Group]) -> None:
        for group in configured:
            if self.context.incarnation == 0:
                self._enter(group, (0, 0), 0)
            else:
                self.asking[group] = Asked(self._next_stint(), joins=True, again=True)

    def started(self) -> None:
        self.persist("memory", self.memory)
        for group in self.inbox.last:
            self.persist(f"group/{group}", self.stints[group])
            if self.me not in self.context.topology.groups.get(group, ()):
                self.join(group)
        for group, asked in self.asking.items():
            self.persist(f"asking/{group}", asked)

    def view_changed(self, view: View) -> None:
        """The groups of the topology are said to be this host's at every start; it may have left one since."""
        if view.group not in self.inbox.last and view.group not in self.asking:
            self.leave(view.group)

    def attached(self, station: NodeNumber) -> None:
        """What was not answered elsewhere is asked again here."""
        self.cell = station
        self.joining.begin_anew()
        for group in self.asking:
            self._ask(group)

    def detached(self) -> None:
        """MH-13: nothing is sent until a cell is entered."""
        self.cell = NOBODY

    # --- for the rest of the host ------------------------------------------------------------------------------------

    def _group_entered(self) -> None:
        """The messages of a group are wanted from now on."""

    def _group_forgotten(self) -> None:
        """What waited for messages of a group waits no longer."""

    def _ask_again(self, group: Group) -> None:
        self.joining.not_answered()
        self._ask(group)

    def _keep_place(self, group: Group, seq: int, number: int) -> None:
        self._actions.append(Persist(self.places[group], (seq, number)))

    def _send(self, packet: Packet) -> None:
        """To the station of the cell; out of range, nothing is sent (MH-13)."""
        if self.cell != NOBODY:
            self.send(self.cell, packet)

    # --- questions and answers ---------------------------------------------------------------------------------------

    @on(Join)
    def ask_to_join(self, command: Join) -> None:
        """MH-10; asking for what is so, or under way, changes nothing."""
        group = group_number(command.group, self.context.topology)
        if group not in self.inbox.last and group not in self.asking:
            self._ask_anew(group, joins=True)

    @on(Leave)
    def ask_to_leave(self, command: Leave) -> None:
        """MH-10 for LEAVE."""
        group = group_number(command.group, self.context.topology)
        if group in self.inbox.last and group not in self.asking:
            self._ask_anew(group, joins=False)

    def _next_stint(self) -> Stint:
        self.questions += 1
        return self.context.incarnation, self.questions

    def _ask_anew(self, group: Group, joins: bool) -> None:
        again = group in self.asking and self.asking[group].again
        self.asking[group] = asked = Asked(self._next_stint(), joins, again)
        self.persist(f"asking/{group}", asked)
        self._ask(group)

    def _ask(self, group: Group) -> None:
        """Until there is an answer."""
        if group in self.asking and self.cell != NOBODY:
            asked = self.asking[group]
            self._send(Ask(group, self.me, asked.stint, asked.joins))
            self.set_timer((T_ASK, group), self.joining.wait())

    @on(Admitted)
    def admitted(self, packet: Admitted, _station: NodeNumber) -> None:
        """MH-11: begin after the number at which the core agreed."""
        group = packet.group
        asked = self.asking.get(group)
        if packet.host != self.me or asked is None or not asked.joins or asked.stint != packet.stint:
            return
        self._answered(group)
        self._enter(group, packet.stint, packet.start)
        self.persist(f"group/{group}", packet.stint)
        self._keep_place(group, packet.start, 0)
        if asked.again:
            self.tell(Missed(group, packet.start))
        else:
            self.join(group)
        self._group_entered()

    @on(Dismissed)
    def dismissed(self, packet: Dismissed, _station: NodeNumber) -> None:
        """MH-12: forget the group; unless this host asked for that, its application has to know."""
        group, asked = packet.group, self.asking.get(packet.group)
        if packet.host != self.me:
            return
        if asked is not None and asked.stint == packet.stint:
            if asked.joins:
                self._ask_anew(group, joins=True)  # expelled before it knew that it was in
            else:
                self._answered(group)
                self._forget(group)
        elif group in self.inbox.last and self.stints[group] == packet.stint:
            self._answered(group)
            self._forget(group)
            self.tell(Expelled(group))

    def _answered(self, group: Group) -> None:
        self.asking.pop(group, None)
        self.persist(f"asking/{group}", None)
        self.cancel_timer((T_ASK, group))
        self.joining.begin_anew()

    def _enter(self, group: Group, stint: Stint, start: int) -> None:
        self.stints[group] = stint
        self.places[group] = f"{self.context.prefix}place/{group}"
        self.inbox.enter(group, start)

    def _forget(self, group: Group) -> None:
        self.persist("position", self.inbox.position)
        self.persist(f"group/{group}", None)
        self.persist(f"place/{group}", None)
        del self.stints[group], self.places[group]
        self.inbox.forget(group)
        self.leave(group)
        self._group_forgotten()
