"""The cell workload as a Castbed protocol: 4 senders, a wired hop to each of 32 cells, one broadcast in each.

Each host checks the number of every message against the last one of its sender, as the SimPy twin does.
"""

from __future__ import annotations

from castbed import Machine, Message, Mid, Packet, Protocol, Variant, hookimpl, on
from castbed.registry import Register

SENDERS, RATE, CELLS, PER_CELL = 4, 250, 32, 16


class Hop(Packet, frozen=True, tag=1):
    """On the wire, from the sender to a station."""

    group: int
    mid: Mid
    payload: bytes


class Air(Packet, frozen=True, tag=2):
    """On the air, from a station to its hosts."""

    group: int
    mid: Mid
    payload: bytes


class Station(Machine):
    """Sends what is submitted to all stations; broadcasts what comes over the wire."""

    def submitted(self, message: Message) -> None:
        message = self.accept(message)
        self.multicast(self.context.topology.numbers("station"), Hop(message.group, message.mid, message.payload))

    @on(Hop)
    def relay(self, packet: Hop, _sender: int) -> None:
        self.broadcast(Air(packet.group, packet.mid, packet.payload))


class Host(Machine):
    """Delivers each sender's messages in order."""

    def started(self) -> None:
        self.expected = [1] * (CELLS + 1)

    @on(Air)
    def received(self, packet: Air, _sender: int) -> None:
        mid = packet.mid
        author = mid.sender
        if mid.seqno == self.expected[author]:
            self.expected[author] = mid.seqno + 1
            self.deliver(Message(mid, packet.group, packet.payload))


CELLS_PROTOCOL = Protocol(
    "cells",
    "The benchmark's cell workload",
    "cellular",
    (Hop, Air),
    {
        "published": Variant(
            {"station": Station, "host": Host},
            frozenset({"air", "wire", "reliable_air", "fifo_air", "fifo_wire"}),
            ("integrity", "no_duplication", "fifo"),
        )
    },
)


@hookimpl
def castbed_protocols(register: Register[Protocol]) -> None:
    register.add(CELLS_PROTOCOL)


def experiment(seconds: float) -> dict[str, object]:
    """The experiment data; airtime and delays are those of the SimPy model (0.4 ms, 1 ms, 1 us)."""
    frame_bits = (14 + 44 + 64) * 8
    return {
        "name": "cells512",
        "protocol": {"name": "cells"},
        "seed": 1,
        "duration": f"{seconds:g}s",
        "drain": "1s",
        "topology": {
            "kind": "cellular",
            "stations": CELLS,
            "hosts": CELLS * PER_CELL,
            "air": {"rate": f"{frame_bits / 0.4e-3 / 1e3:g}kbit/s", "delay": "1us"},
            "wire": {"rate": "10Gbit/s", "delay": "1ms"},
        },
        "workload": {
            "kind": "steady",
            "arrivals": "regular",
            "rate": RATE,
            "size": "64B",
            "senders": [f"S{number}" for number in range(1, SENDERS + 1)],
        },
    }
