"""What is longer than a packet of the interface: it goes in pieces, arrives whole or not at all, and harms nobody."""

from __future__ import annotations

import socket
from collections import Counter
from errno import EIO
from itertools import count
from random import Random
from typing import Any

import pytest
from udp_radios import TOKEN, Radio, loopback_groups, on_air, settled

from castbed.links import SHARED_AIR, Arrival
from castbed_adapters.pieces import PIECE_OVERHEAD, all_pieces, pieces
from castbed_adapters.udp import segments
from castbed_adapters.udp.addresses import Groups
from castbed_adapters.udp.air import DATAGRAM_BYTES_MAX, ENVELOPE, MAGIC, SLIP, VERSION, checked

STEP = 1472  # of an Ethernet; loopback itself takes the largest datagram uncut
_SOL_UDP, _UDP_GRO = 17, 104


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Groups:
    """Of an interface whose packets are small."""
    monkeypatch.setattr(Groups, "packet_bytes", lambda *_: STEP)
    return loopback_groups()


def letter(frame: bytes, sender: int = 1, token: bytes = TOKEN) -> bytes:
    """The datagram of a frame for everybody."""
    return checked(ENVELOPE.pack(MAGIC, VERSION, token, sender, SHARED_AIR) + SLIP.pack(len(frame), 0) + frame)


def cut(frame: bytes, serial: int = 7, sender: int = 1, token: bytes = TOKEN) -> list[bytes]:
    return list(pieces(token, sender, serial, letter(frame, sender, token), STEP))


def frame_of(size: int) -> bytes:
    return Random(size).randbytes(size)


def sent_and_heard(groups: Groups, frames: list[bytes], joins: bool = True) -> tuple[list[bytes], list[int]]:
    """What the second radio hears of the first, and what the first sent at once each time."""

    async def play(sender: Radio, receiver: Radio) -> tuple[list[bytes], list[int]]:
        if not joins:
            receiver._socket.setsockopt(_SOL_UDP, _UDP_GRO, 0)
        for frame in frames:
            sender.transmit(frame, ())
            sender.flush()
        await settled()
        assert set(receiver.counters) <= {"small_buffer"}
        assert set(sender.counters) <= {"small_buffer"}
        return receiver.heard, sender.sizes

    return on_air(groups, play, SHARED_AIR, SHARED_AIR)


@pytest.mark.parametrize("joins", [True, False], ids=["joined", "one by one"])
def test_long_frames_arrive_whole_and_in_order_among_short_ones(groups: Groups, joins: bool) -> None:
    frames = [frame_of(size) for size in (10, 1500, 3, 40_000, STEP * 3, 20, 65_000, 5)]
    assert sent_and_heard(groups, frames, joins)[0] == frames


def test_what_fits_goes_uncut_and_the_longest_goes_twice(groups: Groups) -> None:
    overhead = len(letter(b""))
    frames = [frame_of(size) for size in (STEP - overhead, STEP - overhead + 1, 65_000)]
    heard, sizes = sent_and_heard(groups, frames)
    assert heard == frames
    assert sizes[:2] == [STEP, STEP + 1 + 2 * PIECE_OVERHEAD]
    assert len(sizes) == 4
    assert max(sizes) <= min(DATAGRAM_BYTES_MAX, segments.SEGMENTS_MAX * STEP)


def test_an_interface_that_takes_no_segments_gets_datagrams(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = count()

    def refuse(*_: Any) -> None:
        next(tries)
        raise OSError(EIO, "no checksums here")

    monkeypatch.setattr(segments, "send_to_be_cut", refuse)
    frames = [frame_of(20_000), b"short", frame_of(30_000)]
    assert sent_and_heard(groups, frames)[0] == frames
    assert next(tries) == 1


def test_a_kernel_that_knows_no_segments_is_not_asked_for_them(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "can_be_cut", lambda _: False)
    frames = [frame_of(20_000), b"short"]
    heard, sizes = sent_and_heard(groups, frames)
    assert heard == frames
    assert sizes == [len(letter(frame)) for frame in frames]


def test_an_interface_of_tiny_packets_leaves_the_cutting_to_ip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Groups, "packet_bytes", lambda *_: 40)
    assert sent_and_heard(loopback_groups(), [frame_of(5000)])[1] == [len(letter(bytes(5000)))]


def heard_of(groups: Groups, datagrams: list[bytes]) -> tuple[list[bytes], Counter[str]]:
    """What a radio hears of these, and what it has counted when it is closed."""
    kept: list[Radio] = []

    async def play(receiver: Radio) -> list[bytes]:
        kept.append(receiver)
        with groups.open_socket() as stranger:
            for datagram in datagrams:
                stranger.sendto(datagram, groups.reached_at(groups.of_cell(SHARED_AIR)))
            await settled()
        return receiver.heard

    heard = on_air(groups, play, SHARED_AIR)
    kept[0].counters.pop("small_buffer", None)
    return heard, kept[0].counters


def test_a_letter_that_lacks_a_piece_is_counted_and_disturbs_no_other(groups: Groups) -> None:
    lost, whole = cut(frame_of(5000), serial=1, sender=2), cut(frame_of(6000), serial=2, sender=2)
    heard, counters = heard_of(groups, [*lost[:2], *lost[3:], *whole, letter(b"short", 2)])
    assert heard == [frame_of(6000), b"short"]
    assert counters == {"incomplete": 1}


def test_pieces_in_any_order_and_twice_make_the_letter_once(groups: Groups) -> None:
    parts = cut(frame_of(9000), sender=2)
    assert heard_of(groups, [*reversed(parts[1:]), parts[1], parts[0]]) == ([frame_of(9000)], Counter())


def test_pieces_of_other_runs_or_damaged_or_of_pieces_are_dropped(groups: Groups) -> None:
    foreign = cut(frame_of(3000), token=b"that run", sender=2)
    damaged = cut(frame_of(3000), serial=1, sender=2)
    damaged[1] = damaged[1][:-1] + bytes((damaged[1][-1] ^ 1,))
    cut_short = [cut(frame_of(3000), serial=2, sender=2)[0][:-1]]
    inner = next(pieces(TOKEN, 2, 8, letter(b"x", 2), STEP))
    nested = list(pieces(TOKEN, 2, 9, inner, STEP))
    heard, counters = heard_of(groups, [*foreign, *damaged, *cut_short, *nested])
    assert heard == []
    assert counters == {"foreign": len(foreign) + 1, "malformed": 2}


def test_all_pieces_at_once_are_one_only_if_they_are_what_they_should_be() -> None:
    parts, others = cut(frame_of(4000)), cut(frame_of(4000), serial=8)
    batch = b"".join(parts)
    whole = all_pieces(memoryview(batch), STEP)
    assert whole is not None
    assert whole.data == letter(frame_of(4000))
    for wrong in (batch[:-1], batch + b"\0", b"".join(parts[:-1]), b"".join(parts[1:]), b"", b"".join(parts[::-1])):
        assert all_pieces(memoryview(wrong), STEP) is None
    assert all_pieces(memoryview(b"".join((*parts[:-1], others[-1]))), STEP) is None


def test_no_fuzzed_batch_is_heard_and_none_raises(groups: Groups) -> None:
    random = Random(3)
    frame = frame_of(4000)
    batch = b"".join(cut(frame, sender=2))

    async def play(receiver: Radio) -> tuple[set[bytes], int]:
        heard: list[Arrival] = []
        for _ in range(20_000):
            changed = bytearray(batch)
            for at in random.sample(range(len(changed)), random.randint(1, 4)):
                changed[at] ^= random.randint(1, 255)
            told = memoryview(bytes(changed[: random.choice((len(changed), random.randint(0, len(changed))))]))
            receiver._take_joined(told, random.choice((STEP, STEP, random.randint(1, len(batch)))), 0, heard)
        return {arrival.frame for arrival in heard}, len(receiver._reassembly)

    heard, incomplete = on_air(groups, play, SHARED_AIR)
    assert heard <= {frame}  # where only what stands in the heads was changed, and does not matter
    assert incomplete <= 64


def test_the_kernel_joins_what_it_has_cut(groups: Groups) -> None:
    """Otherwise the tests above would show nothing of it."""
    with groups.open_socket() as sender, groups.open_socket() as receiver:
        assert segments.can_be_cut(sender)
        groups.join(receiver, groups.of_cell(SHARED_AIR))
        receiver.setblocking(True)
        receiver.settimeout(2)
        segments.take_joined(receiver)
        segments.send_to_be_cut(sender, bytes(4000), STEP, groups.reached_at(groups.of_cell(SHARED_AIR)))
        data, ancillary, _, _ = receiver.recvmsg(1 << 16, segments.ANCILLARY_BYTES)
    assert (len(data), segments.joined_step(ancillary)) == (4000, STEP)
    assert segments.joined_step([(socket.SOL_SOCKET, 104, bytes(4))]) == 0
