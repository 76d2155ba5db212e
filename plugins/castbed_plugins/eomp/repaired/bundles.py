"""Several messages in one packet: consecutive ones of one sender, for one group.

A bundle is numbered, kept, passed on and repeated as a whole; only its sender and the hosts that deliver it look at the
single messages. Stations and the core handle it at the cost of one message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from castbed import Group, Message, Mid, Number, Packet, PeerError
from castbed_plugins.eomp.packets import Carrier

MESSAGES_MAX = 1024  # in one bundle; a host that keeps early messages keeps at most so many beyond its limit
SIZE_BYTES = 3  # what a message takes besides its payload: its size
PARENT_BYTES = 24  # and the message that it answers, if it answers one

Sizes = Annotated[tuple[Number, ...], msgspec.Meta(min_length=1, max_length=MESSAGES_MAX)]
Parents = tuple[tuple[Number, Mid], ...]
"""Which messages of a bundle, counted from 0, answer which; the others answer none."""


class Bundle(Packet, frozen=True):
    """What all packets with several messages have: `payload` is those of all, one behind the other."""

    group: Group
    first: Mid
    payload: bytes
    sizes: Sizes
    parents: Parents

    @property
    def last(self) -> Mid:
        first = self.first
        return Mid(first.sender, first.seqno + len(self.sizes) - 1, first.incarnation)

    def messages(self) -> list[Message]:
        """All of them, in order."""
        sender, seqno, life = self.first.sender, self.first.seqno, self.first.incarnation
        group, payload, answered, end = self.group, self.payload, dict(self.parents), 0
        if not answered:
            return [
                Message(Mid(sender, number, life), group, payload[end : (end := end + size)])
                for number, size in enumerate(self.sizes, seqno)
            ]
        return [
            Message(Mid(sender, seqno + at, life), group, payload[end : (end := end + size)], answered.get(at))
            for at, size in enumerate(self.sizes)
        ]


Contents = tuple[Group, Mid, bytes, Sizes, Parents]


def contents(bundle: Bundle) -> Contents:
    """The fields of a Bundle."""
    return bundle.group, bundle.first, bundle.payload, bundle.sizes, bundle.parents


def bundled(messages: Sequence[Message]) -> Contents:
    """The fields of a Bundle of these messages."""
    parents = tuple((at, message.parent) for at, message in enumerate(messages) if message.parent is not None)
    payloads = [message.payload for message in messages]
    return messages[0].group, messages[0].mid, b"".join(payloads), tuple(map(len, payloads)), parents


def contents_after(bundle: Contents, skipped: int) -> Contents:
    """What is left of a bundle without its first messages."""
    if not skipped:
        return bundle
    group, first, payload, sizes, parents = bundle
    rest = Mid(first.sender, first.seqno + skipped, first.incarnation)
    later = tuple((at - skipped, parent) for at, parent in parents if at >= skipped)
    return group, rest, payload[sum(sizes[:skipped]) :], sizes[skipped:], later


def check_bundle(bundle: Bundle) -> None:
    """It holds messages, and nothing else."""
    sizes = bundle.sizes
    if not 0 < len(sizes) <= MESSAGES_MAX or sum(sizes) != len(bundle.payload):
        raise PeerError(f"a bundle of {len(sizes)} messages with {len(bundle.payload)} bytes, which are others")
    if any(at >= len(sizes) for at, _ in bundle.parents):
        raise PeerError("a bundle that says what messages answer that are not in it")


def bytes_in_bundle(message: Message) -> int:
    """What the message takes of a bundle, at most."""
    return len(message.payload) + (SIZE_BYTES if message.parent is None else SIZE_BYTES + PARENT_BYTES)


def fits_behind(last: Message, message: Message) -> bool:
    """Whether the message may follow that one in a bundle."""
    before, mid = last.mid, message.mid
    return message.group == last.group and mid.seqno == before.seqno + 1 and mid.incarnation == before.incarnation


# --- packets with one message or several -----------------------------------------------------------------------------


def count_of(packet: Carrier | Bundle) -> int:
    return len(packet.sizes) if isinstance(packet, Bundle) else 1


def first_of(packet: Carrier | Bundle) -> Mid:
    return packet.first if isinstance(packet, Bundle) else packet.mid


def last_of(packet: Carrier | Bundle) -> Mid:
    return packet.last if isinstance(packet, Bundle) else packet.mid


def messages_of(packet: Carrier | Bundle) -> list[Message]:
    return packet.messages() if isinstance(packet, Bundle) else [packet.message]
