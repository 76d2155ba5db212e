"""What a report says is what the run says: figures, verdicts, witnesses and diagrams, from captures through Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser import browser, program

from castbed.capture import FrameHeader, read_captures
from castbed.errors import ConfigurationError, UnavailableError
from castbed.registry import load_registry
from castbed.wire import ETHERNET_BYTES, HAS_MID, HEADER
from castbed_spark.report.command import Made, Wanted, make_report
from castbed_spark.report.counts import damage
from castbed_spark.report.document import Node, Run
from castbed_spark.report.page import page
from castbed_spark.report.sources import RUNS_MAX, find_sources
from castbed_spark.report.timeline import Cast, Head
from castbed_spark.store import read_stored
from castbed_testbed.cli.reporting import report_command
from castbed_testbed.experiment import load_file
from castbed_testbed.runner import run_experiment

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE_BYTES_MAX = 3_000_000


def carried_out(example: str, out: Path, *settings: str) -> Path:
    run_experiment(load_file(EXAMPLES / f"{example}.toml", settings), load_registry(), out)
    return out


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Cells with losses and handoffs, and the published M2MC, which breaks its promises; files of others lie about."""
    folder = tmp_path_factory.mktemp("runs")
    cells = carried_out("eomp-lossy", folder / "cells", "duration=4s")
    broken = carried_out("m2mc-churn", folder / "broken", "protocol.variant=published")
    (broken / "captures" / "empty.pcapng").touch()
    (broken / "captures" / "other.pcapng").write_bytes(b"written by another program" * 100)
    return {"cells": cells, "broken": broken}


@pytest.fixture(scope="module")
def made(spark: Any, runs: dict[str, Path]) -> Made:  # noqa: ARG001 (the report uses the session that is there)
    folder = next(iter(runs.values())).parent / "side-by-side"
    paths = [str(path) for path in runs.values()]
    return make_report(Wanted(paths, folder / "page.html", True, ["h1.1"]), lambda doing: None)


@pytest.fixture(scope="module")
def told(made: Made) -> dict[str, Run]:
    return {run.name: run for run in made.document.runs}


def summary(run: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    return document


@pytest.mark.parametrize("name", ["cells", "broken"])
def test_the_figures_are_those_of_the_summary(told: dict[str, Run], runs: dict[str, Path], name: str) -> None:
    stated, run = summary(runs[name]), told[name]
    for figure in ("submitted", "delivered", "expected", "duplicates", "held_at_end", "frames"):
        assert run.summary[figure] == stated[figure], figure
    for fact in ("protocol", "variant", "transport", "seed", "virtual_s"):
        assert getattr(run, fact) == stated[fact], fact
    assert {fault.name: fault.count for fault in run.faults} == stated["faults"]


def test_the_latencies_are_those_of_the_summary(told: dict[str, Run], runs: dict[str, Path]) -> None:
    stated, latency = summary(runs["cells"])["latency_ms"], told["cells"].latency
    assert latency.mean == pytest.approx(stated["mean"], abs=1e-6)
    assert (latency.p50, latency.p99) == pytest.approx((stated["p50"], stated["p99"]), abs=1e-6)


@pytest.mark.parametrize("name", ["cells", "broken"])
def test_the_verdicts_are_those_of_the_summary(told: dict[str, Run], runs: dict[str, Path], name: str) -> None:
    found = {one.name: {"holds": one.holds, "violations": one.violations} for one in told[name].properties}
    assert found == summary(runs[name])["properties"]
    assert all(one.holds for one in told[name].properties) == (name == "cells")


def test_every_violated_property_has_a_witness_that_the_diagram_shows(told: dict[str, Run]) -> None:
    shown = {story.label for story in told["broken"].diagram.messages}
    violated = [one for one in told["broken"].properties if not one.holds]
    assert len(violated) > 1
    for one in violated:
        assert one.witnesses
        for witness in one.witnesses:
            assert len(witness.lines) == len(witness.marks) > 0
            assert set(witness.messages) <= shown


def test_nothing_is_lost_between_the_tables_and_the_plots(told: dict[str, Run]) -> None:
    for run in told.values():
        assert sum(run.over_time.submitted) == run.summary["submitted"]
        assert sum(run.over_time.delivered) == run.summary["delivered"]
        for spread in (run.latency, run.holds, run.needless, run.silences):
            assert sum(spread.counts) == spread.count
        assert sum(role.sent_frames for role in run.roles) == sum(kind.frames for kind in run.control)
        assert sum(role.nodes for role in run.roles) == len(run.nodes)
    assert told["cells"].silences.count > 0
    assert told["cells"].buffers


def test_packet_types_have_their_names(told: dict[str, Run]) -> None:
    assert {"Numbered", "Request"} <= {kind.kind for kind in told["cells"].control}
    assert {"Data", "SyncResp"} <= {kind.kind for kind in told["broken"].control}


def test_one_clock_is_no_offset(told: dict[str, Run]) -> None:
    assert {(clock.offset_us, clock.drift_ppm) for run in told.values() for clock in run.clocks} == {(0.0, 0.0)}


def test_files_that_are_no_captures_are_named(told: dict[str, Run]) -> None:
    ignored = [problem for problem in told["broken"].problems if "ignored" in problem]
    assert ignored == [f"{name}.pcapng: no capture of Castbed, ignored" for name in ("empty", "other")]


def test_a_clock_that_was_set_is_named_under_what_is_missing(spark: Any, made: Made) -> None:
    assert made.tables is not None
    nothing = read_stored(spark, made.tables, "captures").limit(0)
    cast = Cast(Head("sb", "repaired", "sim", "broadcast", 1), [Node("A", ""), Node("B", "")], frozenset({1, 2}))
    clocks: Any = [{"node": 1, "straight": True}, {"node": 2, "straight": False}]
    (problem,) = damage(nothing, {"one": cast}, {"one": clocks})["one"]
    assert problem.startswith("B: its clock was set")


def test_a_hop_is_drawn_for_each_copy_that_came(told: dict[str, Run], runs: dict[str, Path]) -> None:
    run = told["cells"]
    writer = 1 + [node.name for node in run.nodes].index("h1")
    came = [
        capture.node
        for capture in read_captures(runs["cells"])
        for frame in capture.frames
        if not frame.outgoing and _carries(frame.data, writer, 1)
    ]
    story = next(story for story in run.diagram.messages if story.label == "h1.1")
    assert sorted(to + 1 for _, _, _, to, _ in story.hops) == sorted(came)
    assert len(came) > len(run.nodes) / 2
    assert all(sent < got for sent, _, got, _, _ in story.hops)


def _carries(frame: bytes, writer: int, number: int) -> bool:
    header = FrameHeader._make(HEADER.unpack_from(frame, ETHERNET_BYTES))
    return bool(header.flags & HAS_MID) and (header.origin, header.seqno) == (writer, number)


def test_the_page_is_one_small_file_with_tables_beside_it(made: Made, runs: dict[str, Path]) -> None:
    import pyarrow.parquet

    html = made.page.read_text(encoding="utf-8")
    assert html == page(made.document)
    assert len(html) < PAGE_BYTES_MAX
    assert made.tables == made.page.parent / "tables"
    rows = pyarrow.parquet.read_table(made.tables / "deliveries.parquet")
    assert rows.num_rows >= summary(runs["cells"])["delivered"]


def test_the_page_of_real_runs_opens_without_error(made: Made) -> None:
    if program() is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with browser() as tab:
        tab.open(made.page)
        assert tab.value("document.querySelectorAll('figure svg').length") >= 10
        assert tab.value("document.querySelectorAll('.diagram-frame .hop').length") > 0
        assert tab.value("document.querySelectorAll('#witnesses .witness').length") > 1
        assert (tab.errors, len(tab.requests)) == ([], 1)


def test_the_command_says_what_is_violated_and_where_the_page_is(
    spark: Any,  # noqa: ARG001
    runs: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report_command([runs["broken"]], None, None, [], None, False) == 1
    said = capsys.readouterr()
    assert "✗ no_duplication" in said.out
    assert str(runs["broken"] / "report.html") in said.out
    assert (runs["broken"] / "report.html").exists()
    assert (runs["broken"] / "tables" / "frames.parquet").is_dir()
    assert "starting Spark" in said.err


def test_numbers_are_printed_for_those_who_want_them(
    spark: Any,  # noqa: ARG001
    runs: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert report_command([runs["cells"]], tmp_path / "page.html", False, [], None, True) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["violated"], said["page"], said["tables"]) == (False, str(tmp_path / "page.html"), None)
    (run,) = said["document"]["runs"]
    assert run["summary"]["delivered"] == summary(runs["cells"])["delivered"]
    assert all(one["holds"] for one in run["properties"])


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound run whose captures have garbage near their beginning, and one of which is there in two pieces."""
    run = carried_out("two-questions", tmp_path_factory.mktemp("damaged") / "damaged")
    for number, file in enumerate(sorted((run / "captures").glob("*.pcapng"))):
        data = file.read_bytes()
        ends = _block_ends(data)
        first, middle = ends[5], ends[len(ends) // 2]
        file.write_bytes(data[:first] + b"garbage between blocks!!" + data[first:middle])
        rest = data[: ends[3]] + bytes(middle - ends[3]) if number == 0 else b""
        if rest:  # its blocks are where they were in the whole file
            file.with_name("again.pcapng").write_bytes(rest + data[middle:])
        else:
            file.write_bytes(file.read_bytes() + data[middle:])
    return run


def _block_ends(data: bytes) -> list[int]:
    ends = [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + int.from_bytes(data[ends[-1] + 4 : ends[-1] + 8], "little"))
    return ends[1:]


def test_damage_is_skipped_by_verdicts_as_by_plots(spark: Any, damaged: Path) -> None:  # noqa: ARG001
    """What is behind garbage, or in a second capture of a node, is judged like all the rest."""
    (run,) = make_report(Wanted([str(damaged)]), lambda doing: None).document.runs
    stated = summary(damaged)
    assert run.summary["delivered"] == stated["delivered"]
    assert run.summary["expected"] == stated["expected"]
    assert [one.name for one in run.properties if not one.holds] == []
    assert sum("damaged blocks were skipped" in problem for problem in run.problems) == len(run.nodes)


def test_a_message_that_is_not_there_is_an_error_that_names_it(spark: Any, runs: dict[str, Path]) -> None:  # noqa: ARG001
    with pytest.raises(ConfigurationError, match=r"no message 'h1\.99999'"):
        make_report(Wanted([str(runs["cells"])], None, False, ["h1.99999"]), lambda doing: None)


def test_where_spark_is_missing_one_sentence_says_so(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("castbed_spark.session.NEEDED", ("no_such_package",))
    with pytest.raises(UnavailableError, match=r"pip install 'castbed\[spark\]'"):
        make_report(Wanted([str(runs["cells"])]), lambda doing: None)


def test_a_place_without_captures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no captures"):
        report_command([tmp_path], tmp_path / "page.html", True, ["A1"], "local[1]", True)


def test_more_runs_than_colours_are_refused(tmp_path: Path) -> None:
    for number in range(RUNS_MAX + 1):
        captures = tmp_path / f"run-{number}" / "captures"
        captures.mkdir(parents=True)
        (captures / "A.pcapng").touch()
    with pytest.raises(ConfigurationError, match=f"{RUNS_MAX + 1} runs"):
        find_sources([str(tmp_path)])


def test_a_run_that_is_named_twice_counts_once(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(runs["cells"])
    found = find_sources([str(runs["cells"]), str(tmp_path / "latest")])
    assert [source.name for source in found] == ["cells"]


def test_a_run_too_large_for_memory_is_judged_by_spark(made: Made, told: dict[str, Run], spark: Any) -> None:
    from castbed_spark.report.filling import Filling

    assert made.tables is not None
    folder = made.tables
    sources = find_sources([str(folder.parents[1] / "broken")])
    filling = Filling(lambda name: read_stored(spark, folder, name), sources, in_memory_max=0)
    filling.judge(load_registry())
    in_memory = told["broken"].properties
    at_scale = filling.judged["broken"].properties
    assert [(one.name, one.holds) for one in at_scale] == [(one.name, one.holds) for one in in_memory]
    assert all(one.witnesses[0].lines for one in at_scale if not one.holds)
