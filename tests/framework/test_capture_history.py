"""The captures of a run become one history: in which order, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from castbed.capture import CaptureWriter, merged, read_capture, read_captures, read_history
from castbed.errors import ConfigurationError
from castbed.history import Kind, LocalEvent, RunIdentity

IDENTITY = RunIdentity("two-questions", 7, "sb")


def capture_of(folder: Path, node: int, times: list[int], identity: RunIdentity = IDENTITY) -> Path:
    writer = CaptureWriter(folder / f"{node}.pcapng", identity, node)
    for number, at in enumerate(times):
        writer.event(LocalEvent(node, at, Kind.NOTE, number=number))
    writer.close()
    return writer.path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    captures = tmp_path / "captures"
    captures.mkdir()
    capture_of(captures, 10, [1, 5, 5, 9])
    capture_of(captures, 2, [5, 5, 7])
    return tmp_path


def test_a_history_is_in_order_of_time_then_node(run: Path) -> None:
    events = [(event.at, event.node, event.number) for event in read_history(run).events]
    assert events == [(1, 10, 0), (5, 2, 0), (5, 2, 1), (5, 10, 1), (5, 10, 2), (7, 2, 2), (9, 10, 3)]


def test_a_run_its_folder_and_its_files_give_the_same_history(run: Path) -> None:
    folder = run / "captures"
    files = [folder / "10.pcapng", folder / "2.pcapng"]
    assert read_history(run).identity == IDENTITY
    assert read_history(run).events == read_history(folder).events == read_history(files).events
    assert read_history(folder / "2.pcapng").events == read_capture(folder / "2.pcapng").events


def test_a_clock_that_was_set_back_does_not_reorder_a_node(tmp_path: Path) -> None:
    capture_of(tmp_path, 1, [10, 3, 12])
    capture_of(tmp_path, 2, [4, 11])
    lanes = read_history(tmp_path).by_node
    assert [event.number for event in lanes[1]] == [0, 1, 2]
    assert [event.number for event in lanes[2]] == [0, 1]


def test_a_truncated_capture_gives_a_history_and_says_so(run: Path) -> None:
    path = run / "captures" / "2.pcapng"
    path.write_bytes(path.read_bytes()[:-1])
    captures = read_captures(run)
    assert [(capture.node, capture.truncated) for capture in captures] == [(2, True), (10, False)]
    assert "cut off" in captures[0].problems[0]
    assert len(merged(captures).events) == 6


def test_captures_of_two_runs_are_not_mixed(run: Path) -> None:
    capture_of(run / "captures", 3, [1], RunIdentity("another"))
    with pytest.raises(ConfigurationError, match=r"3\.pcapng: belongs to another run"):
        read_history(run)


def test_two_captures_of_a_node_are_refused(run: Path) -> None:
    copy = run / "captures" / "copy.pcapng"
    copy.write_bytes((run / "captures" / "2.pcapng").read_bytes())
    with pytest.raises(ConfigurationError, match=r"copy\.pcapng: a second capture of node 2"):
        read_history(run)


def test_a_folder_without_captures_is_named(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ConfigurationError, match=folder.name):
            read_history(folder)
    with pytest.raises(ConfigurationError, match=r"gone\.pcapng: cannot be read"):
        read_history([tmp_path / "gone.pcapng"])
    with pytest.raises(ConfigurationError, match="at least one capture"):
        read_history([])
