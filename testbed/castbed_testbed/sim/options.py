"""Options of the transport `sim`, apart from the simulator itself, so that listing plugins stays quick."""

from __future__ import annotations

import msgspec


class SimOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`decode` hands receivers the decoded bytes instead of the sender's object: slower, and as on a network."""

    decode: bool = False
