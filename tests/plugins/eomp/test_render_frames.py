"""The volume and its frames: the same to the bit everywhere, and a head to look at (spec 2.1, 2.4)."""

from __future__ import annotations

from hashlib import sha256

import pytest

from castbed import PeerError
from castbed_plugins.eomp.render import Volume, cast, head
from castbed_plugins.eomp.render.options import RenderOptions
from castbed_plugins.eomp.render.volume import BRAIN, NOISE, SKULL

SMALL = head(21, 32)


def pixel(image: bytes, side: int, row: float, column: float) -> int:
    return image[int(row * side) * side + int(column * side)]


def test_the_task_has_the_size_of_the_papers() -> None:
    """84 slices of 128 x 128 samples, 360 frames of 256 x 256 pixels."""
    options = RenderOptions()
    assert options.slices * options.side * options.side == 1_376_256
    assert (options.frames, options.image_side) == (360, 256)


def test_volume_and_frames_are_the_same_to_the_bit_on_every_machine() -> None:
    assert SMALL.digest().hex()[:16] == "4a1e30af39678bd3"
    frames = b"".join(cast(SMALL, frame, 8, 32) for frame in range(8))
    assert sha256(frames).hexdigest()[:16] == "ad19f3759efc8097"


def test_another_seed_changes_the_noise_and_not_the_shape() -> None:
    other = head(21, 32, seed=2)
    assert other.samples != SMALL.samples
    assert all(abs(a - b) <= 2 * NOISE for a, b in zip(other.samples, SMALL.samples, strict=True))


def test_the_brain_is_seen_where_the_skull_is_opened() -> None:
    """From one side through the opening, from the other side bone lies before it."""
    front, back = cast(SMALL, 120, 360, 64), cast(SMALL, 300, 360, 64)
    opened, closed = pixel(front, 64, 0.35, 0.5), pixel(back, 64, 0.35, 0.5)
    assert abs(opened - BRAIN) <= 2 * NOISE
    assert abs(closed - BRAIN) > 2 * NOISE
    assert max(front) > SKULL - 4 * NOISE


def test_nothing_is_seen_beside_the_head() -> None:
    image = cast(SMALL, 17, 360, 64)
    assert [pixel(image, 64, row, column) for row in (0.01, 0.99) for column in (0.01, 0.99)] == [0, 0, 0, 0]


def test_a_full_turn_has_no_two_equal_quarters() -> None:
    assert len({cast(SMALL, frame, 4, 32) for frame in range(4)}) == 4


def test_a_slice_of_one_bright_sample_is_a_bright_spot_in_the_middle() -> None:
    samples = bytearray(9)
    samples[4] = 255
    image = cast(Volume(1, 3, bytes(samples)), 0, 360, 3)
    assert image == bytes([0, image[1], 0]) * 3
    assert image[1] > 0


def test_impossible_volumes_and_frames_are_refused() -> None:
    with pytest.raises(PeerError, match="3 samples"):
        Volume(1, 2, b"abc")
    with pytest.raises(ValueError, match="samples"):
        head(0, 8)
    with pytest.raises(ValueError, match="no frame 8"):
        cast(SMALL, 8, 8)
