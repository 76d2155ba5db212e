"""What a random schedule may do next, drawn within the freedoms of the arena and the limits of the schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import ClassVar

import msgspec

from castbed.values import DEFAULT_GROUP, NOBODY, Group, Mid, NodeNumber
from castbed_testbed.explore import freedoms as free
from castbed_testbed.explore.arena import SHARED
from castbed_testbed.explore.founding import JOINS, WAITS, command_for, founding_of, senders_of
from castbed_testbed.explore.rules import may_crash
from castbed_testbed.explore.world import Copy, World

REPLIES = 0.5  # of the messages that could answer one do
MAKES_MORE = 0.1  # of the commands make another group, where users make groups
FAVOURED = 0.4  # of the choices of a node fall on the favourite of the schedule
DEAF = 0.5  # of the nodes that crash miss what was on its way to them
FORGETS = 0.5  # of the restarts lose their storage, where that may be
NAMES = "abcdefghijklmnopqrstuvwxyz"


class Limits(msgspec.Struct, frozen=True):
    """How much of each a schedule has at most."""

    messages: int = 5
    messages_min: int = 1
    steps: int = 60
    fires: int = 4
    disturbances: int = 3
    losses: int = 2


class Chances:
    """Draws for one world; each method does something, or says that it could not."""

    def __init__(self, world: World, random: Random, limits: Limits, messages: int | None = None) -> None:
        self.world = world
        self.random = random
        self.limits = limits
        self.messages = limits.messages if messages is None else messages
        self.submitted = 0
        self.fires = 0
        self.disturbed = 0
        self.lost = 0
        self.favourite = random.choice(world.arena.submitters)
        self._disturbances = [self._disturb_by[name] for name in sorted(world.arena.freedoms & self._disturb_by.keys())]

    def _somebody(self, of: Sequence[NodeNumber]) -> NodeNumber:
        """One of these; often the same one, because most that goes wrong goes wrong with one user."""
        if self.favourite in of and self.random.random() < FAVOURED:
            return self.favourite
        return of[int(self.random.random() * len(of))]

    # --- users -------------------------------------------------------------------------------------------------------

    def submit(self, node: NodeNumber | None = None) -> bool:
        """A node submits a message to a group that it is in, perhaps as an answer to one that it delivered."""
        if self.submitted >= self.messages:
            return False
        world, choice = self.world, self.random.choice
        if node is None:
            node = self._somebody(senders_of(world.arena))
        if not world.is_up(node):
            return False
        groups = sorted(world.groups[node]) or sorted(world.arena.topology.groups)
        if not groups:
            return False
        group = groups[0] if len(groups) == 1 else choice(groups)
        name = NAMES[self.submitted % len(NAMES)] + str(self.submitted // len(NAMES) or "")
        self.submitted += 1
        world.submit(node, name, group, self._parent(node, group))
        return True

    def _parent(self, node: NodeNumber, group: Group) -> Mid | None:
        delivered = self.world.delivered[node]
        if not delivered or self.random.random() >= REPLIES:
            return None
        message = delivered[int(self.random.random() * len(delivered))]
        return message.mid if message.group == group else None

    def ask(self, node: NodeNumber | None = None) -> bool:
        """A user gives a command that it could give now: makes, joins or leaves a group, or whatever needs none."""
        world, choice = self.world, self.random.choice
        if node is None:
            node = self._somebody(world.arena.submitters)
        if not world.is_up(node):
            return False
        founding = founding_of(world.arena)
        known = sorted(set(world.arena.topology.groups).union(*world.groups))
        kinds = founding.kinds() if known else [founding.making] if founding.making else []
        if known and founding.making and self.random.random() < MAKES_MORE:
            kinds = [founding.making]
        group = choice(known or [DEFAULT_GROUP])
        for kind in self.random.sample(kinds, len(kinds)):
            command = command_for(world, choice(kind), group)
            if founding.is_sensible(world, node, command):
                world.ask(node, command)
                return True
        return False

    def found(self) -> None:
        """Where the topology has no groups, users make one and join it first."""
        world, random = self.world, self.random
        if world.arena.topology.groups:
            return
        making, joining = founding_of(world.arena).making, founding_of(world.arena).joining
        if not making:
            return
        founder = random.choice(world.arena.submitters)
        world.ask(founder, command_for(world, random.choice(making), DEFAULT_GROUP))
        for node in world.arena.submitters if joining else ():
            if node != founder and random.random() < JOINS:
                if random.random() < WAITS:
                    world.arrive()
                self.ask_to_join(node)
        if random.random() < WAITS:
            world.pass_time()

    def ask_to_join(self, node: NodeNumber) -> None:
        """A user joins some group, if it can."""
        world, founding = self.world, founding_of(self.world.arena)
        for group in sorted(set().union(*world.groups)):
            command = command_for(world, self.random.choice(founding.joining), group)
            if founding.is_sensible(world, node, command):
                world.ask(node, command)
                return

    # --- the network -------------------------------------------------------------------------------------------------

    def receive(self) -> bool:
        """Any copy that may arrive next."""
        flying = self.world.flying
        if not flying:
            return False
        copy = flying[int(self.random.random() * len(flying))]
        return self.receive_copy(copy)

    def receive_copy(self, copy: Copy) -> bool:
        """This copy or, where its medium keeps the order, the oldest before it."""
        world = self.world
        if not self.may_overtake(copy):
            copy = world.oldest(copy)
        if world.machines[copy.to] is None:
            return False
        world.receive(copy)
        return True

    def may_overtake(self, copy: Copy) -> bool:
        return (free.WIRE_OVERTAKING if copy.wired else free.AIR_OVERTAKING) in self.world.arena.freedoms

    def lose(self) -> bool:
        """Any copy is lost or doubled, if its medium does that."""
        world, allowed = self.world, self.world.arena.freedoms
        if self.lost >= self.limits.losses or not world.flying:
            return False
        copy = self.random.choice(world.flying)
        if copy.sender == copy.to:
            return False
        loses = self.random.random() < 0.6
        if loses and (self._is_lost_anyhow(copy) or (free.WIRE_LOSS if copy.wired else free.AIR_LOSS) in allowed):
            world.lose(copy)
        elif not loses and (free.WIRE_DUPLICATION if copy.wired else free.AIR_DUPLICATION) in allowed:
            world.duplicate(copy)
        else:
            return False
        self.lost += 1
        return True

    def _is_lost_anyhow(self, copy: Copy) -> bool:
        """Whether the best of wires may lose the copy: who is to receive it is down."""
        return copy.wired and not self.world.is_up(copy.to)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def fire(self, node: NodeNumber | None = None) -> bool:
        """The next timer of a node runs out."""
        world = self.world
        if self.fires >= self.limits.fires:
            return False
        if node is None:
            node = self._somebody(world.arena.numbers)
        timer = world.next_timer(node)
        if timer is None:
            return False
        self.fires += 1
        world.fire(node, timer)
        return True

    def disturb(self) -> bool:
        """A handoff, an absence, a crash or a command: whatever the model allows."""
        if self.disturbed >= self.limits.disturbances or not self._disturbances:
            return False
        done = self.random.choice(self._disturbances)(self)
        self.disturbed += done
        return done

    def hand_off(self, host: NodeNumber | None = None) -> bool:
        """A host moves into another cell."""
        world = self.world
        host = self._somebody(world.arena.movable) if host is None else host
        if not world.is_up(host):
            return False
        stations = [station for station in world.arena.stations if station != world.cells[host]]
        world.move(host, self.random.choice(stations))
        return True

    def wander(self, node: NodeNumber | None = None) -> bool:
        """A node goes out of range, or comes back."""
        world = self.world
        node = self._somebody(world.arena.movable) if node is None else node
        if not world.is_up(node):
            return False
        if world.cells[node] != NOBODY:
            world.move(node, NOBODY)
        else:
            world.move(node, self.random.choice(world.arena.stations) if world.arena.stations else SHARED)
        return True

    def crash(self, node: NodeNumber | None = None) -> bool:
        """A node crashes, or one that did starts again."""
        world = self.world
        if node is None:
            able = [one for one in world.arena.numbers if not world.is_up(one) or may_crash(world, one)]
            if not able:
                return False
            node = self.random.choice(able)
        if world.is_up(node):
            if not may_crash(world, node):
                return False
            world.crash(node)
            if self.random.random() < DEAF:
                for copy in [copy for copy in world.flying if copy.to == node]:
                    world.lose(copy)
        else:
            forgets = free.AMNESIA in world.arena.freedoms and self.random.random() < FORGETS
            world.restart(node, not forgets)
        return True

    _disturb_by: ClassVar[dict[str, Callable[[Chances], bool]]] = {
        free.HANDOFF: hand_off,
        free.ABSENCE: wander,
        free.CRASH: crash,
        free.COMMANDS: ask,
    }
