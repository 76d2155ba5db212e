"""Letters and pieces as bytes: what goes out comes in, what a driver appends does no harm, and nothing is unbounded."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castbed import Group, Mid, Packet, PeerError
from castbed.authentication import Seal, SealedCodec
from castbed.wire import ETHERTYPE, Codec
from castbed_adapters.pieces import PIECE_OVERHEAD, PIECES_MAX, Piece, pieces, read_piece
from castbed_adapters.reassembly import INCOMPLETE_BYTES_MAX, INCOMPLETE_MAX, PATIENCE_NS, Reassembly
from castbed_adapters.wifi.envelope import letter_bytes, read_letter
from castbed_adapters.wifi.framing import EthernetFraming

TOKEN = b"this run"


class Said(Packet, frozen=True, tag=1):
    """One message."""

    group: Group
    mid: Mid
    payload: bytes
    words: str


def frame(payload: bytes = b"payload", sealed: bool = False) -> bytes:
    codec = SealedCodec({"talk": (Said,)}, Seal(bytes(16)), 0, lambda: 0) if sealed else Codec({"talk": (Said,)})
    return codec.encode(Said(1, Mid(2, 1), payload, "words"), 2)


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("to", [(), (3,), (3, 4)], ids=str)
def test_a_letter_is_read_back_whatever_is_appended_to_it(sealed: bool, to: tuple[int, ...]) -> None:
    whole = frame(sealed=sealed)
    letter = read_letter(letter_bytes(TOKEN, whole, 5, to) + bytes(46))
    assert letter == (TOKEN, 2, 5, to, whole)


def test_a_letter_begins_with_the_frame_as_it_is() -> None:
    assert letter_bytes(TOKEN, frame(), 0, ()).startswith(frame())


@given(st.binary(max_size=200))
def test_reading_nonsense_raises_nothing_but_peer_errors(data: bytes) -> None:
    for read in (read_letter, read_piece):
        with pytest.raises(PeerError):
            read(data)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 255)), min_size=1, max_size=4, unique_by=lambda c: c[0]))
def test_letters_that_were_changed_on_their_way_are_refused(changes: list[tuple[int, int]]) -> None:
    whole = letter_bytes(TOKEN, frame(), 0, (3, 4))
    data = bytearray(whole)
    for at, change in changes:
        data[at % len(data)] ^= change
    if data != whole:  # two changes of one byte may undo each other
        with pytest.raises(PeerError):
            read_letter(bytes(data))


@given(st.integers(1, 5000), st.integers(PIECE_OVERHEAD + 20, 1500), st.randoms())
def test_a_letter_comes_together_from_its_pieces_in_any_order(size: int, room: int, random: Random) -> None:
    letter = random.randbytes(size)
    cut = list(pieces(TOKEN, 2, 7, letter, room))
    assert all(len(piece) <= room for piece in cut)
    random.shuffle(cut)
    reassembly = Reassembly(Counter())
    whole = [reassembly.add(read_piece(piece + bytes(46)), 0) for piece in cut]
    assert whole[-1] == letter
    assert whole[:-1] == [None] * (len(cut) - 1)
    assert len(reassembly) == 0


def piece(serial: int, at: int = 0, of: int = 2, data: bytes = b"x") -> Piece:
    return Piece(TOKEN, 2, serial, at, of, data)


def test_a_piece_that_comes_twice_counts_once() -> None:
    reassembly = Reassembly(Counter())
    assert [reassembly.add(piece(1, at), 0) for at in (0, 0, 1)] == [None, None, b"xx"]


def test_what_stays_incomplete_is_dropped_after_a_while_and_counted() -> None:
    counters: Counter[str] = Counter()
    reassembly = Reassembly(counters)
    reassembly.add(piece(1), 0)
    reassembly.add(piece(2), PATIENCE_NS + 1)
    assert counters == {"incomplete": 1}
    assert reassembly.add(piece(1, at=1), PATIENCE_NS + 1) is None
    assert reassembly.add(piece(2, at=1), PATIENCE_NS + 1) == b"xx"


def test_what_is_incomplete_at_the_end_is_counted() -> None:
    counters: Counter[str] = Counter()
    reassembly = Reassembly(counters)
    for serial in (1, 2):
        reassembly.add(piece(serial), 0)
    reassembly.end()
    assert counters == {"incomplete": 2}
    assert len(reassembly) == 0


def test_incomplete_letters_are_bounded_in_number_and_in_bytes() -> None:
    counters: Counter[str] = Counter()
    reassembly = Reassembly(counters)
    for serial in range(3 * INCOMPLETE_MAX):
        reassembly.add(piece(serial), 0)
    assert len(reassembly) == INCOMPLETE_MAX
    assert counters["incomplete"] == 2 * INCOMPLETE_MAX
    large = Reassembly(counters)
    for serial in range(10):
        large.add(piece(serial, data=bytes(INCOMPLETE_BYTES_MAX // 4)), 0)
    assert len(large) <= 4


def test_pieces_that_do_not_agree_how_many_they_are_make_no_letter() -> None:
    counters: Counter[str] = Counter()
    reassembly = Reassembly(counters)
    reassembly.add(piece(1), 0)
    assert reassembly.add(piece(1, at=1, of=3), 0) is None
    assert counters == {"malformed": 1}


def test_more_pieces_than_a_letter_can_have_are_nonsense() -> None:
    first = next(iter(pieces(TOKEN, 2, 7, bytes((PIECES_MAX + 1) * 10), PIECE_OVERHEAD + 10)))
    with pytest.raises(PeerError):
        read_piece(first)


def test_ethernet_frames_are_broadcasts_from_the_interface() -> None:
    wrapped = EthernetFraming(b"\x02abcde").wrapped(ETHERTYPE, b"data")
    assert wrapped == b"\xff" * 6 + b"\x02abcde" + b"\x88\xb5" + b"data"
    assert EthernetFraming(b"\x02fghij").unwrapped(wrapped, True) == (ETHERTYPE, b"data")
    with pytest.raises(PeerError):
        EthernetFraming(b"\x02abcde").unwrapped(b"short", True)
