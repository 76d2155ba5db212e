"""Queues of the simulator's media as papers model them: shared uplinks, one wired transmitter per node, sizes, levels.

Frames have 100 bytes, 800 us at 1 Mbit/s on the air and 8 us at 100 Mbit/s on a wire; times are in microseconds.
"""

from __future__ import annotations

from typing import Any

import pytest
from testbed_support import FRAME_OVERHEAD_BYTES, changed, planned, probe, refusal, say, script, simulated

from castbed import Kind, Machine, Packet, Protocol, Variant, on
from castbed.actions import Gauge
from castbed.recording import local_event
from castbed.records import decode_event, encode_event
from castbed.registry import load_registry
from castbed_testbed.experiment import load
from castbed_testbed.plan import make_plan
from castbed_testbed.recorder import MemoryRecorder
from castbed_testbed.sim.runner import simulate

MICROSECOND = 1_000
SIZE = 42  # bytes of a probe: with the headers, 100


class Probe(Packet, frozen=True, tag=1):
    """Something of a known size."""

    payload: bytes


class Answer(Packet, frozen=True, tag=2):
    """Another type of the same size."""

    payload: bytes


class Sender(Machine):
    """Hosts send to their station when they are attached; the sequencer sends to all coordinators at the start."""

    def started(self) -> None:
        if self.context.role == "sequencer":
            self.multicast(self.context.peers("coordinator"), Probe(bytes(SIZE)))
        if self.context.role == "station":
            self.broadcast(Probe(bytes(SIZE)))
            self.set_timer("sent", 100 * MICROSECOND, when_sent=True)
            self.gauge("waiting", 3)

    def attached(self, station: int) -> None:
        self.send(station, Answer(bytes(SIZE)))

    def expired(self, timer: Any) -> None:
        self.note(f"expired {timer}")

    @on(Probe, Answer)
    def heard(self, packet: Probe | Answer, sender: int) -> None:
        self.note(f"{type(packet).__name__} of {self.context.topology.name(sender)}")


ROLES = dict.fromkeys(("host", "station", "coordinator", "sequencer"), Sender)
PROTOCOL = Protocol("queueing", "Sends", "three_tier", (Probe, Answer), {"plain": Variant(ROLES, frozenset(), ())})


def notes(topology: dict[str, Any] | None = None, **changes: Any) -> dict[str, list[tuple[str, int]]]:
    """What each node notes, and when; two coordinators with one station each, two hosts in the first cell."""
    data = {
        "name": "queues",
        "protocol": {"name": "queueing"},
        "duration": "1s",
        "topology": {
            "kind": "three_tier",
            "coordinators": {"C1": ["S1"], "C2": ["S2"]},
            "hosts": {"a": "S1", "b": "S1"},
            "air": {"rate": "1Mbit/s", "delay": "0ms"},
            "wire": {"rate": "100Mbit/s", "delay": "0ms"},
        },
    } | changes
    for path, value in (topology or {}).items():
        data = changed(f"topology.{path}", value, data)
    registry = load_registry()
    registry.protocols.add(PROTOCOL)
    plan = make_plan(load(data).experiment, registry)
    recorder = MemoryRecorder(plan.identity())
    simulate(plan, recorder)
    found: dict[str, list[tuple[str, int]]] = {node.name: [] for node in plan.topology.nodes}
    for event in recorder.events:
        if event.kind == Kind.NOTE:
            found[plan.topology.name(event.node)].append((event.text, event.at // MICROSECOND))
    return found


def test_hosts_send_at_the_same_time_unless_they_share_the_uplink() -> None:
    apart, shared = notes(), notes({"air.shared": "uplink"})
    assert sorted(at for what, at in apart["S1"] if "Answer" in what) == [800, 800]
    assert sorted(at for what, at in shared["S1"] if "Answer" in what) == [800, 1600]
    assert ("Probe of S1", 800) in shared["a"]


def test_a_half_duplex_cell_has_one_queue_for_both_directions() -> None:
    seen = notes({"air.shared": "cell"})
    times = sorted(at for what, at in seen["S1"] if "Answer" in what)
    down = next(at for what, at in seen["a"] if "Probe" in what)
    assert sorted([*times, down]) == [800, 1600, 2400]


def test_a_timer_can_count_from_when_everything_is_sent() -> None:
    assert ("expired sent", 900) in notes()["S2"]
    assert ("expired sent", 900) in notes({"air.shared": "uplink"})["S1"]


def test_a_node_with_one_transmitter_sends_its_copies_one_after_the_other() -> None:
    together, in_turn = notes(), notes({"wire.transmitter": "node"})
    assert [together[name] for name in ("C1", "C2")] == [[("Probe of Q", 8)], [("Probe of Q", 8)]]
    assert [in_turn[name] for name in ("C1", "C2")] == [[("Probe of Q", 8)], [("Probe of Q", 16)]]


def test_a_wired_multicast_is_one_transmission() -> None:
    seen = notes({"wire.transmitter": "node", "wire.fanout": "multicast"})
    assert [seen[name] for name in ("C1", "C2")] == [[("Probe of Q", 8)], [("Probe of Q", 8)]]


def test_a_wired_multicast_keeps_to_delays_that_vary() -> None:
    wire = {"transmitter": "node", "fanout": "multicast", "delay": {"kind": "uniform", "low": "1ms", "high": "90ms"}}
    seen = notes({"wire": wire})
    assert seen["C1"] != seen["C2"]


def test_a_message_may_take_the_time_of_its_payload_alone() -> None:
    seen = notes({"air.sizes": "messages"})
    assert ("Probe of S1", SIZE * 8) in seen["a"]
    assert SIZE + FRAME_OVERHEAD_BYTES == 100


def test_loss_can_spare_a_packet_type() -> None:
    seen = notes(faults={"loss": 1.0, "loss_spares": ["Answer"]})
    assert seen["a"] == []
    assert sorted(what for what, _ in seen["S1"] if "Answer" in what) == ["Answer of a", "Answer of b"]


def test_a_type_that_the_protocol_does_not_have_cannot_be_spared() -> None:
    data = changed("faults", {"loss": 0.1, "loss_spares": ["Nack"]}, probe())
    assert refusal(data).startswith("faults.loss_spares: ")


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ("topology.wire", {"fanout": "multicast"}, "topology.wire.fanout: "),
        ("topology.groups_of_each", 1, "topology.groups_of_each: "),
        ("topology.groups", 0, "topology.groups: "),
        ("topology.air", {"shared": "everywhere"}, "topology.air.shared: "),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(path: str, value: Any, key: str) -> None:
    assert refusal(changed(path, value, probe())).startswith(key)


def test_groups_by_number_hold_everybody_or_deal_them_out() -> None:
    data = changed("topology.groups", 2, probe(workload=script(say("A", "10ms", group="2"))))
    assert simulated(data).delivered("B") == ["A1"]
    dealt = changed("topology.groups_of_each", 1, changed("topology.groups", 2, probe()))
    assert planned(dealt).topology.groups == {1: (1, 3), 2: (2,)}


def test_a_gauge_is_an_event_of_its_own() -> None:
    event = local_event(1, 5, Gauge("buffer", 7))
    assert event is not None
    assert decode_event(encode_event(event), 5) == event
    assert (event.kind, event.text, event.number) == (Kind.GAUGE, "buffer", 7)
