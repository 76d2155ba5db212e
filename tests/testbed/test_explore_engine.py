"""Exploration finds what is wrong, shrinks it to a handful of steps, says what it needs, and does so again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest
from explore_support import BROADCAST, REGISTRY, arena, parse, script

from castbed import ConfigurationError, History
from castbed.events import Received
from castbed.history import Kind, LocalEvent
from castbed_testbed.explore import exhaustive
from castbed_testbed.explore.arena import Arena, Setup
from castbed_testbed.explore.campaign import Budget, Report, explore, parse_budget
from castbed_testbed.explore.chances import Chances, Limits
from castbed_testbed.explore.collecting import Collected
from castbed_testbed.explore.configurations import Model, draw, parse_model
from castbed_testbed.explore.corpus import violated_by, what_changed
from castbed_testbed.explore.engine import Finding, Request, explore_batch
from castbed_testbed.explore.exhaustive import Exhaustive
from castbed_testbed.explore.founding import founding_of
from castbed_testbed.explore.judging import innocence_of
from castbed_testbed.explore.kinds import ingredients
from castbed_testbed.explore.menu import STRATEGIES, check_strategy
from castbed_testbed.explore.overlap import serves_several_groups
from castbed_testbed.explore.playback import play
from castbed_testbed.explore.replaying import replay
from castbed_testbed.explore.script import write
from castbed_testbed.explore.shrinking import Counterexample, Shrinker, minima, without
from castbed_testbed.explore.steps import Arrives, Duplicated, GoesAway, Lost, Receives, Submits, parse_step, words
from castbed_testbed.explore.strategies import RandomWalk
from castbed_testbed.explore.world import World

FOR_EVER = float("inf")
MISSING = "agreement/missing"


def found(protocol: str, variant: str, schedules: int, **more: object) -> Report:
    request = Request(protocol, variant, **more)  # type: ignore[arg-type]
    return explore(request, Budget(schedules=schedules), REGISTRY)


# --- what is found ---------------------------------------------------------------------------------------------------


def test_an_order_that_is_assumed_is_refuted_in_four_steps() -> None:
    report = found("hasty", "published", 600)
    finding = next(finding for finding in report.findings if finding.property == "fifo")
    assert finding.needs == ("needs overtaking on the air", "holds even on a reliable air")
    assert [type(step) for step in finding.script.steps] == [Submits, Submits, Receives, Receives]
    assert not finding.script.settles
    assert finding.kind == "wrong-order at member on Said after overtaken Said, with overtaking on the air"
    assert "fifo/wrong-order" in violated_by(finding.script, REGISTRY)


def test_where_the_order_is_given_nothing_is_found() -> None:
    report = found("hasty", "fifo", 600)
    assert (report.schedules, report.findings) == (600, ())


def test_loss_and_duplication_are_told_apart() -> None:
    kinds = {finding.property: finding for finding in found("hasty", "careless", 1000).findings}
    assert any(isinstance(step, Lost) for step in kinds["agreement"].script.steps)
    assert any(isinstance(step, Duplicated) for step in kinds["no_duplication"].script.steps)
    assert len(kinds["agreement"].script.steps) == 2
    assert not kinds["no_duplication"].script.settles or len(kinds["no_duplication"].script.steps) == 2


def test_a_machine_that_raises_breaks_the_contract() -> None:
    (finding,) = found("hasty", "clumsy", 300).findings
    assert (finding.property, finding.kind) == ("contract", "raises-KeyError at member on Said")
    assert "raises KeyError" in finding.witness
    assert violated_by(finding.script, REGISTRY) == ("contract/raises-KeyError",)


def test_a_machine_that_cannot_start_breaks_the_contract(tmp_path: Path) -> None:
    (finding,) = found("hasty", "stumbling", 100).findings
    assert (finding.property, finding.script.steps) == ("contract", ())
    assert finding.kind.startswith("raises-KeyError at member")
    assert violated_by(finding.script, REGISTRY) == ("contract/raises-KeyError",)
    played = play(finding.script, REGISTRY, "stumbling", tmp_path / "run")
    assert played.as_expected
    assert played.outcome.summary["properties"] == {"contract": {"holds": False, "violations": 1}}


@pytest.mark.parametrize("variant", ["echoing", "repeating"])
def test_machines_that_never_come_to_rest_break_the_contract(variant: str) -> None:
    """By arrivals that cause each other, or by timers; neither is the end at which something is called missing."""
    (finding,) = found(
        "hasty", variant, 20, properties=("agreement",), model=Model({"members": 2, "messages": 1})
    ).findings
    assert (finding.property, finding.kind.partition(" ")[0]) == ("contract", "never-rests")
    assert "it never comes to rest" in finding.witness
    assert len(finding.script.steps) <= 2
    assert violated_by(finding.script, REGISTRY) == ("contract/never-rests",)


def test_a_network_on_which_machines_cannot_be_is_not_smaller() -> None:
    """Paired raises where it is alone: no reason to say so of a schedule with two members."""
    report = found("hasty", "paired", 300, properties=("fifo",))
    assert {finding.property for finding in report.findings} == {"fifo"}


def test_each_kind_says_when_it_was_found_first() -> None:
    """One more schedule makes the difference between a search that has not found it and one that has."""
    request = Request("hasty", "fifo", allows=("air_overtaking",))
    (first, *_) = sorted(explore(request, Budget(schedules=400), REGISTRY).findings, key=lambda one: one.after)
    assert first.after > 0
    assert explore(request, Budget(schedules=first.after), REGISTRY).findings
    with_fewer = explore(request, Budget(schedules=max(1, first.after - 1)), REGISTRY).findings
    assert all((one.property, one.kind) != (first.property, first.kind) for one in with_fewer) or first.after == 1


def test_eomp_as_published_breaks_in_many_ways() -> None:
    """Different properties, or the same at another step of the protocol."""
    report = found("eomp", "published", 6000)
    assert len({(finding.property, finding.core) for finding in report.findings}) >= 8


def test_eomp_numbers_a_request_twice_when_its_host_moves() -> None:
    """C-1, C-2 against E2, E7, in at most four steps and on the paper's own network."""
    report = found("eomp", "published", 2000, properties=("no_duplication",))
    ours = [one for one in report.findings if one.core == "repeated at host on McastDel" and "a handoff" in one.kind]
    finding = min(ours, key=lambda one: len(one.script.steps))
    assert len(finding.script.steps) <= 4
    assert "holds even on FIFO wires" in finding.needs


def test_m2mc_as_published_breaks_in_many_ways() -> None:
    report = found("m2mc", "published", 1200)
    assert len({(finding.property, finding.kind) for finding in report.findings}) == len(report.findings) >= 8
    assert max(len(finding.script.steps) for finding in report.findings) <= 14


def test_relm_loses_a_message_between_two_supervisors() -> None:
    finding = found("relm", "published", 4000, properties=("exactly_once",)).findings[0]
    assert len(finding.script.steps) <= 5
    assert "needs a handoff" in finding.needs


@pytest.mark.parametrize(("protocol", "variant"), [("sb", "published"), ("sb", "repaired"), ("m2mc", "repaired")])
def test_what_is_sound_survives(protocol: str, variant: str) -> None:
    assert found(protocol, variant, 600).findings == ()


def test_every_finding_is_what_its_script_expects() -> None:
    for finding in found("m2mc", "published", 400).findings:
        assert parse(write(finding.script)) == finding.script
        assert set(violated_by(finding.script, REGISTRY)) == set(finding.script.expects)


def test_a_property_that_is_not_promised_is_in_the_script_that_breaks_it(tmp_path: Path) -> None:
    """Hasty promises fifo, not semantic order: the script says both, if it breaks both, and plays as it says."""
    findings = found("hasty", "published", 400, properties=("semantic",)).findings
    assert {finding.property for finding in findings} == {"semantic"}
    for finding in findings:
        path = tmp_path / "found.steps"
        path.write_text(write(finding.script), encoding="utf-8")
        assert any(expected.startswith("semantic/") for expected in finding.script.expects)
        assert what_changed(path, REGISTRY) == ""


# --- the same again --------------------------------------------------------------------------------------------------


def test_one_seed_gives_one_report() -> None:
    one, same, other = (found("hasty", "published", 400, seed=seed) for seed in (1, 1, 2))
    assert one.findings == same.findings
    assert one.findings != other.findings


def test_processes_of_their_own_find_the_same() -> None:
    request = Request("eomp", "published", ("no_duplication",))
    alone = explore(request, Budget(schedules=600))
    together = explore(request, Budget(schedules=600), jobs=2)
    assert alone.findings == together.findings != ()
    assert alone.schedules == together.schedules == 600


def test_a_budget_in_seconds_ends_in_time() -> None:
    report = explore(Request("sb", "published"), Budget(seconds=0.5), REGISTRY)
    assert report.schedules > 0
    assert report.wall_s < 5


def test_the_first_finding_can_be_enough() -> None:
    report = explore(Request("hasty", "published"), Budget(schedules=100_000), REGISTRY, stop_at_first=True)
    assert report.findings
    assert report.schedules < 2000


# --- strategies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_finds_a_plain_mistake(name: str) -> None:
    report = found("hasty", "published", 400, strategy=name, properties=("fifo", "semantic"))
    assert {finding.property for finding in report.findings} & {"fifo", "semantic"}


def ends(where: Arena, senders: list[int], reduced: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[int, set[object]]:
    """How many schedules an exhaustive search takes, and what each node did in those that came to an end."""
    with monkeypatch.context() as patch:
        if not reduced:
            patch.setattr(exhaustive, "_commute", lambda one, other: False)
        strategy = Exhaustive(where, Random(1))
        strategy.senders = senders
        count, seen = 0, set()
        while not strategy.exhausted:
            world = World(where)
            strategy.schedule(Chances(world, Random(1), Limits()))
            count += 1
            if not world.flying and len(world.accepted) == len(senders):
                seen.add(
                    tuple(tuple((e.kind, e.mid, e.parent) for e in lane) for lane in world.history().by_node.values())
                )
    return count, seen


@pytest.mark.parametrize("senders", [[1], [1, 2], [1, 1]])
def test_the_reduction_leaves_out_nothing_that_a_node_could_notice(
    senders: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = arena("sb", "published", {"kind": "broadcast", "members": ["A", "B"]})
    few, reduced = ends(where, senders, True, monkeypatch)
    many, full = ends(where, senders, False, monkeypatch)
    assert reduced == full != set()
    assert few <= many
    assert few < many or senders == [1]


@pytest.mark.parametrize("senders", [[1], [1, 2], [2, 2]])
def test_the_reduction_leaves_out_nothing_where_hosts_move(senders: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who moves between two calls hears another one of them, wherever the calls are."""
    topology = {"kind": "cellular", "stations": ["S1", "S2"], "hosts": {"h1": "S1"}}
    where = arena("calling", "published", topology)
    few, reduced = ends(where, senders, True, monkeypatch)
    many, full = ends(where, senders, False, monkeypatch)
    assert reduced == full
    assert len(full) > 1
    assert few <= many


def test_a_timer_and_a_move_keep_their_place_among_all_steps() -> None:
    """A timer moves the clock that all share, a move changes who hears."""
    receive, other = (1, "", ("receive", 4)), (2, "", ("receive", 5))
    assert exhaustive._commute(receive, other)
    assert not exhaustive._commute(receive, (2, "fire", ("fire", 2, "T")))
    assert not exhaustive._commute((2, "move", ("move", 2, 3)), receive)


def test_an_exhaustive_batch_ends_with_the_last_schedule_of_its_network() -> None:
    request = Request("sb", "published", strategy="exhaustive")
    batch = explore_batch(REGISTRY, request, 0, 20_000)
    assert batch.exhausted
    assert 100 < batch.schedules < 20_000
    assert not explore_batch(REGISTRY, request, 0, 100).exhausted
    report = explore(request, Budget(schedules=600), REGISTRY)
    assert report.networks > report.exhausted > 0 or report.networks == report.exhausted > 1
    assert report.schedules >= 600


def test_an_exhaustive_search_is_the_same_with_processes_of_its_own() -> None:
    request = Request("sb", "published", strategy="exhaustive", allows=("air_loss",))
    alone, together = explore(request, Budget(schedules=600)), explore(request, Budget(schedules=600), jobs=2)
    assert alone.findings == together.findings != ()
    assert (alone.schedules, alone.networks) == (together.schedules, together.networks)


def test_an_exhaustive_search_goes_on_after_a_machine_that_stumbles() -> None:
    batch = explore_batch(REGISTRY, Request("hasty", "clumsy", strategy="exhaustive"), 0, 20_000)
    assert batch.found
    assert batch.exhausted


# --- shrinking -------------------------------------------------------------------------------------------------------

LONG = """
    A submits a to 1
    everything arrives
    C submits b to 1
    B receives Said b from C
    A submits c to 1
    A submits d to 1 answering b
    C receives Said c from A
    B receives Said d from A
    A receives Said b from C
"""


def shrunk(steps: str, wanted: str, variant: str = "published") -> Counterexample:
    read = parse(script(steps, variant=variant))
    small = Shrinker(Counterexample(arena("hasty", variant), read.steps, True, wanted), REGISTRY, FOR_EVER).shrink()
    assert small is not None
    return small


def test_what_is_not_needed_goes() -> None:
    small = shrunk(LONG, "fifo/wrong-order")
    assert [words(step) for step in small.steps] == ["A submits c to 1", "A submits d to 1", "B receives Said d from A"]
    assert small.arena.topology.number("B") == 2
    assert len(small.arena.topology.nodes) == 2


def test_steps_that_show_nothing_are_not_shrunk() -> None:
    read = parse(script("A submits a to 1"))
    found_nothing = Counterexample(arena("hasty", "published"), read.steps, True, "fifo/wrong-order")
    assert Shrinker(found_nothing, REGISTRY, FOR_EVER).shrink() is None


def test_what_is_missing_is_believed_only_at_rest() -> None:
    small = shrunk("A submits a to 1\nSaid a from A to B is lost", "agreement/missing", "careless")
    assert small.settles


def test_a_schedule_that_breaks_a_property_for_two_reasons_shows_both() -> None:
    """B lacks `a` because it was lost; had it not been, B would lack `b` because it was away."""
    steps = "A submits a to 1\nSaid a from A to B is lost\nB goes out of range\nA submits b to 1\nB comes back"
    whole = Counterexample(arena("hasty", "roaming"), parse(script(steps, variant="roaming")).steps, True, MISSING)
    found = [[type(step) for step in small.steps] for small, finished in minima(whole, REGISTRY, FOR_EVER) if finished]
    assert [Submits, Lost] in found
    assert [Submits, GoesAway] in found


def test_kinds_say_what_the_steps_consist_of() -> None:
    """The channel that is slow is named by what is on it."""
    joins = "h1 leaves 1\neverything arrives but from C1 to C2\nh1 joins 1\neverything arrives\nh1 leaves 1"
    where = arena("eomp", "published")
    played = replay(where, [parse_step(line) for line in joins.splitlines()])
    assert {str(one) for one in ingredients(played)} == {"late Delete", "join", "leave"}


def finding(consists: set[str], about: set[str], finished: bool = True) -> Finding:
    base = found("hasty", "published", 600, properties=("fifo",)).findings[0]
    kind = " ".join(sorted(consists | about))
    return msgspec.structs.replace(
        base, kind=kind, consists=frozenset(consists), about=frozenset(about), finished=finished
    )


def test_other_packets_and_freedoms_make_another_kind_more_of_the_same_does_not() -> None:
    small, more = finding({"late Said"}, {"Said"}), finding({"late Said", "overtaken Said"}, {"Said"})
    other, away = finding({"late Said", "late Ack"}, {"Said", "Ack"}), finding({"late Said"}, {"Said", "absence"})
    collected = Collected()
    collected.add((more, small, other, away))
    kept = collected.sorted()
    assert all(one in kept for one in (small, other, away))
    assert more not in kept


def test_what_was_not_shrunk_to_the_end_counts_only_alone() -> None:
    collected = Collected()
    collected.add((finding({"late Ack"}, {"Ack"}, finished=False),))
    assert len(collected.sorted()) == 1
    collected.add((finding({"late Said"}, {"Said"}),))
    assert [one.consists for one in collected.sorted()] == [{"late Said"}]


def test_a_node_is_taken_out_of_all_that_names_it() -> None:
    setup = arena("eomp", "published").setup
    smaller = without(setup, "S3")
    assert smaller is not None
    assert smaller.topology["coordinators"] == {"C1": ["S1", "S2"], "C2": []}
    assert smaller.topology["hosts"] == {"h1": "S1", "h2": "S2", "h3": "S1"}
    assert without(setup, "nobody") is None


def test_nothing_held_back_is_the_simplest() -> None:
    small = shrunk("A submits a to 1\nA submits b to 1\nC receives Said b from A\neverything arrives but from A to B",
                   "fifo/wrong-order")  # fmt: skip
    assert all(step == Arrives() for step in small.steps if isinstance(step, Arrives))


# --- judging quickly -------------------------------------------------------------------------------------------------


def mangled(events: list[LocalEvent], random: Random) -> list[LocalEvent]:
    """The history with one event gone, twice or elsewhere."""
    changed = list(events)
    at = random.randrange(len(changed))
    how = random.randrange(3)
    if how == 0:
        del changed[at]
    elif how == 1:
        changed.insert(random.randrange(at, len(changed) + 1), changed[at])
    else:
        moved = changed.pop(at)
        changed.insert(random.randrange(len(changed) + 1), moved)
    times = sorted(event.at for event in changed)
    return [msgspec.structs.replace(event, at=at) for event, at in zip(changed, times, strict=True)]


TWO_GROUPS = {**BROADCAST, "groups": {"1": ["A", "B", "C"], "2": ["B", "C"]}}


@pytest.mark.parametrize("shape", [BROADCAST, TWO_GROUPS])
@pytest.mark.parametrize("protocol", [("sb", "published"), ("sb", "repaired"), ("hasty", "published")])
def test_the_quick_look_never_acquits_what_a_check_convicts(
    protocol: tuple[str, str], shape: dict[str, object]
) -> None:
    if protocol[0] == "hasty" and shape is TWO_GROUPS:
        pytest.skip("hasty delivers what is for others: nothing of it is innocent")
    where = arena(*protocol, shape)
    assert where.judged_quickly
    innocence = innocence_of(where)
    random, acquitted, convicted = Random(5), 0, 0
    for seed in range(150):
        world = World(where)
        RandomWalk(where, random).schedule(Chances(world, Random(seed), Limits(messages=3, steps=30)))
        world.arrive()
        for events in (world.events, mangled(world.events, random), mangled(world.events, random)):
            history = History(where.identity, events)
            guilty = any(check(history) for check in where.checks.values())
            innocent = innocence.acquits(events)
            assert not (guilty and innocent)
            acquitted += innocent
            convicted += guilty
    assert acquitted > 20
    assert convicted > 100


def test_the_quick_look_is_not_for_properties_that_it_does_not_know() -> None:
    assert not arena("eomp", "repaired").judged_quickly
    two = {"kind": "broadcast", "members": ["A", "B"], "groups": {"1": ["A", "B"], "2": ["A", "B"]}}
    for total in (True, False):
        where = Arena(Setup("sb", "published", two), REGISTRY, ("semantic", *["total"] * total))
        assert innocence_of(where).plain is not total
    assert not Arena(arena("sb", "published").setup, REGISTRY, ("causal",)).judged_quickly


# --- what is asked for -----------------------------------------------------------------------------------------------


def test_budgets_are_schedules_or_times() -> None:
    assert parse_budget("200") == Budget(schedules=200)
    assert parse_budget("1.5s") == Budget(seconds=1.5)
    for wrong in ("", "0", "-3", "soon", "0s"):
        with pytest.raises(ConfigurationError, match="--budget"):
            parse_budget(wrong)


def test_models_are_sizes_or_files() -> None:
    hasty = REGISTRY.protocols.get("hasty", "")
    model = parse_model("members=3,messages=5", hasty, "published")
    assert model == Model({"members": 3, "messages": 5})
    setup, limits = draw(hasty, "published", model, Random(1))
    assert (setup.topology["members"], limits.messages) == (["A", "B", "C"], 5)
    for wrong in ("members", "members=0", "members=99", "hosts=2", "members=x", "groups=0", "groups=9"):
        with pytest.raises(ConfigurationError, match="--model"):
            parse_model(wrong, hasty, "published")
    for steps in (0, 1, 4):
        with pytest.raises(ConfigurationError, match="--model: steps has to be at least 5"):
            parse_model(f"steps={steps}", hasty, "published")


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_least_that_a_model_may_say_is_explored(name: str) -> None:
    model = parse_model(
        "members=1,messages=0,steps=5,fires=0,disturbances=0,losses=0", REGISTRY.protocols.get("sb", ""), None
    )
    assert found("sb", "repaired", 20, strategy=name, model=model).findings == ()


# --- groups ----------------------------------------------------------------------------------------------------------


def test_some_networks_have_a_second_group_where_the_protocol_serves_it() -> None:
    eomp = REGISTRY.protocols.get("eomp", "")
    drawn = [draw(eomp, "published", Model(), Random(seed), lambda: True)[0].topology for seed in range(300)]
    several = [topology["groups"] for topology in drawn if len(topology.get("groups", {})) > 1]
    assert 50 < len(several) < 120
    assert any({*groups["1"]} & {*groups["2"]} and groups["1"] != groups["2"] for groups in several)
    setup, _ = draw(eomp, "published", Model({"groups": 3}), Random(1))
    assert list(setup.topology["groups"]) == ["1", "2", "3"]


def test_whether_several_groups_are_served_is_tried() -> None:
    assert all(serves_several_groups(REGISTRY, name, "published") for name in ("sb", "eomp", "relm"))
    assert not serves_several_groups(REGISTRY, "hasty", "published")  # members of no group deliver, too


def test_two_groups_in_two_orders_are_found() -> None:
    """EOMP numbers messages per group, and the property is about all groups."""
    report = found("eomp", "published", 1000, properties=("total",))
    assert any(len(finding.script.setup.topology["groups"]) == 2 for finding in report.findings)


def test_users_make_a_second_group_now_and_then() -> None:
    where = arena("m2mc", "published", {**BROADCAST, "groups": {}})
    assert founding_of(where).making
    groups = set()
    for seed in range(60):
        world = World(where)
        RandomWalk(where, Random(seed)).schedule(Chances(world, Random(seed), Limits(disturbances=6)))
        groups.add(len(set().union(*world.groups)))
    assert max(groups) > 1


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="there is no 'luck'"):
        check_strategy("luck")


def test_a_history_of_exploration_is_one_that_captures_hold() -> None:
    """Kinds and fields as the simulator leaves them: the same checks read both."""
    world = World(arena("sb", "published"))
    world.submit(1, "a", 1)
    world.arrive()
    assert [event.kind for event in world.events[:3]] == [Kind.START, Kind.JOIN, Kind.VIEW]
    assert all(isinstance(copy.event, Received) for copy in world.flying)
