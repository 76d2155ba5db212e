"""The reader on small captures, from bytes to Arrow, without Spark."""

from __future__ import annotations

import random
import time
from pathlib import Path
from struct import Struct

import pytest

pytest.importorskip("pyarrow", reason="pip install 'castbed[spark]'")

import spark_captures as c

from castbed.capture import event_block, read_capture
from castbed.errors import ConfigurationError
from castbed.history import Kind, LocalEvent, RunIdentity
from castbed.pcapng import BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER
from castbed.values import Mid
from castbed.wire import family_number
from castbed_spark import walking
from castbed_spark.columns import Condition
from castbed_spark.reading import plan
from castbed_spark.slices import Slice, bundled, run_names


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run-1" / "captures" / "A.pcapng"


def written(file: Path, *pieces: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(pieces))
    return file


def seqnos(file: Path, table: str = "frames", slice_bytes: int = 0) -> list[int]:
    return [row["seqno"] for row in c.rows(file, table, ["seqno"], slice_bytes=slice_bytes)]


# --- columns --------------------------------------------------------------------------------------------------------


def test_a_frame_becomes_a_row_with_every_field_of_its_header(file: Path) -> None:
    written(file, c.header(), c.said(5, 1_000), c.said(6, 2_000, outgoing=True, sender=1, to=3), c.asked(3_000))
    first, second, third = c.rows(file, "frames")
    assert first == {
        "run": "run-1", "node": 1, "place": len(c.header()), "at": 1_000, "medium": "air", "outgoing": False,
        "to": None, "family": family_number("sb"), "kind": 7, "group": 1, "sender": 2, "origin": 2, "seqno": 5,
        "incarnation": 0, "control_bytes": 5, "payload_bytes": 5, "frame_bytes": 68,
    }  # fmt: skip
    assert (second["medium"], second["outgoing"], second["to"], second["sender"]) == ("wire", True, 3, 1)
    assert (third["kind"], third["origin"], third["seqno"], third["incarnation"]) == (8, None, None, None)


def test_events_are_those_that_the_framework_reads(file: Path) -> None:
    events = [
        LocalEvent(1, 0, Kind.START),
        LocalEvent(1, 5, Kind.VIEW, 1, number=2, members=(1, 2), stations=(3,), local=True),
        LocalEvent(1, 6, Kind.SUBMIT, 1, Mid(1, 1), to=(2,), size=4, digest=9),
        LocalEvent(1, 7, Kind.HOLD, 1, Mid(2, 2, 1), Mid(1, 1), waiting_for=(Mid(2, 1), Mid(3, 4, 2))),
        LocalEvent(1, 8, Kind.DELIVER, 1, Mid(2, 2, 1), Mid(1, 1)),
        LocalEvent(1, 9, Kind.ATTACH, peer=3),
        LocalEvent(1, 1 << 40, Kind.GAUGE, number=17, text="log"),
    ]
    written(file, c.header(), *(event_block(event) for event in events))
    assert read_capture(file).events == events
    found = c.rows(file, "events")
    assert [(row["event"], row["at"], row["number"], row["peer"]) for row in found] == [
        (event.kind.name, event.at, event.number, event.peer) for event in events
    ]
    assert [(row["origin"], row["seqno"], row["incarnation"]) for row in found[2:5]] == [
        (1, 1, 0),
        (2, 2, 1),
        (2, 2, 1),
    ]
    assert found[3]["waiting_for"] == [
        {"origin": 2, "seqno": 1, "incarnation": 0}, {"origin": 3, "seqno": 4, "incarnation": 2},
    ]  # fmt: skip
    assert (found[1]["members"], found[1]["stations"], found[1]["local"]) == ([1, 2], [3], True)
    assert (found[2]["to"], found[4]["to"], found[6]["text"]) == ([2], None, "log")
    assert (found[3]["parent_origin"], found[3]["parent_seqno"], found[0]["parent_origin"]) == (1, 1, None)


def test_only_the_columns_that_are_asked_for_are_made(file: Path) -> None:
    written(file, c.header(), c.said(5, 1_000))
    assert c.rows(file, "frames", ["seqno", "at"]) == [{"at": 1_000, "seqno": 5}]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (Condition("seqno", "=", 3), [3]),
        (Condition("seqno", "<", 3), [1, 2]),
        (Condition("seqno", ">=", 4), [4, 5]),
        (Condition("seqno", "in", (2, 9)), [2]),
        (Condition("at", "<=", 2), [1, 2]),
        (Condition("medium", "=", "wire"), []),
        (Condition("outgoing", "=", False), [1, 2, 3, 4, 5]),
        (Condition("node", ">", 1), []),
    ],
)
def test_a_condition_keeps_the_rows_that_meet_it(file: Path, condition: Condition, kept: list[int]) -> None:
    written(file, c.header(), c.many(5), c.asked(1))
    unknown = [None] if condition.column in ("at", "outgoing") else []
    assert [row["seqno"] for row in c.rows(file, "frames", ["seqno"], [condition])] == kept + unknown


def test_a_condition_on_the_name_of_an_event_is_one_on_its_kind(file: Path) -> None:
    written(file, c.header(), event_block(LocalEvent(1, 0, Kind.START)), c.many(2))
    assert len(c.rows(file, "events", ["at"], [Condition("event", "in", ("DELIVER", "HOLD"))])) == 2
    assert len(c.rows(file, "events", ["at"], [Condition("event", "=", "START")])) == 1


# --- what captures may look like ------------------------------------------------------------------------------------


def test_foreign_frames_do_no_harm(file: Path) -> None:
    written(
        file, c.header(), c.foreign(c.ARP), c.said(1, 1), c.foreign(c.NEIGHBOUR_DISCOVERY), c.foreign(b""), c.said(2, 2)
    )
    assert seqnos(file) == [1, 2]
    assert c.found(file)["foreign"] == 3


def test_a_capture_that_was_cut_is_read_up_to_the_cut(file: Path) -> None:
    whole = c.header() + c.many(20)
    for cut in range(len(whole) - len(c.said(20, 20) + c.delivered(20, 20)), len(whole)):
        written(file, whole[:cut])
        found = c.found(file)
        assert found["frames"] == found["events"] + (cut >= len(whole) - len(c.delivered(20, 20)))
        assert found["events"] == 19
        assert found["cut"] == (found["skipped_bytes"] > 0)


def _fake_section(length: int, magic: bytes) -> bytes:
    """What looks like a section in the other byte order, with a length that only it states."""
    return SECTION_HEADER.to_bytes(4, "big") + length.to_bytes(4, "big") + magic + b"junkjunk"


_MAGICS = (b"junk", BYTE_ORDER_MAGIC.to_bytes(4, "big"))


@pytest.mark.parametrize(
    "garbage",
    [
        c.GARBAGE, b"\x06\x00\x00\x00" * 5, bytes(64), b"\x06\x00\x00\x00\x20\x00\x00\x00",
        *(_fake_section(length, magic) for length in (0x2000, 28, 0x7FFF_FFFC) for magic in _MAGICS),
    ],
)  # fmt: skip
def test_garbage_between_blocks_is_counted_and_skipped(file: Path, garbage: bytes) -> None:
    written(file, c.header(), c.many(10), garbage, c.many(200), garbage, c.many(10))
    found = c.found(file)
    assert (found["frames"], found["events"]) == (220, 220)
    assert (found["bad_blocks"], found["skipped_bytes"], found["cut"]) == (2, 2 * len(garbage), False)


def test_garbage_before_a_short_end_loses_nothing(file: Path) -> None:
    written(file, c.header(), c.many(3), c.GARBAGE, c.said(4, 4), c.said(5, 5)[:-6])
    assert seqnos(file) == [1, 2, 3, 4]
    assert c.found(file)["cut"]


def test_a_damaged_length_costs_one_block(file: Path) -> None:
    damaged = bytearray(c.said(4, 4))
    damaged[4:8] = Struct("<I").pack(1 << 20)
    written(file, c.header(), c.many(3), bytes(damaged), c.many(6))
    assert seqnos(file) == [1, 2, 3, 1, 2, 3, 4, 5, 6]
    assert c.found(file)["bad_blocks"] == 1


def test_bad_packets_and_unknown_blocks_are_passed_over(file: Path) -> None:
    written(file, c.header(), c.said(1, 1), c.broken_packet(), c.unknown_block(), c.said(2, 2))
    assert seqnos(file) == [1, 2]
    assert c.found(file)["bad_blocks"] == 1


def test_records_that_make_no_sense_are_counted_and_skipped(file: Path) -> None:
    strange = bytearray(c.delivered(3, 3))
    strange[28 + 3] = 200  # a kind that does not exist
    written(file, c.header(), c.delivered(1, 1), bytes(strange), c.delivered(2, 2, node=2), c.delivered(4, 4))
    assert seqnos(file, "events") == [1, 4]
    assert c.found(file)["bad_records"] == 2


@pytest.mark.parametrize("content", [b"", b"\n\r\r\n", b"\xd4\xc3\xb2\xa1" + bytes(60), b"no capture at all"])
def test_empty_files_and_those_of_other_programs_have_no_slices(file: Path, content: bytes) -> None:
    written(file, content)
    assert plan(str(file), None) == []


def test_a_capture_of_another_program_has_no_slices(file: Path) -> None:
    from castbed.pcapng import interface_description, section_header

    written(file, section_header("dumpcap", ""), interface_description(1, "eth0"), c.foreign(c.ARP))
    assert plan(str(file), None) == []


def test_a_capture_without_packets_has_a_head_and_no_rows(file: Path) -> None:
    written(file, c.header())
    assert (seqnos(file), c.found(file)["node"]) == ([], 1)


def test_either_byte_order_is_read(file: Path) -> None:
    words, data = Struct(">IIIIIIII"), b"".join([c.said(1, 1)[28:-12]])
    comment = b'{"castbed": 1, "node": 1, "run": "r", "names": ["A"]}'
    options = Struct(">HH").pack(1, len(comment)) + comment + bytes(-len(comment) & 3)
    section = Struct(">IHHq").pack(BYTE_ORDER_MAGIC, 1, 0, -1) + options
    air = Struct(">HHI").pack(1, 0, 0) + Struct(">HH4s").pack(2, 3, b"air\0") + Struct(">HHB3x").pack(9, 1, 6)
    size = 32 + len(data)
    packet = words.pack(ENHANCED_PACKET, size, 0, 0, 7, len(data), len(data), 0)[:28] + data + Struct(">I").pack(size)

    def block(kind: int, body: bytes) -> bytes:
        length = Struct(">I").pack(len(body) + 12)
        return Struct(">I").pack(kind) + length + body + length

    written(file, block(SECTION_HEADER, section), block(INTERFACE_DESCRIPTION, air), packet * 3)
    assert [(row["seqno"], row["at"]) for row in c.rows(file, "frames", ["seqno", "at"])] == [(1, 7_000)] * 3


def test_two_sections_of_one_node_are_one_capture(file: Path) -> None:
    written(file, c.header(), c.many(2), c.header(), c.many(3))
    assert seqnos(file) == [1, 2, 1, 2, 3]


def test_a_section_of_another_node_is_foreign(file: Path) -> None:
    written(file, c.header(), c.many(2), c.header(node=2), c.many(3))
    assert seqnos(file) == [1, 2]
    assert c.found(file)["foreign"] == 6


# --- slices ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts and windows as in large captures, at a hundredth of the size."""
    monkeypatch.setattr("castbed_spark.chains.CUT_BYTES", 4_000)
    monkeypatch.setattr("castbed_spark.slices.CUT_BYTES", 4_000)
    monkeypatch.setattr(walking, "WINDOW_BYTES", 4_096)
    monkeypatch.setattr(walking, "FIRST_BYTES", 512)


@pytest.mark.usefixtures("small_chains")
@pytest.mark.parametrize("slice_bytes", [5_000, 20_000, 33_333, 1 << 20])
def test_slices_together_hold_each_row_once(file: Path, slice_bytes: int) -> None:
    written(file, c.header(), c.many(500))
    assert len(plan(str(file), slice_bytes)) >= min(100_000 // slice_bytes, 20)
    assert seqnos(file, slice_bytes=slice_bytes) == list(range(1, 501))
    assert seqnos(file, "events", slice_bytes) == list(range(1, 501))


@pytest.mark.usefixtures("small_chains")
def test_a_capture_in_a_payload_is_never_taken_for_blocks_of_the_file(file: Path) -> None:
    from castbed.capture import AIR, frame_block
    from castbed.wire import ethernet_frame

    inner = c.many(10)  # a chain of blocks, shorter than what a cut asks for
    carrier = ethernet_frame(c.CODEC.encode(c.Said(1, Mid(2, 77), inner, None), 2), 2)
    written(file, c.header(), c.many(20), frame_block(AIR, 5, carrier, False) * 40, c.many(20))
    expected = [*range(1, 21), *[77] * 40, *range(1, 21)]
    for slice_bytes in (6_000, 7_001, 9_002, 15_003):
        assert seqnos(file, slice_bytes=slice_bytes) == expected


@pytest.mark.usefixtures("small_chains")
def test_a_cut_that_is_no_block_boundary_is_noticed(file: Path) -> None:
    written(file, c.header(), c.many(100))
    from castbed_spark.reading import read

    wrong = Slice(str(file), "run-1", 0, len(c.header()) + 10, whole=False)
    with pytest.raises(ConfigurationError, match=r"no block begins at byte .* split=false"):
        list(read(wrong, "frames", c.schema("frames"), []))


@pytest.mark.usefixtures("small_chains")
def test_a_large_file_with_captures_of_two_nodes_is_refused_with_the_way_out(file: Path) -> None:
    written(file, c.header(), c.many(200), c.header(node=2), c.many(200))
    with pytest.raises(ConfigurationError, match="several captures; read it with split=false"):
        seqnos(file, slice_bytes=20_000)
    assert len(seqnos(file, slice_bytes=1 << 40)) == 200


@pytest.mark.usefixtures("small_chains")
@pytest.mark.parametrize("seed", range(20))
def test_damage_anywhere_never_adds_a_row(file: Path, seed: int) -> None:
    """Whatever happens to the bytes, each row that is read was written, and most are still there."""
    rng = random.Random(seed)
    data = bytearray(c.header() + c.many(300))
    for _ in range(5):
        at = rng.randrange(len(c.header()), len(data))
        if rng.random() < 0.5:
            data[at:at] = rng.randbytes(rng.randrange(1, 200))
        else:
            del data[at : at + rng.randrange(1, 200)]
    written(file, bytes(data))
    written_rows = {(n, n) for n in range(1, 301)}
    try:
        found = [(row["seqno"], row["at"]) for row in c.rows(file, "events", ["seqno", "at"], slice_bytes=15_000)]
    except ConfigurationError:
        pytest.fail("damage made a cut that is no boundary")
    strange = [row for row in found if row not in written_rows]
    assert len(strange) <= 5, "an altered record may differ, a made-up one may not appear"
    assert len(found) >= 250


def test_small_captures_share_a_partition() -> None:
    slices = [Slice(f"{number}", "r", 0, 10, True) for number in range(10)] + [Slice("large", "r", 0, 100, True)]
    assert [len(bundle) for bundle in bundled(slices, 40)] == [4, 4, 2, 1]


# --- runs -----------------------------------------------------------------------------------------------------------


def test_two_runs_with_the_same_node_names_stay_apart(tmp_path: Path) -> None:
    for run, count in (("one", 2), ("two", 3)):
        written(tmp_path / run / "captures" / "A.pcapng", c.header(), c.many(count))
    found = c.rows(tmp_path, "frames", ["run", "seqno"])
    assert [(row["run"], row["seqno"]) for row in found] == [
        ("one", 1), ("one", 2), ("two", 1), ("two", 2), ("two", 3),
    ]  # fmt: skip


def test_runs_whose_directories_have_the_same_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    for lab in ("north", "south"):
        written(tmp_path / lab / "lossy-1" / "captures" / "A.pcapng", c.header(), c.many(1))
    found = c.rows(f"{tmp_path}/*/lossy-1", "frames", ["run"])
    assert [row["run"] for row in found] == ["north/lossy-1", "south/lossy-1"]


def test_a_link_to_a_run_is_not_read_a_second_time(tmp_path: Path) -> None:
    written(tmp_path / "run-1" / "captures" / "A.pcapng", c.header(), c.many(1))
    (tmp_path / "latest").symlink_to("run-1")
    assert len(plan(str(tmp_path), None)) == 1
    assert len(plan(str(tmp_path / "latest"), None)) == 1


@pytest.mark.parametrize("name", ["a,b", "run[1]", "a, b*"])
def test_what_exists_under_a_name_is_meant_by_it(tmp_path: Path, name: str) -> None:
    for run in (name, "a", "b", "run1"):
        written(tmp_path / run / "captures" / "A.pcapng", c.header(), c.many(1))
    assert [part.run for part in plan(str(tmp_path / name), None)] == [name]
    assert [part.run for part in plan([str(tmp_path / name), str(tmp_path / "b")], None)] == [name, "b"]


def test_a_sweep_is_read_with_all_its_runs(tmp_path: Path) -> None:
    for run in ("1-1", "1-2"):
        written(tmp_path / "sweep" / "runs" / run / "captures" / "A.pcapng", c.header(), c.many(1))
    (tmp_path / "sweep" / "latest").symlink_to("runs")
    assert [part.run for part in plan(str(tmp_path / "sweep"), None)] == ["1-1", "1-2"]


def test_thousands_of_runs_are_named_at_once() -> None:
    files = [Path(f"/lab/{day}/run-{number}/captures/A.pcapng") for day in "ab" for number in range(4000)]
    start = time.perf_counter()
    names = run_names([*files, Path("/lab/c/alone/captures/A.pcapng"), Path("/captures/A.pcapng")])
    assert time.perf_counter() - start < 5
    assert [names[file] for file in (files[0], files[4000])] == ["a/run-0", "b/run-0"]
    assert sorted(names.values())[0] == "/"
    assert names[Path("/lab/c/alone/captures/A.pcapng")] == "alone"


def test_a_path_without_captures_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no captures"):
        plan(str(tmp_path), None)


def test_identity_of_many_nodes_is_read_whole(file: Path) -> None:
    names = tuple(f"device-with-a-long-name-{number}" for number in range(20_000))
    written(file, c.header(20_000, RunIdentity("big", names=names)), c.delivered(1, 1, node=20_000))
    assert c.rows(file, "events", ["node", "seqno"]) == [{"node": 20_000, "seqno": 1}]
