"""Captures: what was written comes back, at any moment and after any cut, and equal input leaves equal bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castbed import pcapng
from castbed.capture import (
    AIR,
    EVENT_NODE_OFFSET,
    EVENTS,
    FLUSH_BYTES,
    INTERFACES,
    WIRE,
    CapturedFrame,
    CaptureWriter,
    FrameStatistics,
    capture_header,
    event_block,
    frame_block,
    frame_statistics,
    read_capture,
    read_history,
    sent_headers,
)
from castbed.errors import ConfigurationError, ContractError
from castbed.history import Kind, LocalEvent, RunIdentity
from castbed.packets import Packet
from castbed.records import encode_event
from castbed.values import Mid
from castbed.wire import Codec, ethernet_frame, family_number

IDENTITY = RunIdentity("two-questions", 7, "sb", "repaired", "sim", names=("A", "B", "Ç"), roles=("member",) * 3)


class Data(Packet, frozen=True, tag=1):
    group: int
    mid: Mid
    payload: bytes
    parent: Mid | None


class Hello(Packet, frozen=True, tag=2):
    count: int


CODEC = Codec({"sb": (Data, Hello)})
DATA = ethernet_frame(CODEC.encode(Data(1, Mid(2, 3), b"hello", Mid(1, 1)), 2), 2)
HELLO = ethernet_frame(CODEC.encode(Hello(5), 1), 1, 2)
ARP = b"\xff" * 6 + b"\x02\xcb\0\0\0\1" + b"\x08\x06" + bytes(46)
EVENTS_OF_2 = [
    LocalEvent(2, 0, Kind.START),
    LocalEvent(2, 5, Kind.SUBMIT, 1, Mid(2, 3), Mid(1, 1), size=5, digest=77),
    LocalEvent(2, 9, Kind.HOLD, 1, Mid(1, 4), waiting_for=(Mid(3, 1),)),
    LocalEvent(2, 2**40, Kind.NOTE, text="ünusual"),
]


def written(path: Path) -> Path:
    writer = CaptureWriter(path, IDENTITY, 2)
    for event in EVENTS_OF_2[:2]:
        writer.event(event)
    writer.frame(AIR, 6, DATA, outgoing=True)
    writer.frame(WIRE, 8, HELLO, outgoing=False)
    for event in EVENTS_OF_2[2:]:
        writer.event(event)
    writer.close()
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "B.pcapng")


def test_what_was_written_comes_back(path: Path) -> None:
    capture = read_capture(path)
    assert (capture.identity, capture.node) == (IDENTITY, 2)
    assert capture.events == EVENTS_OF_2
    assert list(capture.frames) == [CapturedFrame(6, "air", True, DATA), CapturedFrame(8, "wire", False, HELLO)]
    assert (capture.problems, capture.truncated) == ([], False)


def test_frames_can_be_read_twice_at_once(path: Path) -> None:
    capture = read_capture(path)
    together = list(zip(capture.frames, capture.frames, strict=True))
    assert [one.data for one, _ in together] == [other.data for _, other in together] == [DATA, HELLO]


def test_a_capture_that_was_read_does_not_change_when_its_file_grows(path: Path) -> None:
    capture = read_capture(path)
    with path.open("ab") as file:
        file.write(frame_block(AIR, 20, DATA, True))
    assert len(list(capture.frames)) == 2
    assert len(list(read_capture(path).frames)) == 3


def test_the_interfaces_are_always_the_same_three(path: Path) -> None:
    reader = pcapng.Reader(path.read_bytes())
    assert [found[1].what for found in reader][:4] == [INTERFACES[n] for n in (EVENTS, EVENTS, AIR, WIRE)]
    assert [interface.what for interface in reader.sections[0].interfaces] == [("air", 1), ("events", 147), ("wire", 1)]


def test_the_section_comment_is_a_json_document_about_the_run(path: Path) -> None:
    document = json.loads(pcapng.Reader(path.read_bytes()).first_section().comments[0])
    assert document["castbed"] == 1
    assert document["node"] == 2
    assert document["run"] == "two-questions"
    assert document["names"] == ["A", "B", "Ç"]


def test_equal_input_leaves_equal_bytes(tmp_path: Path) -> None:
    assert written(tmp_path / "one").read_bytes() == written(tmp_path / "two").read_bytes()


def test_equal_input_leaves_equal_bytes_in_another_process(tmp_path: Path) -> None:
    script = (
        "import sys; from castbed.capture import capture_header; from castbed import RunIdentity;"
        "sys.stdout.buffer.write(capture_header(RunIdentity('r', 7, names=('A', 'B')), 1))"
    )
    seeds = ("1", "2")
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, check=True, cwd=tmp_path, env={"PYTHONHASHSEED": seed}
        )
        for seed in seeds
    ]
    assert runs[0].stdout == runs[1].stdout == capture_header(RunIdentity("r", 7, names=("A", "B")), 1)


@pytest.mark.parametrize("event", EVENTS_OF_2)
def test_the_quick_block_of_an_event_is_the_plain_one(event: LocalEvent) -> None:
    block = event_block(event)
    record = encode_event(event)
    assert block[:28] == frame_block(EVENTS, event.at, record, False)[:4] + len(block).to_bytes(4, "little") + (
        b"".join(n.to_bytes(4, "little") for n in (EVENTS, event.at >> 32, event.at % 2**32, len(record), len(record)))
    )
    assert block[28:-4] == record + pcapng.padding(len(record))
    assert block[-4:] == block[4:8]


def test_blocks_of_one_event_at_two_nodes_differ_in_the_node_only() -> None:
    one, other = (event_block(LocalEvent(node, 5, Kind.DELIVER, 1, Mid(2, 3))) for node in (1, 0x01020304))
    assert one[:EVENT_NODE_OFFSET] + b"\1\2\3\4" + one[EVENT_NODE_OFFSET + 4 :] == other


def test_an_event_that_does_not_fit_is_our_bug() -> None:
    with pytest.raises(ContractError, match="DELIVER of node 1"):
        event_block(LocalEvent(1, 5, Kind.DELIVER, size=2**32))
    with pytest.raises(ContractError, match="DELIVER of node 1"):
        event_block(LocalEvent(1, 2**64, Kind.DELIVER))


times = st.integers(0, 2**63)
local_events = st.builds(LocalEvent, st.just(2), times, st.sampled_from(Kind), st.integers(0, 9), text=st.text("ab"))
frames = st.tuples(
    st.sampled_from((AIR, WIRE)),
    times,
    st.binary(max_size=9).map(lambda payload: ethernet_frame(CODEC.encode(Data(1, Mid(2, 1), payload, None), 2), 2)),
    st.booleans(),
)


@given(st.lists(local_events | frames, max_size=12))
def test_any_mixture_of_events_and_frames_comes_back_in_order(
    tmp_path_factory: pytest.TempPathFactory, parts: list[LocalEvent | tuple[int, int, bytes, bool]]
) -> None:
    path = tmp_path_factory.mktemp("captures") / "B.pcapng"
    writer = CaptureWriter(path, IDENTITY, 2)
    for part in parts:
        writer.append(event_block(part) if isinstance(part, LocalEvent) else frame_block(*part))
    writer.close()
    capture = read_capture(path)
    assert capture.events == [part for part in parts if isinstance(part, LocalEvent)]
    names = {AIR: "air", WIRE: "wire"}
    expected = [(at, names[n], out, data) for n, at, data, out in (p for p in parts if isinstance(p, tuple))]
    assert [tuple(frame) for frame in capture.frames] == expected
    assert capture.problems == []


def test_a_capture_is_readable_while_it_is_being_written(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "B.pcapng", IDENTITY, 2)
    assert read_capture(writer.path).events == []
    for number in range(1, 4):
        writer.event(EVENTS_OF_2[number])
        writer.flush()
        capture = read_capture(writer.path)
        assert capture.events == EVENTS_OF_2[1 : number + 1]
        assert not capture.truncated


def test_only_whole_blocks_are_flushed_and_no_more_than_the_limit_is_kept(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "B.pcapng", IDENTITY, 2)
    empty = writer.path.stat().st_size
    block = frame_block(AIR, 0, ethernet_frame(CODEC.encode(Data(1, Mid(2, 1), bytes(1000), None), 2), 2), True)
    for _ in range(-(-FLUSH_BYTES // len(block)) - 1):
        writer.append(block)
    assert writer.path.stat().st_size == empty
    writer.append(block)
    assert writer.path.stat().st_size >= empty + FLUSH_BYTES
    assert not read_capture(writer.path).truncated


def test_a_killed_writer_leaves_a_readable_file(tmp_path: Path) -> None:
    path = tmp_path / "A.pcapng"
    script = (
        "import os, signal, sys; from pathlib import Path; from castbed.capture import CaptureWriter;"
        "from castbed import Kind, LocalEvent, RunIdentity\n"
        "writer = CaptureWriter(Path(sys.argv[1]), RunIdentity(), 1)\n"
        "for at in range(20_000): writer.event(LocalEvent(1, at, Kind.NOTE))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(path)], timeout=60, check=False)
    assert killed.returncode == -9
    capture = read_capture(path)
    assert [event.at for event in capture.events] == list(range(len(capture.events)))
    assert 0 < len(capture.events) < 20_000
    assert not capture.truncated


def test_a_capture_cut_at_any_byte_is_read_up_to_the_cut(path: Path) -> None:
    whole = path.read_bytes()
    header = len(capture_header(IDENTITY, 2))
    blocks = [event_block(EVENTS_OF_2[0]), event_block(EVENTS_OF_2[1]), frame_block(AIR, 6, DATA, True)]
    blocks += [frame_block(WIRE, 8, HELLO, False), event_block(EVENTS_OF_2[2]), event_block(EVENTS_OF_2[3])]
    ends = [header + size for size in accumulate(map(len, blocks), initial=0)]
    assert ends[-1] == len(whole)
    for cut in range(header, len(whole)):
        path.write_bytes(whole[:cut])
        capture = read_capture(path)
        complete = sum(end <= cut for end in ends) - 1
        events, frames = len(capture.events), len(list(capture.frames))
        assert (events, frames) == (complete - min(max(complete - 2, 0), 2), min(max(complete - 2, 0), 2))
        assert capture.events == EVENTS_OF_2[:events]
        assert capture.truncated is (cut not in ends)
        assert bool(capture.problems) is capture.truncated


def test_a_cut_inside_the_header_leaves_no_capture_or_an_empty_one(path: Path) -> None:
    whole = path.read_bytes()
    section = int.from_bytes(whole[4:8], "little")
    for cut in range(len(capture_header(IDENTITY, 2))):
        path.write_bytes(whole[:cut])
        if cut < section:
            with pytest.raises(ConfigurationError, match=r"B\.pcapng: not a Castbed capture"):
                read_capture(path)
        else:
            assert read_capture(path).events == []


def test_foreign_frames_are_counted_and_left_out(path: Path) -> None:
    short = DATA[:40]
    with path.open("ab") as file:
        file.write(
            frame_block(AIR, 20, ARP, False) + frame_block(AIR, 21, short, False) + frame_block(WIRE, 22, b"", True)
        )
    capture = read_capture(path)
    assert [frame.data for frame in capture.frames] == [DATA, HELLO]
    assert capture.problems == ["3 foreign frames were skipped"]
    assert not capture.truncated


def test_records_that_are_damaged_or_of_another_node_are_counted_and_left_out(path: Path) -> None:
    stranger = event_block(LocalEvent(3, 1, Kind.START))
    with path.open("ab") as file:
        file.write(stranger + frame_block(EVENTS, 5, b"nonsense", False))
    capture = read_capture(path)
    assert capture.events == EVENTS_OF_2
    said = "2 event records were skipped, the first: an event of node 3 in the capture of node 2"
    assert capture.problems == [said]


def test_a_further_section_of_the_same_capture_is_read_and_any_other_left_out(path: Path) -> None:
    more = LocalEvent(2, 2**41, Kind.STOP)
    with path.open("ab") as file:
        file.write(capture_header(IDENTITY, 2) + event_block(more))
        file.write(capture_header(IDENTITY, 3) + event_block(more) + frame_block(AIR, 1, DATA, True))
    capture = read_capture(path)
    assert capture.events == [*EVENTS_OF_2, more]
    assert len(list(capture.frames)) == 2
    assert capture.problems == ["2 foreign frames were skipped"]


def test_a_comment_that_another_tool_added_does_no_harm(tmp_path: Path) -> None:
    document = json.dumps({"castbed": 1, "node": 2, "run": "edited"})
    section = pcapng.section_header("editor", document + "seen by a person")
    (tmp_path / "B.pcapng").write_bytes(section)
    assert read_capture(tmp_path / "B.pcapng").identity.run == "edited"


def test_a_run_of_thousands_of_nodes_has_room_for_all_names(tmp_path: Path) -> None:
    crowd = RunIdentity(names=tuple(f"participant-{n}" for n in range(20_000)))
    CaptureWriter(tmp_path / "x.pcapng", crowd, 1)
    assert read_capture(tmp_path / "x.pcapng").identity == crowd


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a capture",
        pcapng.section_header("another program", "some comment"),
        pcapng.section_header("another program", '{"node": 1}'),
        pcapng.section_header("another program", "[" * 60_000),
        pcapng.section_header("castbed", '{"castbed": 1, "node": "A"}'),
        pcapng.section_header("castbed", '{"castbed": 1, "node": 0}'),
        pcapng.section_header("castbed", '{"castbed": 99, "node": 1}'),
        pcapng.section_header("castbed", '{"castbed": 1, "node": 1, "seed": "seven"}'),
    ],
)
def test_a_file_that_is_no_capture_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.pcapng"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"odd\.pcapng: not a Castbed capture"):
        read_history(tmp_path)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_mutated_capture_is_read_or_refused_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    path = written(tmp_path_factory.mktemp("captures") / "B.pcapng")
    data = bytearray(path.read_bytes())
    for at, value in changes:
        data[at % len(data)] = value
    path.write_bytes(data)
    try:
        capture = read_capture(path)
    except ConfigurationError:
        return
    assert len(capture.events) + len(list(capture.frames)) <= 6
    frame_statistics([capture])


# --- statistics ------------------------------------------------------------------------------------------------------


def test_statistics_count_what_was_sent_and_control_bytes_only_of_messages(path: Path) -> None:
    with path.open("ab") as file:
        file.write(frame_block(AIR, 20, HELLO, True))
    capture = read_capture(path)
    sent = [
        (header.family, header.kind, header.control_bytes, header.payload_bytes) for header in sent_headers(capture)
    ]
    sb = family_number("sb")
    assert sent == [(sb, 1, 5, 5), (sb, 2, 2, 0)]
    assert frame_statistics([capture]) == FrameStatistics(2, 1, 5, 5, 5)
