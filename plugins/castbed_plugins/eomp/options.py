"""What can be set when running `eomp`; the defaults are the paper's, or those of the spec where the paper has none."""

from __future__ import annotations

import msgspec

from castbed import Duration

MILLISECOND = 10**6


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Timers and the two choices that the paper leaves open."""

    request_timeout: Duration = Duration(25 * MILLISECOND)
    """T_REQ: after which a host repeats a request that was not acknowledged."""
    greet_timeout: Duration = Duration(25 * MILLISECOND)
    """T_GREET (R19)."""
    join_timeout: Duration = Duration(25 * MILLISECOND)
    """T_JOIN and T_LEAVE (R19)."""
    nack_period: Duration = Duration(1000 * MILLISECOND)
    """T_NACK: how often each host reports what it has."""
    sync_period: Duration = Duration(500 * MILLISECOND)
    """T_SYNC: how often coordinators tell each other what hosts reported."""
    listen_before_greetack: bool = False
    """Let hosts take group traffic in a new cell before they are registered there (R9)."""
    cache_size: int = 0
    """Messages that a station keeps for answering NACKs itself; 0: none (R12)."""

    def __post_init__(self) -> None:
        timers = (self.request_timeout, self.greet_timeout, self.join_timeout, self.nack_period, self.sync_period)
        if min(timers) < 1:
            raise ValueError("timeouts and periods must be positive")
        if self.cache_size < 0:
            raise ValueError("`cache_size` cannot be negative")
