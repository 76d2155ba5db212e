"""TV13: EOMP over the cellular channel of section 5, as a golden transcript from the captures of a simulated run.

Hosts x, y and z are in the cell of M1, the writer elsewhere. The message is four frames long; y misses the assignment,
z the second frame. Each line is one transmission on M1's air: who sent it, what it is, who heard it.
"""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

from castbed import Kind, Packet, load_registry
from castbed.capture import read_captures, read_history
from castbed.parts.cell_channel import CHANNEL_LEFT, FAMILY, NO_ASSIGNMENT, PACKETS, Assign, Frame, Page, Release
from castbed.wire import ETHERNET_BYTES, Codec
from castbed_plugins import eomp
from castbed_plugins.eomp import packets as p
from castbed_testbed.experiment import load
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import CaptureRecorder
from castbed_testbed.sim.runner import simulate

SAID_AT = 5 * 10**9
CELL = ("M1", "x", "y", "z")
CODEC = Codec({FAMILY: PACKETS, "eomp": eomp.PROTOCOL.packets})
FORMS: dict[type[Packet], str] = {
    Page: "PAGE(group)",
    Assign: "ASSIGN(group)",
    Frame: "FRAME(group,counter)",
    Release: "RELEASE()",
    p.McastDel: "MCASTDEL(group,seq)",
    p.Nack: "NACK(last)",
    p.Retrans: "RETRANS(group,seq)",
}

UNDISTURBED = """\
    M1 PAGE(1): x y z
    M1 ASSIGN(1): x y z
    M1 FRAME(1,0): x y z
    M1 FRAME(1,1): x y z
    M1 FRAME(1,2): x y z
    M1 FRAME(1,3): x y z
    M1 MCASTDEL(1,1): x y z
    M1 RELEASE(): x y z
    y NACK(((1, 1),)): M1
    z NACK(((1, 1),)): M1
    x NACK(((1, 1),)): M1
"""
DISTURBED = """\
    M1 PAGE(1): x y z
    M1 ASSIGN(1): x z
    M1 FRAME(1,0): x z
    M1 FRAME(1,1): x
    M1 FRAME(1,2): x
    M1 FRAME(1,3): x
    M1 MCASTDEL(1,1): x
    M1 RELEASE(): x
    y NACK(((1, 0),)): M1
    M1 RETRANS(1,1): y
    z NACK(((1, 0),)): M1
    M1 RETRANS(1,1): z
    x NACK(((1, 1),)): M1
"""


class Heard(NamedTuple):
    """A frame on the air as one node saw it."""

    at: int
    node: str
    outgoing: bool
    sender: str
    packet: Packet


class Run:
    """What the captures of a run say."""

    def __init__(self, directory: Path, cuts: list[dict[str, Any]]) -> None:
        directory.mkdir()
        plan = make_plan(load(experiment(cuts)).experiment, load_registry())
        simulate(plan, CaptureRecorder(directory, plan.identity()))
        self.history = read_history(directory)
        self.frames = []
        for capture in read_captures(directory):
            for frame in (f for f in capture.frames if f.medium == "air" and f.at >= SAID_AT):
                packet, sender = CODEC.decode(frame.data[ETHERNET_BYTES:])
                name = self.history.name
                self.frames.append(Heard(frame.at, name(capture.node), frame.outgoing, name(sender), packet))

    def sent_blocks(self) -> list[tuple[int, Packet]]:
        """What M1 put on the channel, and when."""
        return [(f.at, f.packet) for f in self.frames if f.outgoing and type(f.packet) in PACKETS]

    def transcript(self) -> str:
        lines: dict[tuple[int, str], list[str]] = {}
        arrived = (f for f in self.frames if not f.outgoing and f.node in CELL and type(f.packet) in FORMS)
        for frame in sorted(arrived, key=attrgetter("at")):
            tag, _, fields = FORMS[type(frame.packet)].rstrip(")").partition("(")
            shown = ",".join(str(getattr(frame.packet, field)) for field in fields.split(",") if field)
            lines.setdefault((frame.at, f"{frame.sender} {tag}({shown})"), []).append(frame.node)
        return "".join(f"{what}: {' '.join(nodes)}\n" for (_, what), nodes in lines.items())

    def delivered(self) -> dict[str, int]:
        """How many messages each host delivered."""
        events = self.history.of(Kind.DELIVER)
        return {name: sum(self.history.name(event.node) == name for event in events) for name in "xyz"}

    def notes(self) -> list[tuple[str, str]]:
        return [(self.history.name(event.node), event.text) for event in self.history.of(Kind.NOTE)]


def experiment(cuts: list[dict[str, Any]]) -> dict[str, Any]:
    options = {"request_timeout": "5s", "greet_timeout": "5s", "nack_period": "20s"}
    return {
        "name": "tv13",
        "protocol": {"name": "eomp", "variant": "published", "options": options},
        "seed": 1,
        "duration": "10s",
        "drain": "14s",
        "topology": {
            "kind": "three_tier",
            "coordinators": {"C1": ["M1"], "C2": ["M2"]},
            "hosts": {"x": "M1", "y": "M1", "z": "M1", "writer": "M2"},
            "groups": {"1": ["x", "y", "z"]},
            "air": {"backend": "gsm", "gsm": {"hold_frames": 0}},
        },
        "workload": {"kind": "script", "lines": [{"node": "writer", "at": "5s", "say": "a message of four frames"}]},
        "faults": {"cuts": cuts},
    }


def missing(target: str, sent_at: int) -> dict[str, str]:
    """The host does not hear what M1 sends at this time."""
    return {"source": "M1", "target": target, "start": f"{sent_at}ns", "end": f"{sent_at + 1}ns"}


def test_tv13_who_missed_something_catches_up_by_nack(tmp_path: Path) -> None:
    """TV13: x gets the message from the burst; y and z get nothing of it, not even a part, and catch up."""
    plain = Run(tmp_path / "plain", [])
    assert plain.transcript() == dedent(UNDISTURBED)

    _, (assigned_at, _), _, (second_at, second), *_ = plain.sent_blocks()
    assert isinstance(second, Frame)
    assert second.counter == 1
    run = Run(tmp_path / "cut", [missing("y", assigned_at), missing("z", second_at)])
    assert run.transcript() == dedent(DISTURBED)
    assert run.notes() == [("y", NO_ASSIGNMENT), ("z", CHANNEL_LEFT)]
    assert plain.delivered() == run.delivered() == {"x": 1, "y": 1, "z": 1}
    assert load_registry().violations(run.history, list(run.history.identity.guarantees), "") == {
        name: [] for name in run.history.identity.guarantees
    }


def test_tv13_the_station_sends_the_same_whoever_hears_it(tmp_path: Path) -> None:
    """TV13: MSS behaviour is identical in all cases."""
    plain = Run(tmp_path / "plain", [])
    sent = plain.sent_blocks()
    deaf = Run(tmp_path / "deaf", [missing(name, sent[0][0]) for name in "xyz"])
    assert deaf.sent_blocks() == sent
    assert "FRAME" not in deaf.transcript()
    assert deaf.delivered() == {"x": 1, "y": 1, "z": 1}
