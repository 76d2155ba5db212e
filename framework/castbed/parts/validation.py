"""What a message from a peer must look like before a machine may act on it; PeerError otherwise."""

from __future__ import annotations

from castbed.errors import PeerError
from castbed.values import NOBODY, Group, Message, Mid

NODE_LIMIT = 1 << 32  # widths of the frame's header fields
INCARNATION_LIMIT = 1 << 32
SEQNO_LIMIT = 1 << 64


def check_identity(mid: Mid) -> None:
    """Numbers start at 1, somebody wrote it, and it fits a frame's header."""
    if not (NOBODY < mid.sender < NODE_LIMIT and 0 < mid.seqno < SEQNO_LIMIT):
        raise PeerError(f"there is no message {mid.text()}")
    if not 0 <= mid.incarnation < INCARNATION_LIMIT:
        raise PeerError(f"nobody lives {mid.incarnation} lives")


def check_message(message: Message, group: Group) -> None:
    """Of this group, with an identity that can exist, and answering a message that can exist and is not itself."""
    if message.group != group:
        raise PeerError(f"message {message.mid.text()} is of group {message.group}, not of {group}")
    check_identity(message.mid)
    if message.parent is not None:
        check_identity(message.parent)
        if message.parent == message.mid:
            raise PeerError(f"message {message.mid.text()} answers itself")
