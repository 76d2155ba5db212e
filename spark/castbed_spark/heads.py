"""What a capture opens with: the run, the node and the interfaces. Little is read, however long the file is."""

from __future__ import annotations

from pathlib import Path
from struct import Struct

import msgspec

from castbed import pcapng
from castbed.capture import AIR, EVENTS, INTERFACES, WIRE, identified
from castbed.history import RunIdentity
from castbed.values import NodeNumber

HEAD_BYTES = 256 * 1024  # holds the head of a run with thousands of nodes; more is read where it does not suffice
HEAD_BYTES_MAX = 2 * pcapng.BLOCK_BYTES_MAX
BYTE_ORDER_AT = 8
_MARKS = {pcapng.BYTE_ORDER_MAGIC.to_bytes(4, "little"): "<", pcapng.BYTE_ORDER_MAGIC.to_bytes(4, "big"): ">"}

Medium = int
OTHER = -1
_MEDIA: dict[tuple[str, int], Medium] = {INTERFACES[medium]: medium for medium in (AIR, EVENTS, WIRE)}


class Head(msgspec.Struct):
    """The section in force: byte order, interfaces so far, and whose capture it is (None: not one of Castbed)."""

    mark: str
    interfaces: list[pcapng.Interface]
    identity: RunIdentity | None
    node: NodeNumber

    def media(self) -> list[Medium]:
        """AIR, EVENTS, WIRE or OTHER, by the number of the interface."""
        return [_MEDIA.get(interface.what, OTHER) for interface in self.interfaces]

    @property
    def whose(self) -> tuple[RunIdentity | None, NodeNumber]:
        return self.identity, self.node


def head_of(data: bytes) -> Head | None:
    """The head at the start of `data`, which begins with a section; None when that is no section."""
    reader = pcapng.Reader(data)
    if reader.first_section() is None:
        return None
    next(iter(reader), None)
    section = reader.sections[0]
    whose = identified(section) or (None, 0)
    return Head(_MARKS[data[BYTE_ORDER_AT : BYTE_ORDER_AT + 4]], section.interfaces, *whose)


def add_interface(head: Head, block: bytes) -> bool:
    """Add the interface that `block` describes; False when it describes none."""
    reader = pcapng.Reader(_bare_section(head.mark) + block)
    list(reader)
    head.interfaces.extend(reader.sections[0].interfaces)
    return bool(reader.sections[0].interfaces)


def _bare_section(mark: str) -> bytes:
    return Struct(mark + "IIIHHqI").pack(pcapng.SECTION_HEADER, 28, pcapng.BYTE_ORDER_MAGIC, 1, 0, -1, 28)


def read_head(path: Path) -> Head | None:
    """The head of a file; None when it is no capture of Castbed."""
    size = HEAD_BYTES
    with path.open("rb") as file:
        data = file.read(size)
        while (head := _whole(data)) is None and len(data) == size < HEAD_BYTES_MAX:
            size *= 2
            data += file.read(size - len(data))
    found = head or head_of(data)
    return found if found is not None and found.identity is not None else None


def _whole(data: bytes) -> Head | None:
    """The head, if a packet follows it in `data`, so that nothing of it can be missing."""
    head = head_of(data)
    return head if head is not None and next(iter(pcapng.Reader(data)), None) is not None else None
