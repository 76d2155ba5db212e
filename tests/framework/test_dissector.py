"""The Wireshark dissector: tshark opens captures, finds nothing wrong with them and names what is in them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from castbed.capture import AIR, WIRE, CaptureWriter
from castbed.dissector import lua_dissector
from castbed.history import Kind, LocalEvent, RunIdentity
from castbed.packets import Packet
from castbed.records import RECORD_FIELDS
from castbed.values import Mid, created_group
from castbed.wire import HEADER_FIELDS, Codec, ethernet_frame, family_number

TSHARK_SECONDS_MAX = 60
pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


class Data(Packet, frozen=True, tag=1):
    group: int
    mid: Mid
    payload: bytes
    parent: Mid | None


class Hello(Packet, frozen=True, tag=2):
    pass


class Stranger(Packet, frozen=True, tag=9):
    pass


CODEC = Codec({"sb": (Data, Hello), "unheard-of": (Stranger,)})
ODD_NAME = 'quo"te\\ @header@ ü\n'
PROTOCOLS = {"sb": {1: "Data", 2: "Hello"}, ODD_NAME: {1: ODD_NAME}}


def frame(packet: Packet, sender: int, to: int = 0) -> bytes:
    return ethernet_frame(CODEC.encode(packet, sender), sender, to)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("captures") / "C.pcapng"
    writer = CaptureWriter(path, RunIdentity(names=("A", "B", "C")), 3)
    for number, kind in enumerate(Kind, start=1):
        writer.event(LocalEvent(3, number, kind))
    writer.event(LocalEvent(3, 20, Kind.HOLD, 1, Mid(2, 3), Mid(1, 7, 2), waiting_for=(Mid(1, 7, 2),)))
    writer.frame(AIR, 21, frame(Data(1, Mid(2, 3), b"hello world", Mid(1, 7)), 2), outgoing=False)
    writer.frame(AIR, 22, frame(Data(created_group(4, 3), Mid(2, 2**63, 5), b"", None), 2), outgoing=True)
    writer.frame(WIRE, 23, frame(Hello(), 3, 2), outgoing=True)
    writer.frame(WIRE, 24, frame(Stranger(), 3, 2), outgoing=True)
    writer.frame(AIR, 25, b"\xff" * 6 + b"\2\xcb\0\0\0\1\x88\xb5" + b"something else on this ethertype", outgoing=False)
    writer.close()
    return path


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lua") / "castbed.lua"
    path.write_text(lua_dissector(PROTOCOLS))
    return path


def tshark(capture: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        ["tshark", "-r", str(capture), *arguments],
        capture_output=True,
        text=True,
        timeout=TSHARK_SECONDS_MAX,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("Running as user")]
    assert (done.returncode, complaints) == (0, [])
    return done.stdout.splitlines()


def fields(capture: Path, script: Path, *names: str) -> list[list[str]]:
    wanted = [part for name in names for part in ("-e", name)]
    lines = tshark(capture, "-X", f"lua_script:{script}", "-T", "fields", *wanted)
    return [line.split("\t") for line in lines]


def test_tshark_opens_a_capture_without_the_dissector(capture: Path) -> None:
    assert len(tshark(capture)) == len(Kind) + 6
    assert tshark(capture, "-Y", "_ws.malformed || _ws.expert.severity >= error") == []


def test_tshark_finds_nothing_to_remark_with_the_dissector(capture: Path, script: Path) -> None:
    use = ("-X", f"lua_script:{script}")
    assert len(tshark(capture, *use, "-Y", "castbed")) == len(Kind) + 5
    assert tshark(capture, *use, "-Y", "_ws.malformed || _ws.expert || _ws.lua.error") == []


def test_every_local_event_has_its_name(capture: Path, script: Path) -> None:
    names = [row[0] for row in fields(capture, script, "castbed.event")]
    assert names[: len(Kind)] == [kind.name for kind in Kind]


def test_identities_are_shown_as_text(capture: Path, script: Path) -> None:
    rows = fields(
        capture, script, "castbed.mid", "castbed.parent", "castbed.event", "castbed.protocol", "castbed.kind_name"
    )
    assert rows[len(Kind) :] == [
        ["2.3", "1.7~2", "HOLD", "", ""],
        ["2.3", "", "", "sb", "Data"],
        ["2.9223372036854775808~5", "", "", "sb", "Data"],
        ["", "", "", "sb", "Hello"],
        ["", "", "", f"family {family_number('unheard-of'):#06x}", "kind 9"],
        ["", "", "", "", ""],
    ]


def test_the_info_column_says_it_in_one_line(capture: Path, script: Path) -> None:
    lines = [row[0] for row in fields(capture, script, "_ws.col.Info")][len(Kind) :]
    assert lines[:4] == [
        "HOLD 2.3",
        "sb Data 2.3 group 1 control 5 payload 11",
        "sb Data 2.9223372036854775808~5 group 4.3 control 2 payload 0",
        "sb Hello group 0 control 0 payload 0",
    ]


def test_every_field_of_the_format_can_be_asked_for(capture: Path, script: Path) -> None:
    for definition, number in ((HEADER_FIELDS, len(Kind) + 1), (RECORD_FIELDS, len(Kind))):
        names = ["event_kind" if definition is RECORD_FIELDS and name == "kind" else name for name, _, _ in definition]
        row = fields(capture, script, *(f"castbed.{name}" for name in names))[number]
        assert all(row), dict(zip(names, row, strict=True))


def test_body_payload_and_detail_are_shown_as_bytes(capture: Path, script: Path) -> None:
    rows = fields(capture, script, "castbed.body", "castbed.payload", "castbed.detail")
    assert rows[len(Kind)][2].startswith("81ab")
    assert rows[len(Kind) + 1][:2] == ["9193010700", b"hello world".hex()]


def test_equal_protocols_give_equal_scripts(script: Path) -> None:
    assert lua_dissector(PROTOCOLS) == script.read_text()
    assert script.read_text().isascii()
