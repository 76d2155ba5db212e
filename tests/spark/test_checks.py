"""Verdicts by Spark against the in-memory checks: on random histories, on stories, and on every example."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

from spark_histories import PLACE, random_history, tables

from castbed import load_registry
from castbed.capture import read_history
from castbed.declarations import Check
from castbed.errors import CastbedError
from castbed.history import History, Kind
from castbed.properties import CHECKS, VIOLATIONS_MAX, Violation
from castbed.properties.ordering import EXPLAINED_MAX
from castbed_spark.checks import CHECKED, islands, judge, whole
from castbed_spark.checks.islands import SHARED_ORDERS, ranked
from castbed_spark.checks.judging import identities_of
from castbed_spark.checks.lanes import EVENT_COLUMNS, controls, is_kind, laned
from castbed_spark.checks.parts import BY_MESSAGE, SEARCHES, by_message
from castbed_spark.checks.settling import settled
from castbed_testbed.experiment import load_file
from castbed_testbed.runner import run_experiment
from castbed_testbed.sweep_run import installed
from framework.histories import told

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))
NAMES = tuple(check.name for check in CHECKS)
HISTORIES = 200


def all_of(name: str, history: History) -> list[Violation]:
    """Every violation, however many there are."""
    return list(SEARCHES[name].__wrapped__(history))  # type: ignore[attr-defined]


def plain(violation: tuple[str, str], reasons: bool) -> tuple[str, str]:
    """Kind and words without the chain of messages, of which there may be several, or without any reason."""
    kind, words = violation
    return kind, re.sub(r", through [^.]*" if reasons else r", although .*", "", words)


def compare(row: dict[str, Any], history: History) -> None:
    """Beyond EXPLAINED_MAX the in-memory check gives no reasons; `acyclic_total` may begin anywhere in a circle."""
    found = all_of(row["property"], history)
    assert (row["holds"], row["violations"]) == (not found, min(len(found), VIOLATIONS_MAX)), row
    reasons = len(found) <= EXPLAINED_MAX
    said = {plain((violation.kind, violation.words), reasons) for violation in found}
    if found and row["property"] != "acyclic_total":
        assert plain((row["kind"], row["witness"]), reasons) in said


def test_every_property_has_a_form_for_spark() -> None:
    assert sorted(CHECKED) == sorted(NAMES)


def test_verdicts_equal_those_in_memory_on_random_histories(spark: Any) -> None:
    histories = {f"h{seed}": random_history(seed, broken=seed % 2 == 1) for seed in range(HISTORIES)}
    rows = [row.asDict(recursive=True) for row in judge(spark, tables(spark, histories.values()), NAMES).collect()]
    assert len(rows) == HISTORIES * len(NAMES)
    for row in rows:
        compare(row, histories[row["run"]])
    violated = Counter(row["property"] for row in rows if not row["holds"])
    assert all(violated[name] for name in NAMES), violated
    assert all(violated[name] < HISTORIES for name in NAMES), violated


def test_verdicts_equal_those_in_memory_on_every_example(spark: Any, tmp_path: Path) -> None:
    """Read from the captures that the runs leave, and judged by all properties, guaranteed or not."""
    for example in EXAMPLES:
        run_experiment(load_file(example), installed(), tmp_path / example.stem)
    rows = [row.asDict(recursive=True) for row in judge(spark, str(tmp_path), NAMES).collect()]
    assert len(rows) == len(EXAMPLES) * len(NAMES)
    for row in rows:
        compare(row, read_history(tmp_path / row["run"]))


def named(story: str, run: str, everybody: str = "ABC") -> History:
    history = told(story, everybody)
    by_time = sorted(history.events, key=lambda event: (event.at, event.node))
    return History(msgspec.structs.replace(history.identity, run=run), by_time)


def verdicts(spark: Any, histories: list[History], names: Any, **more: Any) -> dict[tuple[str, str], dict[str, Any]]:
    rows = judge(spark, tables(spark, histories), names, **more).collect()
    return {(row["run"], row["property"]): row.asDict(recursive=True) for row in rows}


def test_causal_order_is_found_through_nodes_that_only_pass_it_on(spark: Any) -> None:
    """C gets B1 without A1, which D never gets: it takes three passes to know."""
    groups = "A joins 2; B joins 2; B joins 3; D joins 3; D joins 4; C joins 4; C joins 2\n"
    story = "A submits A1 in 2; B delivers A1 in 2\nB submits B1 in 3\nD delivers B1 in 3\nD submits D1 in 4\n"
    through = named(groups + story + "C delivers D1 in 4", "through", "")
    circle = named("B delivers A2\nB submits B1\nA delivers B1\nA submits A2\nC delivers B1; C delivers A2", "circle")
    found = verdicts(spark, [through, circle], ["causal"])
    for history in (through, circle):
        compare(found[history.identity.run, "causal"], history)
    assert found["through", "causal"]["witness"] == "C delivered D1 without A1, although A1 happened before D1."
    assert [found[run, "causal"]["judged"] for run in ("through", "circle")] == ["spark", "memory"]


def test_messages_of_one_name_are_told_apart_by_their_groups(spark: Any) -> None:
    story = "A joins 2; B joins 2\nA submits A1; A submits A1 in 2\nA submits A2\nB delivers A2\nB delivers A1"
    history = named(story, "namesakes")
    row = verdicts(spark, [history], ["fifo"])["namesakes", "fifo"]
    assert row["witness"] == "B delivered A2 before A1 of group 1, although A submitted A1 of group 1 first."
    assert [(event["node"], event["place"] // PLACE) for event in row["events"]] == [(1, 4), (1, 6), (2, 4), (2, 5)]


def test_a_property_of_another_plugin_is_judged_in_memory_and_says_so(spark: Any) -> None:
    def noisy(history: History) -> list[Violation]:
        return [Violation("quiet", f"{history.name(event.node)} spoke.", (event,)) for event in history.of(Kind.SUBMIT)]

    registry = load_registry()
    registry.checks.add(Check("quiet", "Nobody submits anything", noisy))
    histories = [named("A submits A1", "loud"), named("A crashes", "silent")]
    found = verdicts(spark, histories, ["quiet", "no_duplication"], registry=registry)
    assert [found[run, "quiet"]["holds"] for run in ("loud", "silent")] == [False, True]
    assert (found["loud", "quiet"]["witness"], found["loud", "quiet"]["judged"]) == ("A spoke.", "memory")
    assert found["silent", "quiet"]["judged"] == "memory"
    assert found["loud", "no_duplication"]["judged"] == "spark"


def test_without_names_each_run_is_judged_by_what_it_guarantees(spark: Any) -> None:
    plain_run = named("A submits A1", "plain")
    fifo_run = named("A submits A1", "ordered")
    fifo_run.identity = msgspec.structs.replace(fifo_run.identity, guarantees=("fifo", "total"))
    assert sorted(verdicts(spark, [plain_run, fifo_run], ())) == [("ordered", "fifo"), ("ordered", "total")]


def test_of_many_moves_only_the_last_goes_into_every_part(spark: Any) -> None:
    moves = "\n".join(["B detaches", "B attaches"] * 20)
    away = named(f"A submits A1; A delivers A1\n{moves}\nB detaches\nC delivers A1", "away")
    back = named(f"A submits A1; A delivers A1\n{moves}\nC delivers A1", "back")
    source = tables(spark, [away, back])
    lanes = laned(source["events"].select(*EVENT_COLUMNS))
    assert controls(lanes).filter(is_kind(Kind.ATTACH, Kind.DETACH)).count() == 2
    found = verdicts(spark, [away, back], ["agreement"])
    assert [found[run, "agreement"]["holds"] for run in ("away", "back")] == [True, False]


def test_a_message_that_comes_last_at_one_node_is_judged_with_few_others(spark: Any) -> None:
    """It is out of order with all of them, which a task need not hold."""
    count = 500
    lines = ["; ".join(f"{who} delivers A{number}" for who in "AB") for number in range(1, count + 1)]
    late = [f"C delivers A{number}" for number in [*range(2, count + 1), 1]]
    submitted = [f"A submits A{number}" for number in range(1, count + 1)]
    history = named("\n".join(submitted + lines + late), "late")
    source = tables(spark, [history])
    lanes = laned(source["events"].select(*EVENT_COLUMNS))
    deliveries = settled(ranked(lanes))
    everything = islands._inhabited(deliveries, islands._islands(deliveries))
    assert everything.count() == 3 * count
    assert 0 < islands.tangled(everything).count() <= 3 * 4
    found = verdicts(spark, [history], SHARED_ORDERS)
    for name in SHARED_ORDERS:
        assert not found["late", name]["holds"]
        compare(found["late", name], history)


def test_what_no_task_can_hold_is_said_to_be_undecided(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    crossed = named("A submits A1; B submits B1\nA delivers A1; A delivers B1\nB delivers B1; B delivers A1", "crossed")
    circle = named("B delivers A2\nB submits B1\nA delivers B1\nA submits A2\nC delivers B1; C delivers A2", "circle")
    monkeypatch.setattr(islands, "ISLAND_DELIVERIES_MAX", 3)
    monkeypatch.setattr(whole, "EVENTS_MAX", 5)
    with pytest.raises(CastbedError, match=r"crossed: 4 deliveries .* undecided"):
        verdicts(spark, [crossed], ["total"])
    with pytest.raises(CastbedError, match=r"circle: causal can only .* undecided"):
        verdicts(spark, [circle], ["causal"])


def test_small_parts_say_the_same_as_a_large_one(spark: Any) -> None:
    histories = {f"h{seed}": random_history(seed, broken=True) for seed in range(1, 21, 2)}
    source = tables(spark, histories.values())
    lanes = laned(source["events"].select(*EVENT_COLUMNS))
    found = by_message(lanes, identities_of(source["nodes"]), BY_MESSAGE, size=10)
    counts = Counter[tuple[str, str]]()
    for row in found.collect():
        counts[row["run"], row["property"]] += row["violations"]
    for run, name in counts:
        assert counts[run, name] == len(all_of(name, histories[run])), (run, name)
    assert len(counts) == len(histories) * len(BY_MESSAGE)
