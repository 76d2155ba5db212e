"""Sealed frames: only what was made with the key, unchanged and for the first time, reaches a machine."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castbed import Group, Mid, Packet, PeerError, authentication
from castbed.authentication import (
    SEAL_BYTES,
    WINDOW,
    ForeignError,
    ForgedError,
    Guard,
    ReplayedError,
    Seal,
    SealedCodec,
    Window,
    derived_key,
    place,
)
from castbed.capture import FrameHeader
from castbed.wire import FRAME_BYTES_MAX, HAS_MID, HEADER, SEALED, Codec, FrameTooLargeError

KEY = b"a key that nobody guesses"
OTHER_KEY = b"a key that somebody guesses"


class Said(Packet, frozen=True, tag=1):
    """One message."""

    group: Group
    mid: Mid
    payload: bytes
    words: str


SAID = Said(3, Mid(2, 7), b"payload", "words")
FAMILIES = {"talk": (Said,)}


def node(life: int = 0, key: bytes = KEY, run: bytes = b"run", now: int = 0) -> SealedCodec:
    """A node whose clock stands still."""
    return SealedCodec(FAMILIES, Seal(key, run), life, lambda: now)


def test_a_sealed_packet_comes_out_as_it_went_in() -> None:
    assert node().decode(node().encode(SAID, 2)) == (SAID, 2)


def test_the_header_of_a_sealed_frame_reads_like_that_of_a_plain_one() -> None:
    plain, sealed = Codec(FAMILIES).encode(SAID, 2), node().encode(SAID, 2)
    assert len(sealed) == len(plain) + SEAL_BYTES
    header = FrameHeader._make(HEADER.unpack_from(sealed))
    assert header.flags == HAS_MID | SEALED
    assert header._replace(flags=HAS_MID) == FrameHeader._make(HEADER.unpack_from(plain))
    assert sealed[HEADER.size : len(plain)] == plain[HEADER.size :]


def test_a_frame_without_a_seal_is_foreign() -> None:
    receiver = node()
    with pytest.raises(ForeignError):
        receiver.decode(Codec(FAMILIES).encode(SAID, 2) + bytes(SEAL_BYTES))
    with pytest.raises(ForeignError):
        receiver.decode(b"short")
    with pytest.raises(ForeignError):
        receiver.decode(bytes(FRAME_BYTES_MAX + 1))
    assert receiver.guard.dropped == {"foreign": 3}


@pytest.mark.parametrize("sender", [node(key=OTHER_KEY), node(run=b"yesterday")], ids=["another key", "another run"])
def test_a_frame_sealed_with_another_key_or_for_another_run_is_forged(sender: SealedCodec) -> None:
    receiver = node()
    with pytest.raises(ForgedError):
        receiver.decode(sender.encode(SAID, 2))
    assert receiver.guard.dropped == {"forged": 1}


def test_a_plain_codec_does_not_take_sealed_frames() -> None:
    with pytest.raises(PeerError):
        Codec(FAMILIES).decode(node().encode(SAID, 2))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_changed_byte_goes_unnoticed(data: st.DataObject) -> None:
    frame = bytearray(node().encode(SAID, 2))
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises((ForeignError, ForgedError)):
        node().decode(bytes(frame))


def test_a_frame_passes_once() -> None:
    frame, receiver = node().encode(SAID, 2), node()
    receiver.decode(frame)
    with pytest.raises(ReplayedError):
        receiver.decode(frame)
    assert receiver.guard.dropped == {"replayed": 1}


def test_frames_may_overtake_each_other_within_the_window() -> None:
    sender, receiver = node(), node()
    frames = [sender.encode(SAID, 2) for _ in range(WINDOW)]
    Random(1).shuffle(frames)
    assert all(receiver.decode(frame)[0] == SAID for frame in frames)


def test_a_frame_from_before_the_window_counts_as_seen() -> None:
    sender, receiver = node(), node()
    early, last, *frames = [sender.encode(SAID, 2) for _ in range(WINDOW + 2)]
    for frame in frames:
        receiver.decode(frame)
    receiver.decode(last)
    with pytest.raises(ReplayedError):
        receiver.decode(early)


def test_a_frame_counts_only_at_its_place() -> None:
    """Nobody takes it to another cell, to another addressee, or from a wire to the air."""
    here = place(False, 3, (4, 5))
    others = [place(True, 3, (4, 5)), place(False, 2, (4, 5)), place(False, 3, (4,)), place(False, 3, ()), b""]
    frame, receiver = node().encode(SAID, 2, here), node()
    for elsewhere in others:
        with pytest.raises(ForgedError):
            receiver.decode(frame, elsewhere)
    assert receiver.decode(frame, here) == (SAID, 2)
    assert receiver.guard.dropped == {"forged": len(others)}


def test_what_was_sealed_before_its_receiver_listened_is_too_late_also_after_a_newer_frame() -> None:
    old, new = (node(now=now).encode(SAID, 2) for now in (1_000, 2_000))
    receiver = node(life=1)
    for frame in (old, new, old):
        if frame is new:
            receiver.decode(frame, since=1_500)
        else:
            with pytest.raises(ReplayedError):
                receiver.decode(frame, since=1_500)
    assert receiver.guard.dropped == {"replayed": 2}


def test_a_new_life_begins_anew_and_ends_the_old_one() -> None:
    old, new, receiver = node(), node(life=1), node()
    held_back = [old.encode(SAID, 2) for _ in range(3)]
    receiver.decode(held_back[0])
    receiver.decode(new.encode(SAID, 2))
    with pytest.raises(ReplayedError):
        receiver.decode(held_back[1])
    receiver.decode(new.encode(SAID, 2))


def test_senders_have_windows_of_their_own() -> None:
    one, other, receiver = node(), node(), node()
    receiver.decode(one.encode(SAID, 2))
    receiver.decode(other.encode(SAID, 3))


@given(st.lists(st.integers(0, 40), max_size=200))
def test_a_window_admits_each_frame_once_and_none_that_is_older_than_those_it_knows(times: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authentication, "WINDOW", 8)
        window, admitted = Window(0), list[int]()
        for at in times:
            over = sorted(admitted)[:-8]
            expected = at not in admitted and at > max(over, default=-1)
            assert window.admits(at) == expected
            admitted += [at] * expected


def test_a_sealed_frame_is_no_larger_than_a_frame_may_be() -> None:
    with pytest.raises(FrameTooLargeError):
        node().encode(Said(3, Mid(2, 7), bytes(FRAME_BYTES_MAX - 60), ""), 2)


def test_neither_keys_nor_seals_show_themselves() -> None:
    assert "guess" not in repr(Seal(KEY))


def test_derived_keys_differ_by_purpose_and_by_every_part() -> None:
    parts = [(b"a",), (b"b",), (b"a", b"b"), (b"ab",), (b"a", b"")]
    assert len({derived_key(KEY, *part) for part in parts}) == len(parts)
    with pytest.raises(ValueError, match="at least 16 bytes"):
        derived_key(b"short", b"a")


def test_a_sender_that_no_network_has_is_foreign_even_with_the_key() -> None:
    guard = Guard(Seal(KEY, b"run"), senders_max=5)
    with pytest.raises(ForeignError):
        guard.opened(node().encode(SAID, 6))


def test_forty_thousand_hostile_frames_reach_nobody() -> None:
    """A million of them, with memory measured: `benchmarks/hostile_frames.py`."""
    random, sender, receiver = Random(7), node(), node()
    known = [sender.encode(SAID, 2) for _ in range(32)]
    for frame in known:
        receiver.decode(frame)
    for _ in range(40_000):
        frame = bytearray(random.choice(known))
        for _ in range(random.randint(0, 3)):
            frame[random.randrange(len(frame))] = random.randrange(256)
        with pytest.raises(PeerError):
            receiver.decode(bytes(frame[: random.choice([len(frame), random.randrange(len(frame) + 1)])]))
    assert receiver.guard.dropped.total() == 40_000
    assert set(receiver.guard.dropped) == {"foreign", "forged", "replayed"}
