"""Options of the transport `netns`, apart from its devices, so that listing plugins stays quick."""

from __future__ import annotations

from typing import Annotated

import msgspec

from castbed.links import LinkOptions
from castbed_adapters.receive_buffer import ReceiveBuffer


class NetnsOptions(LinkOptions, frozen=True, forbid_unknown_fields=True):
    """`mtu` of the radios: longer frames travel in pieces. `receive_buffer` is kept for a node that is busy."""

    mtu: Annotated[int, msgspec.Meta(ge=576, le=9000)] = 1500
    receive_buffer: ReceiveBuffer = ReceiveBuffer(4 * 2**20)
