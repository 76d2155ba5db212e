"""Everything that can be set in M2MC."""

from __future__ import annotations

import msgspec

from castbed import Duration
from castbed.parts import AntiEntropyOptions

MILLISECOND = 10**6


class RosterOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often a process repeats what it knows about its groups."""

    announce_every: Duration = Duration(1000 * MILLISECOND)
    """Between two announcements of a member, on average; each is up to a quarter early or late."""
    answer_within: Duration = Duration(50 * MILLISECOND)
    """Longest random wait before an answer to an advertisement or to a stale roster."""

    def __post_init__(self) -> None:
        if self.announce_every < 1 or self.answer_within < 1:
            raise ValueError("`announce_every` and `answer_within` must be positive")


class M2mcOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`sync_backoff_max` is for `published`, the others are for `repaired`."""

    sync_backoff_max: Duration = Duration(500 * MILLISECOND)
    """Longest random wait before a response to a synchronisation request (M2-Q30)."""
    held_max: int = 4096
    """Messages of a group that may wait; one more is dropped and asked for again."""
    roster: RosterOptions = RosterOptions()
    repair: AntiEntropyOptions = AntiEntropyOptions()
    """Digests and repairs; the log is kept over restarts whatever `persist` says."""

    def __post_init__(self) -> None:
        if self.sync_backoff_max < 0:
            raise ValueError("`sync_backoff_max` cannot be negative")
        if not 0 < self.held_max < self.repair.log_max:
            raise ValueError(
                "`held_max` must be positive, and less than `repair.log_max`, for held messages stay there"
            )
