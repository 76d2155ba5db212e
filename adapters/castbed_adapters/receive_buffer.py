"""The size of a receive buffer as an option, apart from sockets, so that listing plugins stays quick."""

from __future__ import annotations

from castbed.units import ByteSize

RECEIVE_BUFFER_MAX = 1023 * 2**20  # the kernel keeps the double in an int, which ends a byte before 2 GiB


class ReceiveBuffer(ByteSize):
    """What the kernel keeps for a node that is busy."""

    @classmethod
    def parse(cls, written: object) -> ReceiveBuffer:
        """Read it; ValueError for more than a kernel can be asked for."""
        size = super().parse(written)
        if size > RECEIVE_BUFFER_MAX:
            raise ValueError(f"expected at most {RECEIVE_BUFFER_MAX >> 20}MiB, got {written!r}")
        return cls(size)
