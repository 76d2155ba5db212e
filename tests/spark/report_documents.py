"""Documents made by hand, with something in every part of the page."""

from __future__ import annotations

import msgspec

from castbed_spark.report.document import (
    Buffer,
    Clock,
    ControlBytes,
    Diagram,
    Distribution,
    Document,
    Fault,
    Mark,
    Node,
    OverTime,
    Property,
    RoleLoad,
    Run,
    Story,
    Witness,
)

GROWING = tuple(0.1 * 1.2**at for at in range(49))
SKEWED = Distribution(100, 5.0, 2.0, 40.0, 500.0, 630.0, GROWING, tuple(range(48)), True)
EVEN = Distribution(10, 5.0, 5.0, 9.0, 10.0, 10.0, (0.0, 5.0, 10.0), (4, 6))
TWICE: list[Mark] = [(1.207, 2, "deliver", "h1.2"), (1.9, 2, "deliver", "h1.2")]


def run(name: str = "good-1", violated: bool = False) -> Run:
    """A run of three nodes and eight messages."""
    duplication = Property("no_duplication", True, 0)
    if violated:
        witness = Witness("h2 delivered h1.2 again.", ["1.207 s: h2 delivers h1.2"], TWICE, ["h1.2"])
        duplication = Property("no_duplication", False, 2, [witness, witness])
    return Run(
        name=name, protocol="eomp", variant="published" if violated else "repaired", transport="sim", seed=1,
        model="three_tier", virtual_s=2.0, nodes=[Node("S1", "station"), Node("h1", "host"), Node("h2", "host")],
        summary={
            "submitted": 8, "delivered": 16, "expected": 16, "duplicates": 0, "held_at_end": 0, "frames": 30,
            "events": 24,
        },
        properties=[Property("integrity", True, 0), duplication],
        problems=["h2: 3 foreign frames were skipped"],
        faults=[Fault("loss", 41)],
        latency=SKEWED, holds=EVEN, needless=EVEN, gaps=Distribution(), silences=EVEN,
        over_time=OverTime(0.5, [2, 2, 2, 2], [4, 4, 4, 4]),
        control=[ControlBytes("Numbered", 20, 300, 2000), ControlBytes("</script><b>", 10, 50, 0)],
        buffers=[Buffer("S1", "held", [(0.0, 0.0), (0.5, 3.0), (1.5, 0.0)])],
        roles=[RoleLoad("station", 1, 20, 10, 2000, 1000), RoleLoad("host", 2, 10, 20, 1000, 2000)],
        clocks=[Clock("S1", 0.0, 0.0, 0.0), Clock("h1", 12.5, 3.0, 40.0), Clock("h2", 0.0, 0.0, None)],
        diagram=Diagram([_story(number) for number in range(1, 9)], [(1.0, 1, "crash", "")], 5),
    )  # fmt: skip


def _story(number: int) -> Story:
    at = number * 0.2
    marks: list[Mark] = [(at, 1, "submit", ""), (at + 0.002, 2, "hold", ""), (at + 0.003, 2, "deliver", "")]
    hops = [(at, 1, at + 0.001, 0, "Request"), (at + 0.001, 0, at + 0.002, 2, "Numbered")]
    return Story(f"h1.{number}", "1", 64, marks, hops)


def document(*runs: Run) -> Document:
    return Document("A <title> & more", "castbed 0.1.0", "2026-11-18", list(runs))


def empty_run() -> Run:
    """A run in which nothing happened."""
    return msgspec.structs.replace(
        run(), properties=[], problems=[], faults=[], latency=Distribution(), holds=Distribution(),
        needless=Distribution(), silences=Distribution(), over_time=OverTime(0.5, [0], [0]), control=[], buffers=[],
        roles=[], clocks=[], diagram=Diagram(),
    )  # fmt: skip
