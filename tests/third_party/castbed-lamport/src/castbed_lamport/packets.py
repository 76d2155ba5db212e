"""What members broadcast. `number` counts all packets of a sender, so that receivers can put them back in order."""

from __future__ import annotations

from castbed import Group, Mid, Packet


class Data(Packet, frozen=True, tag=1):
    """A message, stamped with its sender's clock."""

    group: Group
    mid: Mid
    payload: bytes
    parent: Mid | None
    number: int
    clock: int


class Ack(Packet, frozen=True, tag=2):
    """Nothing but a stamp: its sender will never again send an earlier one."""

    number: int
    clock: int
