"""What the core knows: which request got which number, who is a member since when, and the messages themselves.

Numbers, requests and members follow from the entries alone, so that every node of the core has the same. A request is
numbered if it is the next of its sender: one more than the last of the same life, or the first of a later life. Of a
bundle that begins before, which a host that restarted may have made, the rest is. What a host asked about a group
counts if its stint is later than the last that counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from castbed import Group, Mid, NodeNumber, Number, PeerError
from castbed_plugins.eomp.repaired.bundles import contents_after, count_of
from castbed_plugins.eomp.repaired.entries import Entries, Joined, Left, Requested, RequestedBundle
from castbed_plugins.eomp.repaired.packets import AnyNumbered, BundleNumbered, Numbered, Stint
from castbed_plugins.eomp.repaired.shelf import Shelf
from castbed_plugins.eomp.vectors import Vector

CHUNK_BYTES = 59_000  # of a snapshot; the log takes less than 60 000
NEVER: Stint = (-1, 0)
"""Of a host that has asked, or sent, nothing."""


class Member(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stay of a host in a group, and the number after which it began."""

    stint: Stint
    start: Number


class _ShelfState(msgspec.Struct, array_like=True):
    """A shelf as it is written."""

    sent: Number
    released: Number
    kept: list[AnyNumbered]
    acked: list[tuple[NodeNumber, Number]]


class _State(msgspec.Struct, array_like=True):
    """A ledger as it is written."""

    number: Number
    taken: list[tuple[NodeNumber, Stint]]
    members: list[tuple[Group, list[tuple[NodeNumber, Member]]]]
    gone: list[tuple[Group, list[tuple[NodeNumber, Stint]]]]
    shelves: list[tuple[Group, _ShelfState]]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_State)


class Ledger:
    """The state that all nodes of the core share."""

    def __init__(self, groups: Mapping[Group, Sequence[NodeNumber]]) -> None:
        self.number = 0
        self.taken: dict[NodeNumber, Stint] = {}
        self.members: dict[Group, dict[NodeNumber, Member]] = {}
        self.gone: dict[Group, dict[NodeNumber, Stint]] = {}
        self.shelves: dict[Group, Shelf] = {}
        for group, hosts in groups.items():
            for host in hosts:
                self._admit(group, host, (0, 0))

    # --- reading -----------------------------------------------------------------------------------------------------

    def is_old(self, mid: Mid) -> bool:
        """Whether the request was numbered, or its sender has forgotten it since."""
        return (mid.incarnation, mid.seqno) <= self.taken.get(mid.sender, NEVER)

    def stint(self, group: Group, host: NodeNumber) -> Stint:
        """The last stint that counted, of a member or of one who was."""
        member = self.member(group, host)
        return member.stint if member is not None else self.gone.get(group, {}).get(host, NEVER)

    def member(self, group: Group, host: NodeNumber) -> Member | None:
        return self.members.get(group, {}).get(host)

    def shelf(self, group: Group) -> Shelf:
        shelf = self.shelves.get(group)
        if shelf is None:
            shelf = self.shelves[group] = Shelf()
        return shelf

    def sent(self) -> dict[Group, int]:
        """How many messages each group has."""
        return {group: shelf.sent for group, shelf in self.shelves.items() if shelf.sent}

    def served(self) -> tuple[Group, ...]:
        """The groups that have members."""
        return tuple(sorted(group for group, hosts in self.members.items() if hosts))

    # --- applying ----------------------------------------------------------------------------------------------------

    def apply(self, entry: Entries) -> AnyNumbered | None:
        """Let the next entry of the log count; returns the messages if it is one that gets numbers."""
        if isinstance(entry, RequestedBundle):
            return self._number_bundle(entry)
        if isinstance(entry, Requested):
            return self._number(entry)
        if isinstance(entry, Joined):
            if entry.stint > self.stint(entry.group, entry.host):
                self._admit(entry.group, entry.host, entry.stint)
        elif isinstance(entry, Left):
            if entry.stint > self.stint(entry.group, entry.host):
                self._dismiss(entry.group, entry.host, entry.stint)
        else:
            member = self.member(entry.group, entry.host)
            if member is not None and member.stint == entry.stint:
                self._dismiss(entry.group, entry.host, entry.stint)
        return None

    def _number(self, entry: Requested) -> Numbered | None:
        mid, group = entry.mid, entry.group
        if numbered_of(self.taken.get(mid.sender, NEVER), mid) != 0:
            return None
        self.taken[mid.sender] = mid.incarnation, mid.seqno
        self.number += 1
        shelf, before = self.shelf(group), self._before(group)
        message = Numbered(group, mid, entry.payload, entry.parent, shelf.sent + 1, self.number, before)
        shelf.put(message)
        return message

    def _number_bundle(self, entry: RequestedBundle) -> BundleNumbered | None:
        first, group, count = entry.first, entry.group, len(entry.sizes)
        skipped = numbered_of(self.taken.get(first.sender, NEVER), first)
        if skipped is None or skipped >= count:
            return None
        self.taken[first.sender] = first.incarnation, first.seqno + count - 1
        shelf, before = self.shelf(group), self._before(group)
        rest = contents_after((group, first, entry.payload, entry.sizes, entry.parents), skipped)
        bundle = BundleNumbered(*rest, shelf.sent + 1, self.number + 1, before)
        self.number += count - skipped
        shelf.put(bundle)
        return bundle

    def _before(self, group: Group) -> Vector:
        if len(self.shelves) == 1:
            return ()
        others = [(other, shelf.sent) for other, shelf in self.shelves.items() if other != group and shelf.sent]
        return tuple(sorted(others)) if others else ()

    def _admit(self, group: Group, host: NodeNumber, stint: Stint) -> None:
        shelf = self.shelf(group)
        self.gone.get(group, {}).pop(host, None)
        self.members.setdefault(group, {})[host] = Member(stint, shelf.sent)
        shelf.acked[host] = shelf.sent

    def _dismiss(self, group: Group, host: NodeNumber, stint: Stint) -> None:
        self.members.get(group, {}).pop(host, None)
        self.gone.setdefault(group, {})[host] = stint
        self.shelf(group).acked.pop(host, None)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[bytes, ...]:
        """All of it, in pieces."""
        state = _State(
            self.number,
            list(self.taken.items()),
            [(group, list(hosts.items())) for group, hosts in self.members.items()],
            [(group, list(hosts.items())) for group, hosts in self.gone.items()],
            [(group, _written(shelf)) for group, shelf in self.shelves.items()],
        )
        whole = _encoder.encode(state)
        return tuple(whole[at : at + CHUNK_BYTES] for at in range(0, len(whole), CHUNK_BYTES))

    def restore(self, chunks: tuple[bytes, ...]) -> None:
        """Become what another node of the core was when it made the snapshot."""
        try:
            state = _decoder.decode(b"".join(chunks))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise PeerError(f"a snapshot that is none: {error}") from None
        shelves = {group: _read(shelf) for group, shelf in state.shelves}
        self.number = state.number
        self.taken = dict(state.taken)
        self.members = {group: dict(hosts) for group, hosts in state.members}
        self.gone = {group: dict(hosts) for group, hosts in state.gone}
        self.shelves = shelves


def numbered_of(taken: Stint, first: Mid) -> int | None:
    """How many requests from this one on have numbers; None if they cannot be the next ones of their sender."""
    life, number = taken
    if first.incarnation == life and 0 < first.seqno <= number + 1:
        return number + 1 - first.seqno
    return 0 if first.incarnation > life and first.seqno == 1 else None


def _written(shelf: Shelf) -> _ShelfState:
    return _ShelfState(shelf.sent, shelf.released, list(shelf.kept.values()), list(shelf.acked.items()))


def _read(state: _ShelfState) -> Shelf:
    """The shelf; PeerError if a message is missing there, or somebody has one that was never sent."""
    shelf = Shelf()
    shelf.sent = state.released
    for message in state.kept:
        if message.seq != shelf.sent + 1:
            raise PeerError(f"a snapshot with message {message.seq} of a group behind message {shelf.sent}")
        shelf.put(message)
    if shelf.sent != state.sent or any(number > state.sent for _, number in state.acked):
        raise PeerError(f"a snapshot that does not hold the {state.sent} messages of a group")
    shelf.released, shelf.acked = state.released, dict(state.acked)
    return shelf


def chosen(candidates: Iterator[AnyNumbered], count: int, size: int) -> tuple[list[AnyNumbered], bool]:
    """As many as fit into one batch of `count` messages and `size` bytes, at least one, and whether there are more."""
    batch: list[AnyNumbered] = []
    for packet in candidates:
        size -= len(packet.payload)
        count -= count_of(packet)
        if batch and min(size, count) < 0:
            return batch, True
        batch.append(packet)
    return batch, False
