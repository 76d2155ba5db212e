"""What the members of a replicated log say to each other, and what of it can be true; kinds 200 to 209 are the log's.

Whatever may be long travels as pieces in front of the packet that needs it: `DoViewChange`, `StartView` and
`RecoveryResponse` end with a `Suffix` that says which pieces belong to it. Wires are FIFO, so the pieces are there when
it comes; where one is missing because somebody crashed in between, the packet that needs it counts as never sent.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from castbed.errors import PeerError
from castbed.packets import Packet
from castbed.values import NodeNumber

ENTRY_BYTES_MAX = 200_000  # with room for the header, one frame
PIECE_BYTES_MAX = 60_000  # of entries in one piece, unless a single one is longer; and of a chunk of a snapshot
PIECE_ENTRIES_MAX = 4_096  # so that short entries do not fill a frame with their lengths
PIECES_MAX = 1 << 14  # of one transfer: almost 1 GB
NUMBER_LIMIT = 1 << 63  # no log is that long and no view comes that late

Lives = tuple[tuple[NodeNumber, int], ...]
"""The latest life that the sender knows of each member, as far as it knows one (a crash vector)."""


class Suffix(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sender's log after operation `start`, in the pieces that were sent just before.

    With `chunks` not None, the first so many pieces are a snapshot of the owner's state after operation `start`, for a
    receiver that committed less. All other pieces are the entries from `start + 1` to `last`.
    """

    start: int
    last: int
    committed: int
    transfer: int
    pieces: int
    chunks: int | None = None


class Prepare(Packet, frozen=True, tag=200):
    """From the leader: here is entry `op`, and everything up to `committed` is committed."""

    view: int
    op: int
    committed: int
    payload: bytes


class PrepareOk(Packet, frozen=True, tag=201):
    """To the leader: all entries up to `op` are here."""

    view: int
    op: int


class Commit(Packet, frozen=True, tag=202):
    """From the leader: everything up to `committed` is committed; its log ends with `last`. Also its sign of life."""

    view: int
    last: int
    committed: int


class StartViewChange(Packet, frozen=True, tag=203):
    """To all: the leader before `view` seems dead; what the sender lacks begins after `committed`."""

    view: int
    committed: int


class DoViewChange(Packet, frozen=True, tag=204):
    """To the leader of `view`: my log, last valid in view `normal`, as far as you lack it."""

    view: int
    normal: int
    lives: Lives
    log: Suffix


class StartView(Packet, frozen=True, tag=205):
    """From the leader of `view`: this is the log, as far as you lack it."""

    view: int
    log: Suffix


class GetState(Packet, frozen=True, tag=206):
    """To the leader of `view`: entries are missing here after `committed`; answered by StartView."""

    view: int
    committed: int


class Recovery(Packet, frozen=True, tag=207):
    """To all: I know nothing in this `life`, my nonce."""

    life: int


class RecoveryResponse(Packet, frozen=True, tag=208):
    """To a member in its given `life`: the view here, and if the sender leads it the log."""

    life: int
    view: int
    lives: Lives
    log: Suffix | None


class Piece(Packet, frozen=True, tag=209):
    """Part `index` of a transfer: entries, or one chunk of a snapshot."""

    transfer: int
    index: int
    entries: tuple[bytes, ...]


LOG_PACKETS: tuple[type[Packet], ...] = (
    Prepare, PrepareOk, Commit, StartViewChange, DoViewChange, StartView, GetState, Recovery, RecoveryResponse, Piece,
)  # fmt: skip


def check_order(*numbers: int) -> None:
    """Numbers that grow, or stay, from left to right, none of them absurd."""
    low = 0
    for number in numbers:
        if not low <= number < NUMBER_LIMIT:
            raise PeerError(f"the numbers {numbers} of a log, which should ascend from 0")
        low = number


def check_suffix(log: Suffix) -> None:
    """What is committed lies in the log, and the pieces can be sent."""
    check_order(log.start, log.last)
    check_order(log.committed, log.last)
    check_order(log.transfer)
    if not 0 <= log.pieces <= PIECES_MAX:
        raise PeerError(f"a log in {log.pieces} pieces")
    if log.chunks is not None and not (0 <= log.chunks <= log.pieces and log.start <= log.committed):
        raise PeerError(f"a snapshot of {log.chunks} pieces, of operation {log.start}")


def check_lives(lives: Lives, members: tuple[NodeNumber, ...]) -> dict[NodeNumber, int]:
    """By member, each at most once."""
    known = dict(lives)
    if len(known) < len(lives) or not known.keys() <= set(members) or any(life < 0 for life in known.values()):
        raise PeerError(f"lives of others than the members, or twice of one: {lives}")
    return known


def newest(first: Mapping[NodeNumber, int], second: Mapping[NodeNumber, int]) -> dict[NodeNumber, int]:
    """The latest life that either knows, of each member."""
    return {member: max(first.get(member, 0), second.get(member, 0)) for member in sorted(first.keys() | second.keys())}
