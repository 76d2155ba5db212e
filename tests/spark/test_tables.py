"""The tables, on told stories and on a simulated run, against what the framework says of the same captures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pip install 'castbed[spark]'")

import spark_captures as c

from castbed.capture import capture_header, read_captures, read_history
from castbed.history import History, Kind, LocalEvent
from castbed.pcapng import ENHANCED_PACKET
from castbed.properties import check
from castbed.registry import load_registry
from castbed_spark import store, tables
from castbed_spark.clocks import align, clocks
from castbed_spark.source import read_events, read_frames, read_nodes
from castbed_spark.tables.columns import DERIVED
from castbed_testbed.experiment import load
from castbed_testbed.runner import run_experiment
from framework import histories

STEP = histories.STEP
_TWO = "A submits A1; A delivers A1\nA submits A2; A delivers A2\nB holds A2 for A1\nB delivers A1"
_ANSWER = "A submits A1; A delivers A1\nB delivers A1\nB submits B1 after A1\nC holds B1 after A1 for A1\nC delivers A1"
_QUESTION = "A submits A1; A delivers A1\nC delivers A1\nC submits C1\nB holds C1 for A1\nB delivers A1"
_UNRELATED = "A submits A1; A delivers A1\nC submits C1; C delivers C1\nB delivers A1\nB holds C1 for A1"
STORIES = {
    "prompt": (f"{_TWO}; B delivers A2", "causal"),
    "late": (f"{_TWO}\nB joins 2\nB delivers A2", "causal"),
    "needless": (f"{_UNRELATED}\nB joins 2\nB delivers C1", "causal"),
    "through-another": (f"{_QUESTION}; B delivers C1", "causal"),
    "semantic-late": (f"{_ANSWER}\nC joins 2\nC delivers B1 after A1", "semantic"),
    "semantic-prompt": (f"{_ANSWER}; C delivers B1 after A1", "semantic"),
    "semantic-unrelated": (f"{_TWO}; B delivers A2", "semantic"),
    "groups": (
        "A joins 2; B joins 2; B joins 3; D joins 3; D joins 4; C joins 4; C joins 2\nA submits A1 in 2\n"
        "B delivers A1 in 2\nB submits B1 in 3\nD delivers B1 in 3\nD submits D1 in 4\nC holds D1 in 4 for A1\n"
        "C delivers A1 in 2; C delivers D1 in 4",
        "causal",
    ),
    "crash": ("A submits A1; A delivers A1\nB holds A1 for A2\nB crashes\nB restarts\nB delivers A1", "causal"),
    "twice": ("A submits A1; A delivers A1\nB delivers A1\nB delivers A1", "causal"),
}


def story(name: str) -> History:
    text, guarantee = STORIES[name]
    return histories.told(text, guarantees=(guarantee,))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All stories, a story of moves, and a simulated run with losses."""
    root = tmp_path_factory.mktemp("runs")
    for name in STORIES:
        acknowledged = {2: [(9 * STEP, c.taken(c.Mid(1, 1), 9 * STEP, 2, 1))]} if name == "twice" else None
        c.write_run(root / name, story(name), acknowledged)
    moving = [
        LocalEvent(1, 0, Kind.START), LocalEvent(1, 1, Kind.ATTACH, peer=2),
        LocalEvent(1, 5, Kind.VIEW, 1, number=1, members=(1,)), LocalEvent(1, 6, Kind.GAUGE, number=4, text="log"),
        LocalEvent(1, 10, Kind.DETACH), LocalEvent(1, 15, Kind.ATTACH, peer=3),
        LocalEvent(1, 18, Kind.VIEW, 1, number=2, members=(1, 2), local=True),
        LocalEvent(1, 20, Kind.DELIVER, 1, c.Mid(2, 1)), LocalEvent(1, 30, Kind.CRASH),
    ]  # fmt: skip
    c.write_run(root / "moving", History(c.IDENTITY, moving))
    data = {
        "name": "lossy", "seed": 4, "protocol": {"name": "sb"}, "duration": "2s", "drain": "1s",
        "topology": {"kind": "broadcast", "members": 5}, "workload": {"kind": "steady", "rate": 10, "replies": 0.6},
        "faults": {"loss": 0.1},
    }  # fmt: skip
    run_experiment(load(data), load_registry(), root / "simulated")
    return root


@pytest.fixture(scope="module")
def made(spark: Any, runs: Path) -> dict[str, list[dict[str, Any]]]:
    """Every table, written as Parquet and read back; captures are read as if they were large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "are_small", lambda _: False)
        store.write_tables(spark, str(runs), runs / "tables")
    return {
        name: [row.asDict(recursive=True) for row in store.read_stored(spark, runs / "tables", name).collect()]
        for name in store.NAMES
    }


def of(made: dict[str, list[dict[str, Any]]], table: str, run: str) -> list[dict[str, Any]]:
    return sorted(
        (row for row in made[table] if row["run"] == run),
        key=lambda row: (row["node"], row.get("place", row.get("attached_at", 0))),
    )


@pytest.mark.parametrize("name", DERIVED)
def test_every_derived_table_has_the_documented_columns(spark: Any, runs: Path, made: Any, name: str) -> None:  # noqa: ARG001
    stored = store.read_stored(spark, runs / "tables", name)
    assert {field.name: field.dataType.simpleString() for field in stored.schema} == {
        column.name: column.type for column in DERIVED[name]
    }


@pytest.mark.parametrize("name", [*STORIES, "simulated"])
def test_a_wait_is_needless_where_the_property_says_so(runs: Path, made: Any, name: str) -> None:
    history = read_history(runs / name)
    blamed = Counter(
        (event.node, event.message)
        for violation in check(history, ["no_needless_wait"])["no_needless_wait"]
        for event in violation.events
        if event.kind == Kind.HOLD
    )
    found = {
        (row["node"], (row["group"], c.Mid(row["origin"], row["seqno"], row["incarnation"])))
        for row in of(made, "deliveries", name)
        if row["needless_ns"] > 0
    }
    assert found == set(blamed)


def test_how_long_a_wait_was_needless(made: Any) -> None:
    waits = {
        run: [
            (row["hold_ns"] // STEP, row["needless_ns"] // STEP)
            for row in of(made, "deliveries", run)
            if row["hold_ns"]
        ]
        for run in STORIES
    }
    assert waits == {
        "prompt": [(1, 0)], "late": [(3, 2)], "needless": [(2, 2)], "through-another": [(1, 0)],
        "semantic-late": [(3, 2)], "semantic-prompt": [(1, 0)], "semantic-unrelated": [(1, 1)],
        "groups": [(1, 0)], "crash": [], "twice": [],
    }  # fmt: skip


def test_a_second_delivery_is_a_copy_not_a_row(made: Any) -> None:
    assert [(row["node"], row["copies"]) for row in of(made, "deliveries", "twice")] == [(1, 1), (2, 2)]


def test_figures_are_those_of_the_framework(runs: Path, made: Any) -> None:
    """Deliveries, latencies and control bytes of a simulated run, against its history."""
    history = read_history(runs / "simulated")
    submitted = {message: events[0].at for message, events in history.submissions.items()}
    expected = Counter(
        (event.node, event.group, event.mid.sender, event.mid.seqno, event.at, event.at - submitted[event.message])
        for event in history.of(Kind.DELIVER)
        if event.mid is not None
    )
    found = Counter(
        (row["node"], row["group"], row["origin"], row["seqno"], row["delivered_at"], row["latency_ns"])
        for row in of(made, "deliveries", "simulated")
    )
    assert found == expected
    assert {(row["origin"], row["seqno"], row["submitted_at"]) for row in of(made, "messages", "simulated")} == {
        (mid.sender, mid.seqno, at) for (_, mid), at in submitted.items()
    }
    frames = [frame for capture in read_captures(runs / "simulated") for frame in capture.frames]
    assert len(of(made, "frames", "simulated")) == len(frames)
    received = [row for row in made["links"] if row["run"] == "simulated"]
    assert sum(row["received"] for row in received) == sum(not frame.outgoing for frame in frames)
    assert all(row["sent"] >= row["matched"] and row["delay_min_ns"] > 0 for row in received)


def test_messages_know_what_they_cost(runs: Path, made: Any) -> None:
    from castbed.capture import sent_headers

    cost: Counter[tuple[int, int]] = Counter()
    for capture in read_captures(runs / "simulated"):
        for frame in sent_headers(capture):
            cost[frame.origin, frame.seqno] += bool(frame.flags & 1)
    assert {(row["origin"], row["seqno"]): row["frames"] for row in of(made, "messages", "simulated")} == {
        key: count for key, count in cost.items() if count
    }


def test_frames_that_name_no_group_count_for_the_message_that_they_name(made: Any) -> None:
    (row,) = of(made, "messages", "twice")
    (frame,) = of(made, "frames", "twice")
    assert (row["frames"], row["frames_control_bytes"], row["control_bytes"]) == (1, frame["control_bytes"], None)


def test_a_link_on_which_all_was_lost_has_a_row(made: Any) -> None:
    (row,) = (row for row in made["links"] if row["run"] == "twice")
    assert (row["sender"], row["receiver"], row["sent"], row["received"], row["bytes"]) == (2, 1, 1, 0, 0)
    assert (row["matched"], row["delay_min_ns"]) == (0, None)


def test_a_move_to_another_cell_is_a_handoff(made: Any) -> None:
    first, second = of(made, "handoffs", "moving")
    assert (first["from_station"], first["to_station"], first["gap_ns"], first["first_delivery_at"]) == (
        None,
        2,
        None,
        None,
    )
    del second["node"], second["run"]
    assert second == {
        "from_station": 2, "to_station": 3, "detached_at": 10, "attached_at": 15, "gap_ns": 5,
        "first_delivery_at": 20, "silence_ns": 5,
    }  # fmt: skip


def test_a_view_lasts_until_the_next_one_or_a_crash(made: Any) -> None:
    found = [
        (row["number"], row["members"], row["local"], row["installed_at"], row["until"])
        for row in of(made, "views", "moving")
    ]
    assert found == [(1, [1], False, 5, 18), (2, [1, 2], True, 18, 30)]


def test_buffers_are_gauges_and_what_is_held(made: Any) -> None:
    assert [(row["what"], row["at"], row["value"]) for row in of(made, "buffers", "moving")] == [("log", 6, 4)]
    assert [(row["node"], row["value"]) for row in of(made, "buffers", "prompt")] == [(2, 1), (2, 0)]
    assert [row["value"] for row in of(made, "buffers", "crash")] == [1, 0]


# --- clocks -----------------------------------------------------------------------------------------------------------


def test_a_simulated_run_has_one_clock_exactly(made: Any) -> None:
    found = of(made, "clocks", "simulated")
    assert [(row["node"], row["offset_ns"], row["drift"], row["reference"]) for row in found] == [
        (node, 0.0, 0.0, 1) for node in range(1, 6)
    ]
    assert all(row["error_ns"] > 0 for row in found[1:])


def skewed(source: Path, target: Path, offset_ns: dict[int, int], drift: dict[int, float]) -> Path:
    """The same run as nodes with clocks of their own would have captured it."""
    (target / "captures").mkdir(parents=True)
    time, head = Struct("<II"), Struct("<II")
    for capture in read_captures(source):
        data = bytearray(capture.path.read_bytes())
        at = len(capture_header(capture.identity, capture.node))
        while at < len(data):
            kind, length = head.unpack_from(data, at)
            if kind == ENHANCED_PACKET:
                high, low = time.unpack_from(data, at + 12)
                true = high << 32 | low
                shown = round(true * (1 + drift[capture.node])) + offset_ns[capture.node]
                time.pack_into(data, at + 12, shown >> 32, shown & 0xFFFF_FFFF)
            at += length
        (target / "captures" / capture.path.name).write_bytes(data)
    return target


def test_nodes_with_clocks_of_their_own_are_put_on_one_timeline(spark: Any, runs: Path, tmp_path: Path) -> None:
    """The truth lies within the stated error, and so do the latencies."""
    offset_ns = {1: 0, 2: 3_000_000_000, 3: 250_000_000, 4: 40_000_000, 5: 7_000_000_000}
    drift = {1: 0.0, 2: 2e-5, 3: -4e-5, 4: 1e-4, 5: 0.0}
    run = str(skewed(runs / "simulated", tmp_path / "simulated", offset_ns, drift))
    nodes = read_nodes(spark, run)
    table = clocks(read_frames(spark, run), nodes)
    found = {row["node"]: row for row in table.collect()}
    for node, row in found.items():
        for at in (0, 2_000_000_000):
            wrong = abs(row["offset_ns"] + row["drift"] * at - offset_ns[node] - drift[node] * at)
            assert wrong <= row["error_ns"] + 2
        assert row["error_ns"] < 50_000_000
        assert row["straight"]
    truth = {
        (row["node"], row["place"]): row["at"] for row in c.rows(runs / "simulated", "events", ["node", "place", "at"])
    }
    for row in align(read_events(spark, run, ["run", "node", "place", "at"]), table).collect():
        assert abs(row["at"] - truth[row["node"], row["place"]]) <= found[row["node"]]["error_ns"] + 2


def test_tables_of_no_events_are_empty(spark: Any, runs: Path) -> None:
    nothing = read_events(spark, str(runs / "prompt")).filter("kind = 99")
    assert tables.deliveries(nothing, read_nodes(spark, str(runs / "prompt"))).count() == 0
