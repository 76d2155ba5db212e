"""A protocol that is nothing but the cellular channel: what a station says is sent to the hosts of its cell, once.

A host delivers what it gets and asks for nothing, so what the channel loses stays lost and can be counted.
"""

from __future__ import annotations

from castbed import Context, Group, Machine, Message, Mid, NodeNumber, Protocol, Variant, hookimpl
from castbed.parts import CellOptions, CellRx, CellTx
from castbed.registry import Register

SEQNO_BYTES = 4


class RadioStation(Machine):
    """Numbers what its application says and puts it on the channel."""

    def __init__(self, context: Context, options: CellOptions | None) -> None:
        super().__init__(context, options)
        self.cell = self.part("cell", CellTx, options)

    def submitted(self, message: Message) -> None:
        accepted = self.accept(message)
        number = accepted.mid.seqno.to_bytes(SEQNO_BYTES, "big")
        if not self.cell.queue(accepted.group, number + accepted.payload):
            self.note("not queued", accepted.mid, accepted.group)


class RadioHost(Machine):
    """Delivers what the channel hands to it."""

    def __init__(self, context: Context, options: CellOptions | None) -> None:
        super().__init__(context, options)
        self.cell = self.part("cell", CellRx.handing_to(self._received), options)
        self.station: NodeNumber = 0
        self.got: list[tuple[Group, bytes]] = []
        for group, members in context.topology.groups.items():
            if self.me in members:
                self.cell.subscribe(group)

    def attached(self, station: NodeNumber) -> None:
        self.station = station

    def detached(self) -> None:
        self.cell.left_cell()

    def _received(self, group: Group, payload: bytes) -> None:
        self.got.append((group, payload[SEQNO_BYTES:]))
        mid = Mid(self.station, int.from_bytes(payload[:SEQNO_BYTES], "big"))
        self.deliver(Message(mid, group, payload[SEQNO_BYTES:]))


PROTOCOL = Protocol(
    name="cell-radio",
    summary="What a station says is sent to its cell, once",
    model="cellular",
    packets=CellTx.PACKETS,
    variants={
        "plain": Variant(
            roles={"station": RadioStation, "host": RadioHost},
            needs=frozenset({"air"}),
            guarantees=("integrity", "no_duplication"),
        )
    },
    options=CellOptions,
)


@hookimpl
def castbed_protocols(register: Register[Protocol]) -> None:
    """Makes this module a plugin: `load_registry(extra={"cell-radio": cell_radio})`."""
    register.add(PROTOCOL)
