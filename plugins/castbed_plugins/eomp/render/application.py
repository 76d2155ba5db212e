"""The distributed volume renderer of the paper, as a program on a totally ordered protocol (spec 2).

Every host is client and worker. A client multicasts the volume; each entity takes the frames that are its own modulo N
and returns them, and nobody coordinates. Membership travels in the same order as tasks, so all agree on every split.
Work takes virtual time. What is running is never moved: who leaves finishes its share first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from castbed import Application, ApplicationPlugin, Group, Message, Setting
from castbed_plugins.eomp.founding import founders, is_founder
from castbed_plugins.eomp.render.options import SECOND, RenderOptions, Timed, check
from castbed_plugins.eomp.render.packets import (
    Announce,
    Cancel,
    Decrement,
    Fragment,
    Increment,
    Reassign,
    Result,
    Said,
    TaskId,
    Welcome,
    decoded,
    encoded,
)
from castbed_plugins.eomp.render.schedule import OUT, Decision, Entity, LoadAverage, Roster, Thresholds, share
from castbed_plugins.eomp.render.tasks import Job, Order

ORDERS_MAX = 8  # tasks whose volumes a worker keeps; the oldest is forgotten, and its client reassigns
ATTEMPTS_MAX = 100  # to be welcomed, and to have missing frames computed
TASK_BITS = 48


class Renderer(Application):
    """One host: its jobs as a client, its entities as a worker."""

    options: RenderOptions

    def __init__(self, setting: Setting, options: RenderOptions | None = None) -> None:
        super().__init__(setting, options or RenderOptions())
        check(setting, self.options)
        name = setting.topology.name(self.me)
        power = self.options.power_of(name)
        self.mine = [Entity(self.me, number) for number in range(power)]
        self.roster: Roster | None = None
        self.jobs: dict[TaskId, Job] = {}
        self.computed: list[tuple[TaskId, int]] = []
        self.thresholds = Thresholds(power, power, self.options.upper, self.options.lower)
        self.foreign = 0
        self._average = LoadAverage()
        self._load = 0.0
        self._orders: dict[TaskId, Order] = {}
        self._queues: dict[Entity, deque[tuple[TaskId, int]]] = {entity: deque() for entity in self.mine}
        self._kept: tuple[int, list[Said]] | None = None
        self._changing: dict[Entity, bool] = {}
        self._is_member = False
        self._is_entering = False

    # --- what a user does --------------------------------------------------------------------------------------------

    def render(self) -> TaskId:
        """Submit the task of the options; its job gathers the frames."""
        options, volume = self.options, self.options.volume()
        task = TaskId(self.me, self.setting.random.getrandbits(TASK_BITS))
        cuts = range(0, len(volume.samples), options.fragment)
        self.jobs[task] = Job(task, options.frames, self.now)
        self._say(
            Announce(
                task, options.frames, options.image_side, volume.slices, volume.side, len(cuts), volume.digest()
            )
        )  # fmt: skip
        for index, at in enumerate(cuts):
            self._say(Fragment(task, index, volume.samples[at : at + options.fragment]))
        self.wake(("check", task, 1), options.patience)
        return task

    def cancel(self, task: TaskId) -> None:
        """Give a task up; workers drop what they have not begun."""
        if self.jobs.pop(task, None) is not None:
            self._say(Cancel(task))

    def leave(self) -> bool:
        """One entity leaves; False when none can at the moment."""
        free = [entity for entity in self.mine if self._identity(entity) != OUT and not self._changing]
        if not free:
            return False
        self._is_entering = False
        self._changing[free[-1]] = False
        named = free[-1] if self.options.profile == "hardened" else None
        self._say(Decrement(self._identity(free[-1]), named))
        return True

    def join(self) -> bool:
        """One entity joins; False when none can at the moment."""
        free = [entity for entity in self.mine if self._identity(entity) == OUT and not self._changing]
        if self.roster is None or not free:
            return False
        self._changing[free[0]] = True
        self._say(Increment(free[0]))
        return True

    def observe(self, load: float) -> Decision:
        """A sample of the load; at most one entity goes or comes because of it."""
        average = self._average.add(load)
        if self.roster is None or self._changing:
            return Decision.STAY
        decision = self.thresholds.decide(average)
        if decision is Decision.LEAVE:
            self.leave()
        elif decision is Decision.JOIN:
            self.join()
        return decision

    # --- what the node says ------------------------------------------------------------------------------------------

    def started(self) -> None:
        name, options = self.setting.topology.name(self.me), self.options
        scripts: dict[str, Sequence[Timed]] = {"render": options.tasks, "shift": options.shifts, "load": options.loads}
        for what, script in scripts.items():
            for at, entry in enumerate(script):
                if entry.node == name and entry.at >= self.now:
                    self.wake((what, at), entry.at - self.now)
        if any(load.node == name for load in options.loads):
            self.wake(("sample",), SECOND)

    def joined(self, group: Group) -> None:
        if group != self.options.group:
            return
        self._is_member = True
        if not self.mine:
            return
        if is_founder(self.setting, self.options.founders, group, self.now):
            self.roster = Roster(self._founding_entities())
        else:
            self._woken_to_enter(0)

    def left(self, group: Group) -> None:
        if group == self.options.group:
            self._is_member, self.roster, self._kept = False, None, None
            self._changing.clear()

    def delivered(self, message: Message) -> None:
        said = decoded(message.payload)
        if message.group != self.options.group or said is None:
            self.foreign += 1
        elif isinstance(said, Result):
            self._take_result(said)
        elif self.roster is not None:
            self._hear(self.roster, said)
        else:
            self._hear_as_newcomer(said)

    def woken(self, name: Any) -> None:
        what, *about = name
        getattr(self, f"_woken_to_{what}")(*about)

    def _woken_to_render(self, at: int) -> None:  # noqa: ARG002 (every submission is of the same task)
        self.render()

    def _woken_to_shift(self, at: int) -> None:
        if self.options.shifts[at].do == "leave":
            self.leave()
        else:
            self.join()

    def _woken_to_load(self, at: int) -> None:
        self._load = self.options.loads[at].load

    def _woken_to_sample(self) -> None:
        self.observe(self._load)
        if self.now + SECOND < self.setting.duration:
            self.wake(("sample",), SECOND)

    # --- membership --------------------------------------------------------------------------------------------------

    def _founding_entities(self) -> list[Entity]:
        name, power = self.setting.topology.name, self.options.power_of
        hosts = founders(self.setting, self.options.founders, self.options.group)
        return [Entity(host, number) for host in hosts for number in range(power(name(host)))]

    def _woken_to_enter(self, attempt: int) -> None:
        """A newcomer's first entity joins and waits to be welcomed."""
        if self._is_member and self.roster is None and attempt < ATTEMPTS_MAX:
            self._say(Increment(self.mine[0], attempt))
            self.wake(("enter", attempt + 1), self.options.patience)

    def _hear_as_newcomer(self, said: Said) -> None:
        """Keep what comes after the own Increment; the Welcome that answers it says what the roster was there."""
        if isinstance(said, Increment) and said.attempt is not None and said.entity in self.mine:
            self._kept = said.attempt, []
        elif isinstance(said, Welcome):
            self._be_welcomed(said)
        elif self._kept is not None:
            self._kept[1].append(said)
        elif self.mine and isinstance(said, Announce | Fragment):
            self._gather(Roster(), said)

    def _be_welcomed(self, welcome: Welcome) -> None:
        if self._kept is None or welcome.entity not in self.mine or welcome.attempt != self._kept[0]:
            return
        (_, kept), self._kept = self._kept, None
        self.roster, self._is_entering = Roster(welcome.roster), True
        for said in kept:
            self._hear(self.roster, said)
        self._bring_in_the_others()

    def _bring_in_the_others(self) -> None:
        """A newcomer's further entities join one by one."""
        if self._is_entering:
            self._is_entering = self.join()

    def _identity(self, entity: Entity) -> int:
        return OUT if self.roster is None else self.roster.identity(entity)

    def _hear(self, roster: Roster, said: Said) -> None:
        """The next message of the stream, with the roster as it is there."""
        if isinstance(said, Announce | Fragment):
            self._gather(roster, said)
        elif isinstance(said, Increment):
            roster.increment(said.entity)
            self._welcome(roster, said)
            self._settle_changes(roster)
        elif isinstance(said, Decrement):
            roster.decrement(said.identity if said.entity is None else roster.identity(said.entity))
            self._settle_changes(roster)
        elif isinstance(said, Reassign):
            self._compute_share(said.task, roster.entities, said.frames, said.turn)
        elif isinstance(said, Cancel):
            self._forget(said.task)

    def _welcome(self, roster: Roster, newcomer: Increment) -> None:
        if newcomer.attempt is None:
            return
        welcomer = roster.entities[newcomer.attempt % roster.n]
        if welcomer.host == self.me != newcomer.entity.host:
            self._say(Welcome(newcomer.entity, newcomer.attempt, tuple(roster.entities)))

    def _settle_changes(self, roster: Roster) -> None:
        """Forget the changes of own entities that have come about."""
        done = [entity for entity, comes in self._changing.items() if (roster.identity(entity) != OUT) == comes]
        for entity in done:
            del self._changing[entity]
        if done:
            self._bring_in_the_others()

    # --- work --------------------------------------------------------------------------------------------------------

    def _gather(self, roster: Roster, part: Announce | Fragment) -> None:
        if part.task not in self._orders:
            self._orders[part.task] = Order(roster.entities)
            if len(self._orders) > ORDERS_MAX:
                self._forget(next(iter(self._orders)))
        order = self._orders[part.task]
        if order.take(part) and order.announce is not None:
            self._compute_share(part.task, self._sharers(roster, order), range(order.announce.frames))

    def _sharers(self, roster: Roster, order: Order) -> list[Entity]:
        """Who works on a task, in the order of their IDs."""
        if self.options.profile == "paper":
            return roster.entities
        return [entity for entity in roster.entities if entity in order.present]

    def _compute_share(self, task: TaskId, sharers: list[Entity], frames: Sequence[int], turn: int = 0) -> None:
        order = self._orders.get(task)
        if order is None or order.volume is None:
            return
        for identity, entity in enumerate(sharers):
            if entity.host == self.me and entity in self._queues:
                self._enqueue(entity, [(task, frame) for frame in share(frames, len(sharers), identity, turn)])

    def _enqueue(self, entity: Entity, work: list[tuple[TaskId, int]]) -> None:
        queue = self._queues[entity]
        was_idle = not queue
        queue.extend(piece for piece in work if piece not in queue)
        if was_idle and queue:
            self.wake(("compute", entity), self.options.frame_cost)

    def _woken_to_compute(self, entity: Entity) -> None:
        """The frame at the front is done."""
        queue = self._queues[entity]
        task, frame = queue.popleft()
        if queue:
            self.wake(("compute", entity), self.options.frame_cost)
        order = self._orders.get(task)
        if order is not None and order.volume is not None:
            self.computed.append((task, frame))
            self._return(task, frame, self.options.image(order.volume, frame))

    def _forget(self, task: TaskId) -> None:
        """Drop the task; the frame at the front of each queue is being computed and stays."""
        self._orders.pop(task, None)
        for entity, queue in self._queues.items():
            begun, waiting = list(queue)[:1], list(queue)[1:]
            self._queues[entity] = deque([*begun, *(piece for piece in waiting if piece[0] != task)])

    # --- results -----------------------------------------------------------------------------------------------------

    def _return(self, task: TaskId, frame: int, image: bytes) -> None:
        """Give the frame to its client, piece by piece where that is another host."""
        if task.client == self.me:
            if task in self.jobs:
                self.jobs[task].keep(frame, image, self.now)
            return
        to = (task.client,) if self.options.results == "unicast" else None
        cuts = range(0, len(image), self.options.fragment)
        for index, at in enumerate(cuts):
            piece = Result(task, frame, index, len(cuts), image[at : at + self.options.fragment])
            self.submit(encoded(piece), self.options.group, to=to)

    def _take_result(self, result: Result) -> None:
        job = self.jobs.get(result.task)
        if job is not None:
            job.take(result, self.now)

    def _woken_to_check(self, task: TaskId, turn: int) -> None:
        """Have missing frames computed by others when nothing has come for a while (V9)."""
        job = self.jobs.get(task)
        if job is None or job.finished is not None or turn > ATTEMPTS_MAX:
            return
        if self.now - job.heard >= self.options.patience:
            job.reassigned += 1
            self._say(Reassign(task, tuple(job.missing()), job.reassigned))
        self.wake(("check", task, turn + 1), self.options.patience)

    def _say(self, said: Said) -> None:
        self.submit(encoded(said), self.options.group)


RENDER = ApplicationPlugin("render", "Frames of a volume, computed by all members of a group", Renderer, RenderOptions)
