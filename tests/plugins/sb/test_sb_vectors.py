"""The worked examples of the specification (SB-V1 to V9), for both ways to keep what is delivered and held."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
from sb_notation import lists, message, messages, mid, show

from castbed import IntervalSet
from castbed.testing import Bench
from castbed_plugins.sb import PROTOCOL, Data, LiteralOrdering, Options, Ordering
from castbed_plugins.sb.literal import LinkedIntervals
from castbed_plugins.sb.ordering import Numbers, OrderingSteps

STORES = pytest.mark.parametrize("make", [Ordering, LiteralOrdering])
NUMBERS = pytest.mark.parametrize("numbers", [IntervalSet, LinkedIntervals])
Make = Callable[[], OrderingSteps]


def deliveries(make: Make, arrivals: str) -> tuple[OrderingSteps, list[str]]:
    ordering = make()
    return ordering, [show(ordering.receive(one)) for one in messages(arrivals)]


@STORES
def test_v1_the_illustration_of_the_paper_seen_at_a(make: Make) -> None:
    ordering = make()
    steps = [("B1(R)", "B1", "B:[1-1]", ""), ("B3(B2)", "", "B:[1-1]", "B3"), ("B4(B3)", "", "B:[1-1]", "B3 B4")]
    steps += [("B2(B1)", "B2 B3 B4", "B:[1-4]", ""), ("A1(B2)", "A1", "A:[1-1] B:[1-4]", "")]
    for arrival, delivered, list_after, held_after in steps:
        assert show(ordering.receive(message(arrival))) == delivered
        assert lists(ordering) == list_after
        assert show(ordering.held()) == held_after


@pytest.mark.parametrize("store", ["indexed", "literal"])
def test_v1_through_the_machine_with_the_own_copy_coming_back(store: str) -> None:
    bench = Bench(PROTOCOL, ("A", "B"), variant="published", options=Options(store=store, answer_undelivered=True))
    for parent in (None, "B1", "B2", "B3"):
        bench.submit("B", parent=parent)
    to_a = {bench.text(copy.packet.mid): copy for copy in bench.copies(Data, to="A")}
    for arrival in ("B1", "B3", "B4", "B2"):
        bench.arrive(to_a[arrival])
    assert bench.delivered("A") == ["B1", "B2", "B3", "B4"]
    assert bench.submit("A", parent="B2") == bench.mid("A1")
    assert bench.delivered("A") == ["B1", "B2", "B3", "B4"]
    bench.settle()
    assert bench.delivered("A") == ["B1", "B2", "B3", "B4", "A1"]


TWO_QUESTIONS = {"C1": "C1(R)", "C2": "C2(R)", "A1": "A1(C1)", "B1": "B1(C2)"}


@STORES
@pytest.mark.parametrize(
    ("arrivals", "expected", "held_max"),
    [
        ("C1 C2 A1 B1", "C1 C2 A1 B1", 0),
        ("C1 A1 B1 C2", "C1 A1 C2 B1", 1),
        ("A1 C2 B1 C1", "C2 B1 C1 A1", 1),
        ("A1 B1 C1 C2", "C1 A1 C2 B1", 2),
        ("A1 B1 C2 C1", "C2 B1 C1 A1", 2),
        ("B1 C1 A1 C2", "C1 A1 C2 B1", 1),
        ("C2 A1 C1 B1", "C2 C1 A1 B1", 1),
    ],
)
def test_v2_the_two_questions(make: Make, arrivals: str, expected: str, held_max: int) -> None:
    ordering, steps = deliveries(make, " ".join(TWO_QUESTIONS[name] for name in arrivals.split()))
    assert " ".join(step for step in steps if step) == expected
    assert ordering.held_max == held_max


@STORES
def test_v2_all_24_arrivals_give_exactly_the_6_orders_in_which_questions_come_first(make: Make) -> None:
    seen = set()
    for arrivals in permutations(TWO_QUESTIONS.values()):
        ordering, steps = deliveries(make, " ".join(arrivals))
        seen.add(" ".join(step for step in steps if step))
        assert lists(ordering) == "A:[1-1] B:[1-1] C:[1-2]"
        assert ordering.held() == []
    legal = {
        " ".join(order)
        for order in permutations(TWO_QUESTIONS)
        if order.index("C1") < order.index("A1") and order.index("C2") < order.index("B1")
    }
    assert seen == legal
    assert len(seen) == 6


@STORES
def test_v3_only_a_reply_waits(make: Make) -> None:
    ordering, steps = deliveries(make, "Q1(P1) P1(R) Q2(R) P2(R) Q3(R) P3(R)")
    assert steps == ["", "P1 Q1", "Q2", "P2", "Q3", "P3"]
    assert lists(ordering) == "P:[1-3] Q:[1-3]"


@STORES
def test_v4_release_is_depth_first_in_the_order_of_the_table(make: Make) -> None:
    ordering, steps = deliveries(make, "C1(A1) D1(B1) E1(A1) F1(C1) B1(A1) G1(F1) H1(C1) A1(R)")
    assert steps == [""] * 7 + ["A1 C1 F1 G1 H1 E1 B1 D1"]
    if isinstance(ordering, LiteralOrdering):
        assert ordering.row_visits == 84


def insert_all(numbers: Numbers, expected: str) -> None:
    for step in expected.split(";"):
        number, _, after = step.strip().partition(" -> ")
        assert numbers.add(int(number)) is True
        assert " ".join(f"[{low}-{high}]" for low, high in numbers.intervals()) == after


@NUMBERS
def test_v5_inserting_into_intervals_every_case(numbers: Callable[[], Numbers]) -> None:
    insert_all(
        numbers(),
        "5 -> [5-5]; 1 -> [1-1] [5-5]; 3 -> [1-1] [3-3] [5-5]; 2 -> [1-3] [5-5]; 7 -> [1-3] [5-5] [7-7];"
        "6 -> [1-3] [5-7]; 9 -> [1-3] [5-7] [9-9]; 4 -> [1-7] [9-9]; 8 -> [1-9]",
    )
    insert_all(
        numbers(),
        "4 -> [4-4]; 2 -> [2-2] [4-4]; 9 -> [2-2] [4-4] [9-9]; 8 -> [2-2] [4-4] [8-9];"
        "6 -> [2-2] [4-4] [6-6] [8-9]; 7 -> [2-2] [4-4] [6-9]; 3 -> [2-4] [6-9]; 5 -> [2-9]; 1 -> [1-9]",
    )
    insert_all(numbers(), "1 -> [1-1]; 2 -> [1-2]; 3 -> [1-3]; 4 -> [1-4]")


@NUMBERS
def test_v6_membership(numbers: Callable[[], Numbers]) -> None:
    found = numbers()
    for number in (1, 2, 3, 5, 6, 9):
        found.add(number)
    assert [number for number in range(11) if number in found] == [1, 2, 3, 5, 6, 9]


@STORES
def test_v6_the_root_counts_as_delivered_and_an_unknown_writer_does_not(make: Make) -> None:
    ordering = make()
    assert ordering.is_delivered(None)
    assert not ordering.is_delivered(mid("A1"))


@STORES
def test_v7_gaps_do_not_block(make: Make) -> None:
    ordering, steps = deliveries(make, "P5(R) P2(R)")
    assert steps == ["P5", "P2"]
    assert lists(ordering) == "P:[2-2][5-5]"


@NUMBERS
def test_v8_space_grows_with_gaps_and_heals(numbers: Callable[[], Numbers]) -> None:
    found = numbers()
    counts = []
    for number in (1, 3, 5, 7, 9, 2, 4, 6, 8, 10):
        found.add(number)
        counts.append(len(found.intervals()))
    assert counts == [1, 2, 3, 4, 5, 4, 3, 2, 1, 1]
    assert found.intervals() == ((1, 10),)


@STORES
def test_v9_mixed_authors_in_one_thread(make: Make) -> None:
    ordering, steps = deliveries(make, "B2(C1) A2(B1) C1(B1) A1(R) B1(A1)")
    assert steps == ["", "", "", "A1", "B1 A2 C1 B2"]
    assert lists(ordering) == "A:[1-2] B:[1-2] C:[1-1]"
    assert ordering.held() == []


@pytest.mark.parametrize("rows", [1, 7, 10, 50, 100, 200])
def test_releasing_q_rows_costs_the_literal_table_3q_q_plus_1_halves_visits(rows: int) -> None:
    """Section 6: whatever the shape; here a chain and a star."""
    chain = [f"A{n}(A{n - 1})" for n in range(2, rows + 2)]
    star = [f"A{n}(A1)" for n in range(2, rows + 2)]
    for shape in (chain, chain[::-1], star):
        ordering, _ = deliveries(LiteralOrdering, " ".join([*shape, "A1(R)"]))
        assert isinstance(ordering, LiteralOrdering)
        assert ordering.row_visits == 3 * rows * (rows + 1) // 2


@STORES
def test_missing_parents_are_those_that_are_not_held_themselves(make: Make) -> None:
    """SB-R2: a held message names exactly what it waits for."""
    ordering, _ = deliveries(make, "B2(B1) B3(B2) C1(A1) C2(A1)")
    assert ordering.missing_parents() == [mid("B1"), mid("A1")]
