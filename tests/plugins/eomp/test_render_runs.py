"""The renderer on a total order: who computes what while entities come and go (spec V1 to V9, VT1 to VT8)."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from case_study_runs import SECOND, Ran, lamport

from castbed import ApplicationPlugin, ConfigurationError, Message, Setting, topology
from castbed.application import Submit, Wake
from castbed_plugins.eomp.render import RENDER, Decision, Entity, Renderer, RenderOptions, cast, head
from castbed_plugins.eomp.render.packets import Decrement, Increment, Reassign, Result, Said, TaskId, encoded
from castbed_plugins.eomp.render.tasks import Job

SMALL = {"slices": 6, "side": 8, "image_side": 8, "fragment": "64B", "frame_cost": "10ms"}


class Watched(Renderer):
    """Writes down the roster after each change."""

    def __init__(self, setting: Setting, options: RenderOptions) -> None:
        super().__init__(setting, options)
        self.rosters: list[tuple[Said, tuple[Entity, ...]]] = []

    def _hear(self, roster: Any, said: Said) -> None:
        super()._hear(roster, said)
        if isinstance(said, Increment | Decrement):
            self.rosters.append((said, tuple(roster.entities)))


WATCHED = ApplicationPlugin("render", "", Watched, RenderOptions)


def ran(data: dict[str, Any], plugin: ApplicationPlugin = WATCHED, **options: Any) -> Ran:
    return Ran(plugin, {**SMALL, **options}, data)


def only_job(renderer: Renderer) -> Any:
    (job,) = renderer.jobs.values()
    return job


def shift(node: str, ms: int, do: str) -> dict[str, Any]:
    return {"node": node, "at": f"{ms}ms", "do": do}


def task(node: str = "A", ms: int = 0) -> list[dict[str, Any]]:
    return [{"node": node, "at": f"{ms}ms"}]


def shares(result: Ran) -> dict[str, list[int]]:
    return {name: [frame for _, frame in worker.computed] for name, worker in result.applications.items()}


@pytest.mark.parametrize("hosts", [1, 2, 3, 4, 8])
def test_frames_are_those_of_one_host_and_each_comes_once(hosts: int) -> None:
    """VT1, V2."""
    volume = head(6, 8)
    result = ran(lamport("ABCDEFGH"[:hosts], seconds=10), tasks=task(), frames=24, draw=True)
    job = only_job(result["A"])
    assert job.images == {frame: cast(volume, frame, 24, 8) for frame in range(24)}
    assert (job.duplicates, job.reassigned) == (0, 0)
    assert Counter(frame for own in shares(result).values() for frame in own) == Counter(range(24))


def test_work_takes_virtual_time() -> None:
    took = []
    for names in ("A", "ABCD"):
        job = only_job(ran(lamport(names, seconds=60), tasks=task(), frames=80, frame_cost="500ms")["A"])
        took.append((job.finished - job.begun) / SECOND)
    assert took[0] == pytest.approx(40, abs=0.1)
    assert 10 < took[1] < 11


def test_shares_follow_the_horse_power() -> None:
    """VT5: 1 to 2 to 4 within one frame per entity."""
    result = ran(lamport("ABC", seconds=20), tasks=task(), frames=70, horse_power={"B": 2, "C": 4})
    assert {name: len(own) for name, own in shares(result).items()} == {"A": 10, "B": 20, "C": 40}
    assert only_job(result["A"]).finished is not None


def test_a_client_without_entities_has_its_frames_computed_by_others() -> None:
    result = ran(lamport("ABC", seconds=20), tasks=task(), frames=10, horse_power={"A": 0})
    assert len(only_job(result["A"]).images) == 10
    assert shares(result)["A"] == []


def test_who_left_before_the_task_has_no_share() -> None:
    """VT4, V3: the worked example, with everything delivered in order."""
    result = ran(lamport("ABCD"), shifts=[shift("B", 0, "leave")], tasks=task(ms=1000), frames=10)
    assert shares(result) == {"A": [0, 3, 6, 9], "B": [], "C": [1, 4, 7], "D": [2, 5, 8]}


def test_who_leaves_after_the_task_finishes_its_share() -> None:
    """VT4, V3: the other order; nothing that runs is moved."""
    result = ran(
        lamport("ABCD", seconds=9), tasks=task(), shifts=[shift("B", 1500, "leave")], frames=10, frame_cost="1s"
    )
    assert shares(result) == {"A": [0, 4, 8], "B": [1, 5, 9], "C": [2, 6], "D": [3, 7]}
    assert result["B"].roster.n == 3
    assert only_job(result["A"]).reassigned == 0


def test_a_newcomer_is_welcomed_and_works_on_the_next_task() -> None:
    """V4, V6: A founds, B and C come with one and two entities."""
    result = ran(
        lamport("ABC", seconds=9), founders=["A"], horse_power={"C": 2}, tasks=task(ms=3000), frames=8, patience="1s"
    )
    assert {worker.roster.n for worker in result.all()} == {4}
    assert {name: len(own) for name, own in shares(result).items()} == {"A": 2, "B": 2, "C": 4}


def changes(names: str, random: Random, count: int, ms_max: int) -> list[dict[str, Any]]:
    draw = random.choice
    return [shift(draw(names), random.randrange(ms_max), draw(("leave", "join"))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(12))
def test_all_agree_on_every_roster_and_every_frame_is_computed_once(seed: int) -> None:
    """VT3: entities come and go before, during and after tasks, at any distance."""
    random = Random(seed)
    names = "ABCDE"
    result = ran(
        lamport(names, seconds=8, seed=seed),
        founders=["A", "B"],
        horse_power={"B": 2, "C": 3},
        shifts=changes("BCDE", random, 40, 6000),
        tasks=[*task("A", 700), *task("D", 2500), *task("E", 4000)],
        frames=30,
        patience="9s",
    )
    longest = result["A"].rosters
    assert len(longest) > 15
    for worker in result.all():
        assert worker.rosters == longest[len(longest) - len(worker.rosters) :]
        assert worker.roster.entities == result["A"].roster.entities
    jobs = [job for worker in result.all() for job in worker.jobs.values()]
    assert [(len(job.images), job.duplicates, job.reassigned) for job in jobs] == [(30, 0, 0)] * 3


def test_two_who_leave_at_once_are_both_gone_when_leavers_are_named() -> None:
    """V8: B and C leave at the same time."""
    result = ran(lamport("ABCD"), shifts=[shift("B", 100, "leave"), shift("C", 100, "leave")])
    assert {tuple(e.host for e in worker.roster.entities) for worker in result.all()} == {(1, 4)}


def test_the_papers_decrement_removes_a_bystander_when_two_leave_at_once() -> None:
    """The counterexample to `Decrement(ID)`: after B has left, C's old ID is D's."""
    shifts = [shift("B", 100, "leave"), shift("C", 100, "leave")]
    result = ran(lamport("ABCD"), shifts=shifts, profile="paper")
    assert {tuple(e.host for e in worker.roster.entities) for worker in result.all()} == {(1, 3)}


class Unwell(Renderer):
    """A computes nothing any more after its second frame, and never says that it left."""

    def _woken_to_compute(self, entity: Entity) -> None:
        if self.setting.topology.name(self.me) != "A" or len(self.computed) < 2:
            super()._woken_to_compute(entity)


@pytest.mark.parametrize("frames", [12, 13, 40])
def test_the_frames_of_a_dead_worker_are_computed_by_others(frames: int) -> None:
    """V9, VT8: as often as it takes until none of them falls to the dead one."""
    unwell = ApplicationPlugin("render", "", Unwell, RenderOptions)
    result = ran(lamport("ABCD", seconds=60), unwell, tasks=task("B"), frames=frames, patience="1s")
    job = only_job(result["B"])
    assert len(job.images) == frames
    assert job.reassigned >= 1
    assert len(shares(result)["A"]) == 2


def test_an_entity_leaves_under_load_and_comes_back() -> None:
    """V7, VT6 through the application: load far above the upper threshold for a while, then none."""
    loads = [{"node": "B", "at": "500ms", "load": 9.0}, {"node": "B", "at": "7500ms", "load": 0.0}]
    result = ran(lamport("AB", seconds=30), horse_power={"B": 3}, loads=loads)
    sizes = [len(entities) for _, entities in result["A"].rosters]
    assert sizes == [3, 2, 1, 2, 3, 4]
    assert (result["B"].thresholds.upper, result["B"].thresholds.lower) == (4, 2)


class Hand:
    """One renderer whose stream the test writes."""

    def __init__(self, me: str = "B", now: int = 0, **options: Any) -> None:
        self.net = topology.broadcast(("A", "B", "C"))
        setting = Setting(self.net.number(me), self.net, Random(1), SECOND)
        self.renderer = Renderer(setting, RenderOptions(**options))
        self.renderer.now = now
        self.renderer.joined(1)
        self.renderer.started()

    def hear(self, *said: Said) -> None:
        for one in said:
            self.renderer.delivered(Message(payload=encoded(one)))

    def says(self) -> list[bytes]:
        return [wish.message.payload for wish in self.renderer.take_wishes() if isinstance(wish, Submit)]

    def wakes(self) -> list[Any]:
        return [wish.name for wish in self.renderer.take_wishes() if isinstance(wish, Wake)]


def test_a_newcomer_asks_the_next_one_when_nobody_welcomes_it() -> None:
    """V4: the entity with ID 0 may be gone; the second question is for ID 1."""
    newcomer = Hand("B", now=SECOND)
    assert newcomer.says() == [encoded(Increment(Entity(2, 0), 0))]
    newcomer.renderer.woken(("enter", 1))
    assert newcomer.says() == [encoded(Increment(Entity(2, 0), 1))]
    first, second = Hand("A"), Hand("C", horse_power={"B": 0})
    for founder in (first, second):
        founder.hear(Increment(Entity(2, 0), 1))
    assert (len(first.says()), len(second.says())) == (0, 1)


def test_at_most_one_change_of_a_host_is_on_its_way() -> None:
    """Protocols need not keep the order of one sender, so a host waits until its last change was delivered."""
    host = Hand("B", horse_power={"B": 3})
    assert (host.renderer.leave(), host.renderer.leave(), host.renderer.join()) == (True, False, False)
    assert host.renderer.observe(99.0) is Decision.STAY
    assert host.says() == [encoded(Decrement(3, Entity(2, 2)))]
    host.hear(Decrement(3, Entity(2, 2)))
    assert (host.renderer.join(), host.renderer.roster.n) == (True, 4)


def test_a_cancelled_task_is_not_begun() -> None:
    client, worker = Hand("A", frames=6, slices=1, side=2), Hand("B", frames=6, slices=1, side=2)
    given = client.renderer.render()
    for payload in client.says():
        worker.renderer.delivered(Message(payload=payload))
    assert worker.wakes() == [("compute", Entity(2, 0))]
    client.renderer.cancel(given)
    for payload in client.says():
        worker.renderer.delivered(Message(payload=payload))
    worker.renderer.woken(("compute", Entity(2, 0)))
    assert worker.renderer.take_wishes() == []
    assert worker.renderer.computed == []


def test_a_frame_that_waits_here_already_is_not_computed_twice() -> None:
    client, worker = Hand("A", frames=6, slices=1, side=2), Hand("B", frames=6, slices=1, side=2)
    given = client.renderer.render()
    for payload in client.says():
        worker.renderer.delivered(Message(payload=payload))
    worker.hear(Reassign(given, (0, 1, 2, 3, 4, 5), 0))
    for _ in range(2):
        worker.renderer.woken(("compute", Entity(2, 0)))
    assert worker.renderer.computed == [(given, 1), (given, 4)]
    assert not worker.renderer._queues[Entity(2, 0)]


def test_a_piece_of_a_frame_that_is_whole_is_a_duplicate() -> None:
    given = TaskId(1, 1)
    job = Job(given, 1, 0)
    for index, data in ((1, b"cd"), (0, b"ab"), (1, b"cd")):
        job.take(Result(given, 0, index, 2, data), 5)
    assert (job.images, job.duplicates, job.finished) == ({0: b"abcd"}, 1, 5)


def test_a_volume_that_is_not_what_was_announced_is_not_computed() -> None:
    client, worker = Hand("A", frames=3, slices=1, side=2), Hand("B", frames=3, slices=1, side=2)
    client.renderer.render()
    announce, fragment = client.says()
    worker.renderer.delivered(Message(payload=announce))
    worker.renderer.delivered(Message(payload=fragment[:-1] + b"\x07"))
    assert worker.renderer.take_wishes() == []


@pytest.mark.parametrize("payload", [b"", b"\xff", b"\x92\x63\xc0"])
def test_what_is_no_renderers_is_counted_and_ignored(payload: bytes) -> None:
    host = Hand()
    host.renderer.delivered(Message(payload=payload))
    assert (host.renderer.foreign, host.renderer.take_wishes()) == (1, [])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tasks": task("Z")}, "tasks: there is no node 'Z'"),
        ({"horse_power": {"A": -1}}, "horse_power: is 0 or more"),
        ({"lower": 5.0}, "lower: has to be below"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ran(lamport(), RENDER, **options)
