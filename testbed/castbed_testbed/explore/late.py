"""One copy comes late, by some requests of the user who caused it; everything else arrives meanwhile."""

from __future__ import annotations

from random import Random

from castbed_testbed.explore.arena import Arena
from castbed_testbed.explore.chances import Chances
from castbed_testbed.explore.freedoms import AIR_LOSS, COMMANDS, HANDOFF
from castbed_testbed.explore.strategies import Strategy
from castbed_testbed.explore.table import NO_CHANNELS
from castbed_testbed.explore.world import Channel, Copy

PASSES_MAX = 100  # copies that pass the late one at one go: machines that answer each other for ever end here


class LateCopy(Strategy):
    """A user asks for something, perhaps twice; one copy of what comes of it is late, while the user asks for more.

    Where copies may overtake each other, those behind the late one pass it; elsewhere they wait with it. Whether users
    give commands and move is drawn for each arena, so that what needs neither is not hidden by what needs both. The
    limits on disturbances and losses do not hold here.
    """

    about = frozenset({COMMANDS, HANDOFF})
    USERS_ASK, USERS_MOVE = 0.5, 0.5  # of the arenas
    BEFORE_MAX, AFTER_MAX = 2, 5  # requests before and after that of the late copy
    ASKS = 0.6  # of the requests are commands, where users give some
    MOVES = 0.35  # of the requests come right before or after a move, where users move
    REPEATS = 0.5  # of the requests are made again, because timers run out first;
    TIMERS_MAX = 2  # that of the request may not be the first that is due
    ARRIVALS_MAX = 10  # before one of those that are on their way then is late
    MISSES = 0.25  # of the times the user does not hear what comes of a request
    UNHEARD = 0.4  # of the times nobody has heard the last request when the late copy comes

    def __init__(self, arena: Arena, random: Random) -> None:
        super().__init__(arena, random)
        self.users_ask = COMMANDS in arena.freedoms and random.random() < self.USERS_ASK
        self.users_move = HANDOFF in arena.freedoms and random.random() < self.USERS_MOVE

    def schedule(self, chances: Chances) -> None:
        chances.found()
        chances.messages = chances.limits.messages
        random, world = chances.random, chances.world
        for _ in range(random.randint(0, self.BEFORE_MAX)):
            self._request(chances)
            world.arrive()
        self._request(chances)
        late = self._chosen(chances)
        after = random.randint(1, self.AFTER_MAX)
        comes = random.randint(1, after + 1)  # the last of these is the fair end
        for at in range(1, after + 1):
            self._arrive(chances, late)
            heard = world.copies
            self._request(chances)
            if at == comes:
                self._comes(chances, late, heard)
        self._arrive(chances, late)
        chances.submit(chances.favourite)  # a gap shows when something comes after it

    # --- the user ----------------------------------------------------------------------------------------------------

    def _request(self, chances: Chances) -> None:
        """The favourite gives a command or submits, perhaps moves before or after that, and perhaps repeats it."""
        random, user = chances.random.random, chances.favourite
        moves = self.users_move and user in self.arena.movable and random() < self.MOVES
        at_first = moves and random() < 0.5
        if at_first:
            chances.hand_off(user)
        if not (self.users_ask and random() < self.ASKS and chances.ask(user)):
            chances.submit(user)
        if moves and not at_first:
            chances.hand_off(user)
        if random() < self.REPEATS:
            for _ in range(chances.random.randint(1, self.TIMERS_MAX)):
                chances.fire(user)

    # --- the late copy -----------------------------------------------------------------------------------------------

    def _chosen(self, chances: Chances) -> Copy | None:
        """One of the copies that are on their way after some arrivals: the first of its channel, where that counts."""
        random, world = chances.random, chances.world
        for _ in range(random.randint(0, self.ARRIVALS_MAX)):
            if len(world.flying) > 1:
                chances.receive_copy(world.flying[0])
        if not world.flying:
            return None
        copy = random.choice(world.flying)
        return copy if chances.may_overtake(copy) else world.oldest(copy)

    def _comes(self, chances: Chances, late: Copy | None, heard: int) -> None:
        """The late copy comes, perhaps when what was said since so many copies is lost."""
        world = chances.world
        if chances.random.random() < self.UNHEARD:
            self._lose(chances, [copy for copy in world.flying if copy.serial > heard])
        if late in world.flying:
            world.receive(late)

    # --- all others --------------------------------------------------------------------------------------------------

    def _arrive(self, chances: Chances, late: Copy | None) -> None:
        """Everything but the late copy arrives; now and then all but what is on its way to the user, which is lost."""
        if chances.random.random() >= self.MISSES:
            self._pass(chances, late, NO_CHANNELS)
            return
        user = chances.favourite
        missed = frozenset((sender, user) for sender in self.arena.stations or self.arena.numbers if sender != user)
        self._pass(chances, late, missed)
        flying = chances.world.flying
        self._lose(chances, [copy for copy in flying if (copy.sender, copy.to) in missed and copy is not late])

    def _pass(self, chances: Chances, late: Copy | None, missed: frozenset[Channel]) -> None:
        """Everything arrives that need not wait for the late copy, except on the channels that are missed."""
        world = chances.world
        if late is None or late not in world.flying:
            world.arrive(missed)
            return
        channel = late.sender, late.to
        world.arrive(missed | {channel})
        for _ in range(PASSES_MAX if channel not in missed else 0):
            copy = self._behind(chances, late)
            if copy is None:
                return
            world.receive(copy)
            world.arrive(missed | {channel})

    def _behind(self, chances: Chances, late: Copy) -> Copy | None:
        """The next copy on the channel of the late one that may pass it."""
        for copy in chances.world.flying:
            if copy is not late and (copy.sender, copy.to) == (late.sender, late.to) and chances.may_overtake(copy):
                return copy
        return None

    def _lose(self, chances: Chances, copies: list[Copy]) -> None:
        """What was on the air of these is lost, if that may be."""
        for copy in copies if AIR_LOSS in self.arena.freedoms else ():
            if not copy.wired and copy.sender != copy.to:
                chances.world.lose(copy)
