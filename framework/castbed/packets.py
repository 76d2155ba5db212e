"""What travels: packets between machines, commands from the application, notices back to it.

A packet type is a frozen Struct whose `tag` is its kind, a number that is unique in its protocol:

    class Data(Packet, frozen=True, tag=1):
        group: Group
        mid: Mid
        payload: bytes
        parent: Mid | None

The fields `group`, `mid` and `payload` are special: the first two travel in the fixed header, the payload behind the
body, and everything else is the body, the *control information* whose size each frame states. Fields are immutable
values (numbers, bytes, text, tuples, frozen Structs), because receivers in one process share the packet.
"""

from __future__ import annotations

import msgspec


class Packet(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all packet types."""


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what an application may ask of a machine besides sending (join, leave, ...).

    The class name in kebab-case is how a script names the command: `CreateGroup` is `create-group`.
    """


class Notice(msgspec.Struct, frozen=True):
    """Base of what a machine tells its application besides deliveries (a group was offered, ...)."""


def kind_of(packet_type: type[Packet]) -> int:
    """The number that stands for the packet type on the wire."""
    tag = packet_type.__struct_config__.tag
    if not isinstance(tag, int) or not 0 < tag < 1 << 16:
        raise TypeError(
            f"{packet_type.__name__} needs a kind: class {packet_type.__name__}(Packet, frozen=True, tag=1..65535)"
        )
    return tag


def command_name(command_type: type[Command]) -> str:
    """`CreateGroup` is written `create-group` in scripts and on the command line."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in command_type.__name__).lstrip("-")
