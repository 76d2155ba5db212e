"""GJLP, repaired: who belongs to which group, as knowledge that converges whatever is lost, repeated or late (M2-R11).

Per group and process there is a standing: a stamp, which only that process raises, and whether it left. Two rosters are
merged by taking the newer standing of each process, so the order of arrival does not matter, and everything a member
knows is said again and again instead of once. A process that hears an untrue word about itself contradicts it with a
higher stamp. A machine of its own: inside M2MC a part of the GroupManager, elsewhere the membership plugin `gjlp`.
"""

from __future__ import annotations

from typing import Any

from castbed import Context, ContractError, Group, Machine, NodeNumber, PeerError, Topology, View, on
from castbed.commands import group_number
from castbed.values import created_group
from castbed_plugins.m2mc.commands import (
    Advertise,
    CreateGroup,
    GroupCreated,
    GroupOffered,
    JoinGroup,
    LeaveGroup,
    Reconnected,
    RejectGroup,
)
from castbed_plugins.m2mc.options import RosterOptions
from castbed_plugins.m2mc.packets import Adv, GroupInfo, Roster, Standing

GROUPS_MAX = 1024  # that a process keeps rosters of; more than a person could be offered
MEMBERS_MAX = 4096  # that ever belonged to one group
STANDINGS_MAX = 64  # in one packet: with the description, one frame of 1400 bytes; longer rosters go in pieces
DESCRIPTION_MAX = 128  # characters
STAMP_MAX = 1 << 48  # a process that joins and leaves a thousand times a second needs 4000 years
LIFE_BITS = 16  # of a group's counter: lives of its creator, so that no restart gives an identity twice


class Roll:
    """What is known about one group."""

    def __init__(self, group: Group, desc: str = "") -> None:
        self.group = group
        self.desc = desc
        self.standings: dict[NodeNumber, Standing] = {}
        self.views = 0
        self.shown: tuple[NodeNumber, ...] = ()

    def stamp(self, pid: NodeNumber) -> int:
        return self.standings[pid].stamp if pid in self.standings else 0

    def has(self, pid: NodeNumber) -> bool:
        """Whether the process is a current member."""
        return pid in self.standings and not self.standings[pid].departed

    def current(self) -> tuple[NodeNumber, ...]:
        return tuple(sorted(pid for pid in self.standings if self.has(pid)))

    def info(self) -> GroupInfo:
        departed = tuple(sorted(pid for pid in self.standings if not self.has(pid)))
        return GroupInfo(self.group, self.desc, self.current(), departed)

    def learn(self, heard: Standing) -> bool:
        """Keep the newer word about a process; True when that is the one heard."""
        known = self.standings.get(heard.pid)
        if (known is not None and known >= heard) or (known is None and len(self.standings) >= MEMBERS_MAX):
            return False
        self.standings[heard.pid] = heard
        return True

    def pieces(self) -> list[Roster]:
        every = list(self.standings.values())
        parts = range(0, len(every), STANDINGS_MAX)
        return [Roster(self.group, self.desc, tuple(every[at : at + STANDINGS_MAX])) for at in parts]


class RosterGjlp(Machine):
    """One process's rosters: of the groups it belongs to, left, or only heard of."""

    options: RosterOptions

    def __init__(self, context: Context, options: RosterOptions | None = None) -> None:
        super().__init__(context, options or RosterOptions())
        self.rolls: dict[Group, Roll] = {}
        self.quiet: set[Group] = set()
        self.group_counter = 0
        self._owed: dict[Group, None] = {}
        self._announcing = False
        for key in context.kept_keys("roll/"):
            self._reload(int(key.removeprefix("roll/")), context.kept(key))

    def started(self) -> None:
        """A life that finds itself a member in what an earlier one kept is one at once."""
        for group in self.joined():
            self.join(group)
            self._changed(self.rolls[group])
        self._announce_in_turn()

    # --- what the application asks; a call that changes nothing does nothing (M2-R13) --------------------------------

    @on(CreateGroup)
    def create_group(self, command: CreateGroup) -> None:
        self.create(command.desc)

    @on(JoinGroup)
    def join_group(self, command: JoinGroup) -> None:
        self.enter(self.number(command.group))

    @on(RejectGroup)
    def reject_group(self, command: RejectGroup) -> None:
        self.quiet.add(self.number(command.group))

    @on(LeaveGroup)
    def leave_group(self, command: LeaveGroup) -> None:
        self.depart(self.number(command.group))

    @on(Advertise)
    def advertise(self, _: Advertise | None = None) -> None:
        self.quiet.clear()
        self.broadcast(Adv(self.me))

    @on(Reconnected)
    def reconnected(self, _: Reconnected | None = None) -> None:
        self.advertise()
        for group in self.joined():
            self._tell_all(group)

    def attached(self, _station: NodeNumber) -> None:
        self.reconnected()

    # --- steps that an owner composes --------------------------------------------------------------------------------

    def create(self, desc: str) -> Group:
        """Make a group; its identity holds the life of its creator."""
        if len(desc) > DESCRIPTION_MAX:
            raise ContractError(f"a group's description has at most {DESCRIPTION_MAX} characters")
        self.group_counter += 1
        if self.group_counter >> LIFE_BITS:
            raise ContractError(f"a process makes fewer than {1 << LIFE_BITS} groups in one life")
        life = self.context.incarnation % (1 << LIFE_BITS)
        group = created_group(life << LIFE_BITS | self.group_counter, self.me)
        self.rolls[group] = Roll(group, desc)
        self.enter(group)
        self.tell(GroupCreated(group, desc))
        return group

    def enter(self, group: Group) -> bool:
        """Become a member; False: this process is one already."""
        roll = self.rolls.setdefault(group, Roll(group))
        if roll.has(self.me):
            return False
        self.join(group)
        self._stand(roll, Standing(self.me, roll.stamp(self.me) + 1, departed=False))
        self._announce_in_turn()
        return True

    def depart(self, group: Group) -> bool:
        """Stop being a member; False: this process is none."""
        self.quiet.add(group)
        if not self.is_member(group):
            return False
        self.leave(group)
        roll = self.rolls[group]
        self._stand(roll, Standing(self.me, roll.stamp(self.me) + 1, departed=True))
        return True

    def is_member(self, group: Group) -> bool:
        return group in self.rolls and self.rolls[group].has(self.me)

    def joined(self) -> list[Group]:
        return [group for group, roll in self.rolls.items() if roll.has(self.me)]

    def number(self, text: str) -> Group:
        return group_number(text, self.context.topology)

    # --- what others say ---------------------------------------------------------------------------------------------

    @on(Adv)
    def advertised(self, _packet: Adv, _sender: NodeNumber) -> None:
        for group in self.joined():
            self._owe(group)

    @on(Roster)
    def roster(self, packet: Roster, _sender: NodeNumber) -> None:
        _check(packet, self.context.topology)
        roll = self._roll(packet)
        if roll is None:
            self.note("roster-dropped", group=packet.group)
            return
        changed = [standing for standing in packet.standings if standing.pid != self.me and roll.learn(standing)]
        if changed or (packet.desc and not roll.desc):
            roll.desc = roll.desc or packet.desc
            self._changed(roll)
        self._hear_of_me(roll, packet)
        self._offer(roll)

    def expired(self, timer: Any) -> None:
        if timer == "owed":
            owed, self._owed = self._owed, {}
            for group in owed:
                self._tell_all(group)
        elif timer == "announce":
            self._announcing = False
            for group in self.joined():
                self._tell_all(group)
            self._announce_in_turn()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _roll(self, packet: Roster) -> Roll | None:
        roll = self.rolls.get(packet.group)
        if roll is None and len(self.rolls) < GROUPS_MAX:
            roll = self.rolls[packet.group] = Roll(packet.group)
        return roll

    def _hear_of_me(self, roll: Roll, packet: Roster) -> None:
        """Contradict what is untrue, remember a higher stamp that is true, and repeat what others did not hear."""
        for heard in packet.standings:
            if heard.pid != self.me:
                continue
            known, departed = roll.standings.get(self.me), not roll.has(self.me)
            if known is not None and known > heard:
                self._owe(roll.group)
            elif heard.departed != departed:
                self._stand(roll, Standing(self.me, heard.stamp + 1, departed))
            elif roll.learn(heard):
                self._changed(roll)

    def _stand(self, roll: Roll, standing: Standing) -> None:
        roll.standings[self.me] = standing
        self._changed(roll)
        self._tell_all(roll.group)

    def _offer(self, roll: Roll) -> None:
        if not roll.has(self.me) and roll.group not in self.quiet and roll.current():
            self.quiet.add(roll.group)
            self.tell(GroupOffered(roll.info()))

    def _changed(self, roll: Roll) -> None:
        """Show the members if they are others than before, and keep the roster."""
        members = roll.current() if roll.has(self.me) else ()
        if members and members != roll.shown:
            roll.views += 1
            self.install(View(roll.group, roll.views, members, local=True))
        roll.shown = members
        self._keep(roll)

    def _owe(self, group: Group) -> None:
        if not self._owed:
            self.set_timer("owed", self.context.random.randint(1, self.options.answer_within))
        self._owed[group] = None

    def _tell_all(self, group: Group) -> None:
        for piece in self.rolls[group].pieces():
            self.broadcast(piece)

    def _announce_in_turn(self) -> None:
        if not self._announcing and self.joined():
            self._announcing = True
            every = self.options.announce_every
            self.set_timer("announce", self.context.random.randint(every * 3 // 4, every * 5 // 4))

    def _keep(self, roll: Roll) -> None:
        """Rosters of groups that this process never belonged to are hearsay and not kept."""
        if self.me in roll.standings:
            standings = [[s.pid, s.stamp, s.departed] for s in roll.standings.values()]
            self.persist(f"roll/{roll.group}", [roll.desc, roll.views, standings])

    def _reload(self, group: Group, kept: Any) -> None:
        roll = self.rolls[group] = Roll(group, kept[0])
        roll.views = kept[1]
        roll.standings = {pid: Standing(pid, stamp, departed) for pid, stamp, departed in kept[2]}


def _check(packet: Roster, topology: Topology) -> None:
    """PeerError unless the roster can be one that a RosterGjlp sent."""
    if packet.group < 1 or len(packet.desc) > DESCRIPTION_MAX or len(packet.standings) > STANDINGS_MAX:
        raise PeerError("a roster of no group, or one too large")
    topology.check_group(packet.group)
    for standing in packet.standings:
        topology.check(standing.pid)
        if not 0 < standing.stamp <= STAMP_MAX:
            raise PeerError(f"a roster in which {standing.pid} stands at {standing.stamp}")
