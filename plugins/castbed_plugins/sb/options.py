"""What can be set when running `sb`; the first two concern both variants, the others the repaired one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from castbed import Duration
from castbed.parts import AntiEntropyOptions
from castbed_plugins.sb.literal import LiteralOrdering
from castbed_plugins.sb.ordering import Ordering, OrderingSteps

STORES: Mapping[str, Callable[[], OrderingSteps]] = {"indexed": Ordering, "literal": LiteralOrdering}


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of both variants of `sb`."""

    store: Literal["indexed", "literal"] = "indexed"
    """Data structures: indexed by parent, or the paper's tables that are searched in full."""
    answer_undelivered: bool = False
    """Let applications answer messages that were not delivered to them (SB-Q11)."""
    held_max: int = 4096
    """Messages that may wait at a member; one more is dropped and asked for again (SB-R7)."""
    parent_wait: Duration = Duration(100 * 10**6)
    """How long a held message waits before this member says what it lacks (SB-R2)."""
    repair: AntiEntropyOptions = AntiEntropyOptions()
    """Digests, repairs, and what is kept for them (SB-R1)."""

    def __post_init__(self) -> None:
        if self.held_max < 1 or self.parent_wait < 1:
            raise ValueError("`held_max` and `parent_wait` must be positive")
        if self.held_max >= self.repair.log_max:
            raise ValueError("`held_max` must be less than `repair.log_max`: held messages are never evicted from it")
