"""Everything that can be set in RelM."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from castbed import Duration

MILLISECOND = 10**6


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The durations are those of the spec: 25 ms, as EOMP repeats its requests."""

    arq: Duration = Duration(25 * MILLISECOND)
    """A station repeats a message that a host has not acknowledged for so long (*T_ARQ*)."""
    request_retry: Duration = Duration(25 * MILLISECOND)
    """A host repeats HELLO, JOIN and LEAVE that were not answered for so long."""
    wired_copies: Literal["per_mss", "per_mh"] = "per_mss"
    """From a supervisor to a station: one copy of a message, or one for each host in the cell."""
    awaiting_max: Annotated[int, msgspec.Meta(ge=1)] = 16_384
    """Messages of a source that not all domains have delivered; one more is refused, which bounds all buffers."""
    early_max: Annotated[int, msgspec.Meta(ge=1)] = 4096
    """Messages of one source and group that wait at a host for a gap; one more is dropped, and comes again."""

    def __post_init__(self) -> None:
        if self.arq < 1 or self.request_retry < 1:
            raise ValueError("`arq` and `request_retry` must be positive")
